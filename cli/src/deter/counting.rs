// SPDX-License-Identifier: GPL-2.0-only
//! What counts here: the observer where it can, else the kernel's own row.

use ceasefire_base::Result;
use ceasefire_deter::trial::cgroup::Cgroup;
use ceasefire_deter::trial::counter::{Counter, ProcCounter};
use std::path::Path;

/// And why it is not the observer, if it was not asked to be left out.
pub fn counter(cgroup: Option<&Cgroup>, no_bpf: bool) -> Result<(Box<dyn Counter>, Option<String>)> {
    let why = match (cgroup, no_bpf) {
        (_, true) => None,
        (None, false) => Some("no cgroup of its own could be made: it needs cgroup v2, and root".to_string()),
        (Some(cgroup), false) => match observed(cgroup) {
            Ok(counter) => return Ok((counter, None)),
            // Without rights or tracepoints there is still /proc.
            Err(error) => Some(error.message),
        },
    };
    Ok((Box::new(ProcCounter::new(Path::new("/"))?), why))
}

#[cfg(feature = "watch")]
fn observed(cgroup: &Cgroup) -> Result<Box<dyn Counter>> {
    Ok(Box::new(observed::Observed::start(cgroup.path())?))
}

#[cfg(not(feature = "watch"))]
fn observed(_: &Cgroup) -> Result<Box<dyn Counter>> {
    Err(ceasefire_base::Error::skip("this ceasefire has no observer: `make watch` builds one that has"))
}

#[cfg(feature = "watch")]
mod observed {
    use crate::watch::filters::cgroup;
    use ceasefire_base::Result;
    use ceasefire_deter::trial::counter::{Counter, Counts};
    use ceasefire_watch::{Filter, Observer, Options};
    use ceasefire_watch_model::{Cause, Class, Snapshot};
    use std::collections::BTreeMap;
    use std::path::Path;

    /// What the trial's cgroup asks for, and whom that interrupts.
    pub struct Observed {
        observer: Observer,
        before: Snapshot,
        requests_before: BTreeMap<Cause, u64>,
        lost_rows: u64,
    }

    impl Observed {
        pub fn start(path: &Path) -> Result<Observed> {
            let filter = Filter { cgroup: Some(cgroup(path)?), ..Filter::default() };
            let options = Options {
                filter,
                latencies: false,
                // Threads that live briefly would fill the table.
                senders: false,
                histograms: false,
                pairs: false,
                requests: true,
                timing: false,
                ..Options::default()
            };
            let mut observer = Observer::start(options)?;
            let before = observer.snapshot()?;
            Ok(Observed { observer, before, requests_before: BTreeMap::new(), lost_rows: 0 })
        }
    }

    impl Counter for Observed {
        fn name(&self) -> &'static str {
            "observer"
        }

        fn begin(&mut self) -> Result<()> {
            self.before = self.observer.snapshot()?;
            self.requests_before = self.observer.requests()?;
            Ok(())
        }

        fn end(&mut self) -> Result<Counts> {
            self.observer.settle()?;
            let window = self.observer.snapshot()?.since(&self.before);
            self.lost_rows = self.lost_rows.saturating_add(window.coverage.lost.rows);
            let mut counts = Counts { flushes: Some(0), received: Some(0), ..Counts::default() };
            let add = |sum: &mut Option<u64>, more: u64| *sum = sum.map(|sum| sum.saturating_add(more));
            for (cause, count) in self.observer.requests()? {
                let more = count.saturating_sub(self.requests_before.get(&cause).copied().unwrap_or(0));
                if more > 0 {
                    add(&mut counts.flushes, more);
                    counts.causes_flushes.insert(cause.to_string(), more);
                }
            }
            for site in window.sites.iter().filter(|site| site.class == Class::User) {
                add(&mut counts.received, site.tally.targets);
                let cause = counts.causes.entry(site.cause.to_string()).or_default();
                *cause = cause.saturating_add(site.tally.targets);
            }
            Ok(counts)
        }

        fn lost(&self) -> Vec<String> {
            match self.lost_rows {
                0 => Vec::new(),
                lost => vec![format!("{lost} rows had no room: the figures are too low")],
            }
        }
    }
}
