// SPDX-License-Identifier: GPL-2.0-only
//! Modelled cycles: what one repeat counted, each at a published price. It compares two kernels on the same
//! work; it is no time. docs/reference/modelled-cycles.md prints this table and says what it leaves out.

use crate::protocol::Run;
use std::collections::BTreeMap;

/// One line of the table. Where figures differ, `low` and `high` are the ends and the middle is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub name: &'static str,
    /// What is counted, by its name in the guest protocol.
    pub counter: &'static str,
    /// Counted there, too, but not paid for.
    pub less: Option<&'static str>,
    /// A machine or kernel that does not count it has none of it.
    pub is_optional: bool,
    /// Cycles each.
    pub low: f64,
    pub high: f64,
    /// Title and section of what was published.
    pub source: &'static str,
}

impl Cost {
    pub fn cycles(&self) -> f64 {
        self.at(End::Middle)
    }

    pub fn at(&self, end: End) -> f64 {
        match end {
            End::Low => self.low,
            End::Middle => (self.low + self.high) / 2.0,
            End::High => self.high,
        }
    }

    /// What was counted at this price; `None` if it was not, and every machine counts it.
    pub(crate) fn of(&self, count: impl Fn(&str) -> Option<f64>, end: End) -> Option<f64> {
        let free = self.less.map_or(Some(0.0), &count)?;
        let counted = count(self.counter).or(self.is_optional.then_some(0.0))?;
        Some((counted - free).max(0.0) * self.at(end))
    }
}

/// Which of the published figures to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Low,
    Middle,
    High,
}

const LOAD_OF_CR3: (f64, f64) = (96.0, 251.0);
const INVLPG: (f64, f64) = (200.0, 260.0);

pub(crate) const INSTRUCTION: Cost = Cost {
    name: "instruction",
    counter: "instructions",
    less: None,
    is_optional: false,
    low: 1.0,
    high: 1.0,
    source: "by definition: the unit of the model",
};

pub const COSTS: &[Cost] = &[
    INSTRUCTION,
    Cost {
        name: "page walk",
        counter: "walks",
        less: Some("speculative_walks"),
        is_optional: false,
        low: 34.0,
        high: 45.0,
        source: "Linux commit a5102476a24b (\"x86/mm: Set TLB flush tunable to sane value (33)\"), message, item 3: \
                 34 for a miss of the instruction TLB, 45 for one of the data TLB (Ivy Bridge, kernel compile)",
    },
    Cost {
        name: "accessed bit set",
        counter: "assists_accessed",
        less: None,
        is_optional: false,
        low: 600.0,
        high: 600.0,
        source: "N. Amit, \"Optimizing the TLB Shootdown Algorithm with Page Access Tracking\" (USENIX ATC 2017), limitations: \
                 roughly 600",
    },
    Cost {
        name: "dirty bit set",
        counter: "assists_dirty",
        less: None,
        is_optional: false,
        low: 600.0,
        high: 600.0,
        source: "no figure found: taken as an accessed bit, because both are the same assist (\"AD (page Access Dirty)\" in \
                 Linux, tools/perf/pmu-events/arch/x86/cascadelakex/pipeline.json, OTHER_ASSISTS.ANY)",
    },
    Cost {
        name: "CR3 load that flushes",
        counter: "cr3_flush",
        less: None,
        is_optional: false,
        low: LOAD_OF_CR3.0,
        high: LOAD_OF_CR3.1,
        source: "I. Molnar, \"Re: [PATCH 0/3] TLB flush multiple pages per IPI v5\" (linux-mm, 8 June 2015), __flush_tlb(): \
                 96, and 251 on another Intel machine with warm caches; D. Hansen in the same thread (9 June): 108 (Westmere), \
                 124 (Haswell)",
    },
    Cost {
        name: "CR3 load that keeps",
        counter: "cr3_noflush",
        less: None,
        is_optional: false,
        low: LOAD_OF_CR3.0,
        high: LOAD_OF_CR3.1,
        source: "no figure tells it from one that flushes: the same, which agrees with Linux, Documentation/arch/x86/pti.rst, \
                 \"Overhead\" (on the order of a hundred) and A. Lutomirski, \"Re: [RFC KVM 18/27]\" (kvm, 14 May 2019: under 300)",
    },
    Cost {
        name: "INVLPG",
        counter: "invlpg",
        less: None,
        is_optional: false,
        low: INVLPG.0,
        high: INVLPG.1,
        source: "D. Hansen, \"x86 TLB flushing: INVPCID vs. deferred CR3 write\" (linux-mm, 5 December 2017): about 200 (Skylake); \
                 I. Molnar as above, __flush_tlb_one(): 260; Linux commit a5102476a24b, item 4: 85 of them in 22,000, the \"about 100 ns\" \
                 of arch/x86/mm/tlb.c, tlb_single_page_flush_ceiling",
    },
    Cost {
        name: "INVPCID",
        counter: "invpcid",
        less: None,
        is_optional: false,
        low: 348.0,
        high: 402.0,
        source: "D. Hansen as above, raw data, with INVPCID less without: 546 - 198 a page in flushes of 129 pages, \
                 1,094 - 692 in flushes of one",
    },
    Cost {
        name: "IPI sent",
        counter: "ipis",
        less: None,
        is_optional: false,
        low: 300.0,
        high: 900.0,
        source: "N. Amit as above, section 2: delivery takes \"several hundreds of cycles\", read as 300 to 900",
    },
    Cost {
        name: "TLB insert request",
        counter: "insert_ops",
        less: None,
        is_optional: true,
        low: INVLPG.0,
        high: INVLPG.1,
        source: "no processor has it and no figure was found: each request as an INVLPG, the instruction nearest to it, and each \
                 page's walk is among the walks; N. Amit as above gives about 550 a page for doing it in software",
    },
];

/// The sum over the table; `None` if anything in it was not counted that every machine has.
pub fn modelled(count: impl Fn(&str) -> Option<f64>, end: End) -> Option<f64> {
    COSTS.iter().map(|cost| cost.of(&count, end)).sum()
}

/// Of one repeat.
pub(crate) fn of(run: &Run) -> Option<f64> {
    modelled(|counter| run.counter(counter).map(|count| count as f64), End::Middle)
}

/// The constants by name, as a results file carries them: figures made with others cannot be compared.
pub fn constants() -> BTreeMap<String, f64> {
    COSTS.iter().map(|cost| (cost.name.to_string(), cost.cycles())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fmt::Write;
    use std::{fs, path::Path};

    /// Of one unit of work, by counter; those not named are zero.
    fn with(counts: &[(&str, f64)], end: End) -> Option<f64> {
        modelled(
            |counter| {
                let known = counts.iter().find(|(name, _)| *name == counter);
                Some(known.map_or(0.0, |(_, count)| *count))
            },
            end,
        )
    }

    #[test]
    fn every_line_is_named_ordered_and_sourced() {
        for (index, cost) in COSTS.iter().enumerate() {
            assert!(cost.low > 0.0 && cost.low <= cost.high, "{}", cost.name);
            assert!(cost.cycles() * 2.0 == cost.low + cost.high, "{}", cost.name);
            assert!(cost.source.len() > 20 && !cost.source.contains('|'), "{}", cost.name);
            let others = &COSTS[index + 1..];
            assert!(others.iter().all(|other| other.name != cost.name && other.counter != cost.counter));
        }
        assert_eq!(constants().len(), COSTS.len());
    }

    #[test]
    fn a_sum_by_hand_at_both_ends_and_in_the_middle() {
        let counts = [
            ("instructions", 10_000.0),
            ("walks", 30.0),
            ("speculative_walks", 10.0),
            ("assists_accessed", 4.0),
            ("assists_dirty", 2.0),
            ("cr3_flush", 2.0),
            ("cr3_noflush", 4.0),
            ("invlpg", 10.0),
            ("invpcid", 2.0),
            ("ipis", 1.0),
            ("inserts", 7.0),
            ("insert_ops", 3.0),
        ];
        // 10,000 + 20 × 39.5 + 6 × 600 + 6 × 173.5 + (10 + 3) × 230 + 2 × 375 + 600
        assert_eq!(with(&counts, End::Middle), Some(19_771.0));
        // 10,000 + 20 × 34 + 6 × 600 + 6 × 96 + (10 + 3) × 200 + 2 × 348 + 300
        assert_eq!(with(&counts, End::Low), Some(18_452.0));
        // 10,000 + 20 × 45 + 6 × 600 + 6 × 251 + (10 + 3) × 260 + 2 × 402 + 900
        assert_eq!(with(&counts, End::High), Some(21_090.0));
    }

    #[test]
    fn walks_that_nobody_waits_for_are_free_and_never_a_gain() {
        assert_eq!(with(&[("walks", 7.0), ("speculative_walks", 7.0)], End::High), Some(0.0));
        assert_eq!(with(&[("walks", 7.0), ("speculative_walks", 8.0)], End::High), Some(0.0));
    }

    #[test]
    fn what_was_not_counted_is_not_modelled() {
        let needed = COSTS.iter().filter(|cost| !cost.is_optional);
        for missing in needed.flat_map(|cost| [Some(cost.counter), cost.less]).flatten() {
            let count = |counter: &str| (counter != missing).then_some(1.0);
            assert_eq!(modelled(count, End::Middle), None, "{missing}");
        }
        // A machine that cannot insert.
        let count = |counter: &str| (counter != "insert_ops").then_some(0.0);
        assert_eq!(modelled(count, End::Middle), Some(0.0));
    }

    const MARK: &str = "<!-- from here on written by UPDATE_EXPECT=1 make test-unit -->\n";

    /// Medians per unit of rows of the command in docs/reference/modelled-cycles.md.
    const MEASURED: &[(&str, &[(&str, f64)])] = &[
        ("anon-r-seq", &[("instructions", 1070.1), ("walks", 2.0)]),
        ("context-switch", &[("instructions", 5315.4), ("walks", 5.1), ("cr3_flush", 1.0)]),
        ("idle-pages", &[("instructions", 32_281.0), ("invlpg", 32.0)]),
        ("munmap", &[("instructions", 10_802.1), ("walks", 2.0), ("invlpg", 1.0)]),
    ];

    /// An item of a list, in lines of up to 116 columns.
    pub(crate) fn item(text: &str) -> String {
        let mut lines = vec![String::from("-")];
        for word in text.split(' ') {
            if lines.last().is_some_and(|line| line.chars().count() + word.chars().count() >= 116) {
                lines.push(String::from(" "));
            }
            lines.last_mut().expect("one").extend([" ", word]);
        }
        lines.join("\n") + "\n"
    }

    fn tables() -> String {
        let mut text = String::from(
            "\n## The constants\n\nCycles each.\n\n\
             | what | counter | low | used | high |\n|---|---|---:|---:|---:|\n",
        );
        for cost in COSTS {
            let less = cost.less.map_or_else(String::new, |less| format!(" less `{less}`"));
            let [low, used, high] = [cost.low, cost.cycles(), cost.high];
            let (name, counter) = (cost.name, cost.counter);
            let _ = writeln!(text, "| {name} | `{counter}`{less} | {low} | {used} | {high} |");
        }
        text.push_str("\nSources:\n\n");
        for cost in COSTS {
            text.push_str(&item(&format!("**{}**: {}", cost.name, cost.source)));
        }
        text.push_str(
            "\n## What the ends do\n\nThe counts of the command above, with every constant at its low end, as used, and at its \
             high end.\n\n| workload | per unit | low | used | high | ends against used |\n|---|---|---:|---:|---:|---:|\n",
        );
        for (workload, counts) in MEASURED {
            let [low, used, high] =
                [End::Low, End::Middle, End::High].map(|end| with(counts, end).expect("all counted"));
            let per_unit: Vec<String> =
                counts.iter().map(|(counter, count)| format!("`{counter}` {count}")).collect();
            let share = |end: f64| (end - used) / used * 100.0;
            let _ = writeln!(
                text,
                "| `{workload}` | {} | {low:.0} | {used:.0} | {high:.0} | {:+.1} to {:+.1} % |",
                per_unit.join(", "),
                share(low),
                share(high)
            );
        }
        text
    }

    /// Whether what stands behind the mark on `page` is `tables`, which come from `source`.
    pub(crate) fn written(page: &str, source: &str, tables: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let found = fs::read_to_string(&path).expect("the page");
        let (prose, _) = found.split_once(MARK).expect("the mark");
        let text = format!("{prose}{MARK}{tables}");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &text).expect("written");
            return;
        }
        assert!(found == text, "{page} does not show {source}: UPDATE_EXPECT=1 make test-unit");
    }

    #[test]
    fn the_page_shows_the_table() {
        written("docs/reference/modelled-cycles.md", "lab/results/src/cycles.rs", &tables());
    }
}
