// SPDX-License-Identifier: GPL-2.0-only
//! What counts here: the observer where it can, else the kernel's own row.

use ceasefire_base::Result;
use ceasefire_deter::trial::cgroup::Cgroup;
use ceasefire_deter::trial::counter::{Counter, ProcCounter};
use std::path::Path;

pub fn counter(cgroup: Option<&Cgroup>, no_bpf: bool) -> Result<Box<dyn Counter>> {
    #[cfg(feature = "watch")]
    if let (Some(cgroup), false) = (cgroup, no_bpf) {
        // Without rights or tracepoints there is still /proc.
        if let Ok(counter) = observed::Observed::start(cgroup.path()) {
            return Ok(Box::new(counter));
        }
    }
    let _ = (cgroup, no_bpf);
    Ok(Box::new(ProcCounter::new(Path::new("/"))?))
}

#[cfg(feature = "watch")]
mod observed {
    use crate::watch::filters::cgroup;
    use ceasefire_base::Result;
    use ceasefire_deter::trial::counter::{Counter, Counts};
    use ceasefire_watch::{Filter, Observer, Options};
    use ceasefire_watch_model::{Class, Snapshot};
    use std::path::Path;

    /// Shootdowns that the trial's cgroup sends.
    pub struct Observed {
        observer: Observer,
        before: Snapshot,
        lost_rows: u64,
    }

    impl Observed {
        pub fn start(path: &Path) -> Result<Observed> {
            let filter = Filter { cgroup: Some(cgroup(path)?), ..Filter::default() };
            let options = Options {
                filter,
                latencies: false,
                histograms: false,
                pairs: false,
                timing: false,
                ..Options::default()
            };
            let mut observer = Observer::start(options)?;
            let before = observer.snapshot()?;
            Ok(Observed { observer, before, lost_rows: 0 })
        }
    }

    impl Counter for Observed {
        fn name(&self) -> &'static str {
            "observer"
        }

        fn begin(&mut self) -> Result<()> {
            self.before = self.observer.snapshot()?;
            Ok(())
        }

        fn end(&mut self) -> Result<Counts> {
            self.observer.settle()?;
            let window = self.observer.snapshot()?.since(&self.before);
            self.lost_rows = self.lost_rows.saturating_add(window.coverage.lost.rows);
            let mut counts = Counts { flushes: Some(0), received: Some(0), ..Counts::default() };
            for sender in window.senders.iter().filter(|sender| sender.class == Class::User) {
                let add = |sum: &mut Option<u64>, more: u64| *sum = sum.map(|sum| sum.saturating_add(more));
                add(&mut counts.flushes, sender.tally.shootdowns);
                add(&mut counts.received, sender.tally.targets);
                let cause = counts.causes.entry(sender.cause.to_string()).or_default();
                *cause = cause.saturating_add(sender.tally.targets);
            }
            Ok(counts)
        }

        fn lost(&self) -> Vec<String> {
            let mut all = vec![
                "flushes are shootdowns that interrupted at least one CPU: requests that found no other CPU to \
                 interrupt are not counted yet, so the scheduler still moves the figures"
                    .to_string(),
            ];
            if self.lost_rows > 0 {
                all.push(format!("{} rows had no room: the figures are too low", self.lost_rows));
            }
            all
        }
    }
}
