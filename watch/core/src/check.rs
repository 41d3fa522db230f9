// SPDX-License-Identifier: GPL-2.0-only
//! What works on this machine, and the exact remedy for what does not.

use crate::kernel;
use crate::observer::Observer;
use crate::options::Options;
use ceasefire_base::Error;

#[derive(Debug, Clone)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// Watching works without it; the detail says what is lost.
    pub is_optional: bool,
    pub detail: String,
    pub remedy: Option<String>,
}

/// Without it nothing is watched.
fn failed(name: &'static str, error: &Error) -> Check {
    let (detail, remedy) = (error.message.clone(), error.remedy.clone());
    Check { name, ok: false, is_optional: false, detail, remedy }
}

fn check(name: &'static str, ok: bool, is_optional: bool, detail: impl Into<String>, remedy: &str) -> Check {
    let remedy = (!ok).then(|| remedy.to_string());
    Check { name, ok, is_optional, detail: detail.into(), remedy }
}

/// Attaches once, for real: only that tells.
pub fn examine() -> Vec<Check> {
    let mut checks = Vec::new();
    let symbols = kernel::symbols();
    match &symbols {
        Ok(symbols) => {
            let has = |name: &str| kernel::has_tracepoint(symbols, name);
            let says =
                |ok: bool, there: &str, lost: &str| if ok { there.to_string() } else { lost.to_string() };
            let csd = has("csd_queue_cpu") && has("csd_function_entry") && has("csd_function_exit");
            checks.push(check("symbols", true, false, "addresses and names of kernel functions", ""));
            checks.push(check(
                "tlb:tlb_flush",
                has("tlb_flush"),
                true,
                says(
                    has("tlb_flush"),
                    "requests, including those that find every CPU lazy",
                    "lost: the number of requests",
                ),
                "use a kernel with CONFIG_TRACEPOINTS (any distribution's)",
            ));
            checks.push(check(
                "csd tracepoints",
                csd,
                true,
                says(csd, "targets, victims, the three times", "lost: targets, victims, the three times"),
                "use Linux 6.5 or newer",
            ));
        }
        Err(error) => checks.push(failed("symbols", error)),
    }
    let btf = kernel::has_btf();
    checks.push(check(
        "BTF",
        btf,
        true,
        if btf { "addresses, pages, why full" } else { "lost: addresses, pages, why full" },
        "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
    ));
    let row = kernel::rows().0;
    checks.push(check(
        "TLB row",
        row.is_some(),
        true,
        if row.is_some() { "our count is checked against it" } else { "lost: the check of our count" },
        "mount /proc; a kernel with CONFIG_SMP has the row",
    ));
    match symbols.and_then(|_| Observer::start(Options { user_stacks: true, ..Options::default() })) {
        Ok(_) => checks.push(check("probes", true, false, "loaded, attached and removed again", "")),
        Err(error) => checks.push(failed("probes", &error)),
    }
    checks.extend(kernel::blind_spots().into_iter().map(|detail| Check {
        name: "blind spot",
        ok: false,
        is_optional: true,
        detail,
        remedy: None,
    }));
    checks
}
