// SPDX-License-Identifier: GPL-2.0-only
//! Mode idle alone: does a kernel without CONFIG_ABIS_FULL refuse mode full, and leave out what nobody holds all the same?

mod common;
use common::checked::{self, counted};
use common::row;

const KERNEL: &str = "abis-idle-debug";

#[test]
fn mode_full_is_refused() {
    let said = checked::shell(
        "cd /sys/kernel/mm/abis; for m in full full-hw; do echo $m 2>&1 > mode || echo refused $m; done; \
         echo now $(cat mode), knobs $(ls); dmesg | grep 'abis: '",
        &["--cpus", "2", "--tlb", "hardware"],
        &checked::named(KERNEL, "idle", "abis_adaptive=0"),
    );
    for mode in ["full", "full-hw"] {
        assert!(said.contains(&format!("refused {mode}")), "{said}");
        let why = format!("abis: stays idle, not {mode}: this kernel is built without it (CONFIG_ABIS_FULL)");
        assert!(said.contains(&why), "{said}");
    }
    assert!(said.contains("now idle, knobs mode round_every"), "{said}");
}

/// Each site leaves flushes out, the machine was asked at each, and none is left to single CPUs.
#[test]
fn idle_pages_are_not_flushed() {
    let args = ["elisions", "--units", "256", "--cpus", "4", "--tlb", "hardware"];
    let results = checked::clean(&args, &checked::named(KERNEL, "idle", ""));
    let row = row(&results, "elisions", 4);
    for site in ["zap", "protect", "remap", "migrate", "reclaim"] {
        let elided = counted(row, &format!("{site}_idle"));
        assert!(elided >= 256, "{site}: {elided} elided: {row}");
    }
    assert!(row["checked"].as_u64().is_some_and(|checked| checked > 1000), "{row}");
    for none in ["inserted", "narrowed", "hidden"] {
        assert_eq!(counted(row, none), 0, "{row}");
    }
}
