// SPDX-License-Identifier: GPL-2.0-only
//! What mechanisms count, by the kernel's own names, read as kernel/NAME/mechanism.toml describes it.

use crate::protocol::Run;
use crate::schema::{Elided, Results, Row};
use crate::stats::Spread;
use ceasefire_mechanism::{Counter, Mechanism, Names, Source, Total};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Of one repeat: a mechanism's counters by the kernel's names.
pub type Counted = BTreeMap<String, BTreeMap<String, u64>>;

/// A site that was sampled so often has found a holder, unless the question is wrong.
pub const SAMPLES_MIN: u64 = 1000;

const PAGE_KIB: f64 = 4.0;

/// What a pages or requests figure is summed up to: pages let off, then requests to none, one and a set.
const ELIDED: [Total; 4] = [Total::ElidedPages, Total::RequestsNone, Total::RequestsOne, Total::RequestsSet];

/// The names of what mechanisms count. A mechanism that nobody has described counts sums without a meaning.
pub struct Described<'a>(BTreeMap<&'a str, Names<'a>>);

impl<'a> Described<'a> {
    pub fn of(mechanisms: &'a [Mechanism]) -> Described<'a> {
        Described(mechanisms.iter().map(|mechanism| (mechanism.name.as_str(), mechanism.names())).collect())
    }

    fn counter(&self, mechanism: &str, name: &str) -> Option<&'a Counter> {
        self.0.get(mechanism)?.get(name)
    }

    pub(crate) fn is_level(&self, mechanism: &str, name: &str) -> bool {
        self.0.get(mechanism).is_some_and(|names| names.is_level(name))
    }

    fn site(&self, mechanism: &str, name: &str) -> Option<&str> {
        self.0.get(mechanism)?.site(name)
    }

    fn of_total<'b, T: Copy>(
        &'b self,
        counted: &'b BTreeMap<String, BTreeMap<String, T>>,
        total: Total,
    ) -> impl Iterator<Item = T> + 'b {
        counted.iter().flat_map(move |(mechanism, counters)| {
            counters.iter().filter_map(move |(name, value)| {
                (self.counter(mechanism, name)?.adds_to == Some(total)).then_some(*value)
            })
        })
    }

    /// `None` where no mechanism of this kernel can have it.
    pub(crate) fn total(&self, counted: &Counted, total: Total) -> Option<u64> {
        self.of_total(counted, total).reduce(u64::saturating_add)
    }

    /// Nothing let off is not "not measured": a mechanism that can let off has its zeros.
    pub(crate) fn elided(&self, counted: &Counted) -> Option<[u64; 4]> {
        let can_elide = |mechanism: &String| {
            self.0.get(mechanism.as_str()).is_some_and(|names| names.has(Total::ElidedPages))
        };
        counted
            .keys()
            .any(can_elide)
            .then(|| ELIDED.map(|total| self.total(counted, total).unwrap_or_default()))
    }

    /// Modelled cycles of what has a price.
    pub(crate) fn priced(&self, counted: &Counted) -> f64 {
        let each = counted.iter().flat_map(|(mechanism, counters)| {
            counters
                .iter()
                .filter_map(move |(name, count)| Some(self.counter(mechanism, name)?.price? * *count as f64))
        });
        each.sum()
    }

    /// By the names of results files.
    pub(crate) fn prices(&self) -> BTreeMap<String, f64> {
        let each = self.0.iter().flat_map(|(mechanism, names)| {
            names
                .all()
                .filter_map(move |counter| Some((format!("{mechanism}.{}", counter.name), counter.price?)))
        });
        each.collect()
    }

    /// Sites that were asked often enough about flushes that were kept, and where nobody ever held the entry.
    pub(crate) fn asked_wrongly(&self, runs: &[&Run]) -> Vec<String> {
        let mut sites: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (mechanism, counters) in runs.iter().flat_map(|run| &run.mechanisms) {
            for (name, count) in counters {
                let total = self.counter(mechanism, name).and_then(|counter| counter.adds_to);
                let Some(site) = self.site(mechanism, name) else { continue };
                let (sampled, held) = sites.entry(site).or_default();
                match total {
                    Some(Total::Sampled) => *sampled = sampled.saturating_add(*count),
                    Some(Total::SampledHeld) => *held = held.saturating_add(*count),
                    _ => {}
                }
            }
        }
        let is_wrong = |(_, (sampled, held)): &(&str, (u64, u64))| *sampled >= SAMPLES_MIN && *held == 0;
        sites.into_iter().filter(is_wrong).map(|(site, _)| site.to_string()).collect()
    }

    /// Did a sample of the flushes kept at this site find a holder?
    pub(crate) fn found_holders(&self, row: &Row, site: &str) -> bool {
        row.mechanisms.iter().any(|(mechanism, counters)| {
            counters.iter().any(|(name, spread)| {
                let counter = self.counter(mechanism, name);
                counter.is_some_and(|counter| counter.adds_to == Some(Total::SampledHeld))
                    && self.site(mechanism, name) == Some(site)
                    && spread.max > 0.0
            })
        })
    }
}

/// The mechanisms that are counted and that nobody has described: this version may know them.
pub(crate) fn describe<'a>(known: &mut Vec<Mechanism>, counted: impl Iterator<Item = &'a String>) {
    let counted: BTreeSet<&String> = counted.collect();
    let is_missing = |mechanism: &Mechanism| {
        counted.contains(&mechanism.name) && known.iter().all(|known| known.name != mechanism.name)
    };
    // Parsed once: a reader of many files asks for each.
    static BUILT_IN: OnceLock<Vec<Mechanism>> = OnceLock::new();
    let built_in = BUILT_IN.get_or_init(|| ceasefire_mechanism::built_in().unwrap_or_default());
    let missing: Vec<Mechanism> =
        built_in.iter().filter(|mechanism| is_missing(mechanism)).cloned().collect();
    known.extend(missing);
}

/// A counter as a table shows it.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub mechanism: &'a Mechanism,
    pub counter: &'a Counter,
}

impl Shown<'_> {
    pub fn get(&self, row: &Row) -> Option<Spread> {
        row.counted(&self.mechanism.name, &self.counter.name)
    }

    /// Its name in files and comparisons.
    pub fn key(&self) -> String {
        format!("{}.{}", self.mechanism.name, self.counter.name)
    }
}

impl Results {
    /// Counters of the mechanisms that some row has, in the order of their descriptions.
    pub fn shown(&self, wanted: impl Fn(&Counter) -> bool) -> Vec<Shown<'_>> {
        let mut list = Vec::new();
        for mechanism in &self.environment.mechanisms {
            let all = mechanism.counter.iter().filter(|counter| wanted(counter));
            list.extend(all.map(|counter| Shown { mechanism, counter }));
        }
        list.retain(|shown| {
            shown.counter.is_of_sites() || self.rows.iter().any(|row| shown.get(row).is_some())
        });
        list
    }

    /// Pages of page tables at the end: the process's own (`page_table_kib`) and those that mechanisms keep beside them, of
    /// the medians. `None` where the workload or no mechanism says.
    pub fn table_pages(&self, row: &Row) -> Option<f64> {
        let (own, beside) = table_pages(&self.environment.mechanisms, row)?;
        beside.map(|beside| own + beside)
    }

    /// The mechanisms that count at sites of the kernel.
    pub fn with_sites(&self) -> impl Iterator<Item = &Mechanism> {
        let is_counted =
            |mechanism: &&Mechanism| self.rows.iter().any(|row| row.mechanisms.contains_key(&mechanism.name));
        let has_sites = |mechanism: &&Mechanism| mechanism.counter.iter().any(Counter::is_of_sites);
        self.environment.mechanisms.iter().filter(has_sites).filter(is_counted)
    }
}

/// The process's own and those beside them.
fn table_pages(mechanisms: &[Mechanism], row: &Row) -> Option<(f64, Option<f64>)> {
    let own = row.extra.get("page_table_kib")? / PAGE_KIB;
    let described = Described::of(mechanisms);
    let beside = described.of_total(&row.mechanisms, Total::TablePages).map(|spread| spread.median);
    Some((own, beside.reduce(|sum, pages| sum + pages)))
}

/// As [`Results::table_pages`], of a row alone; where no mechanism keeps any, the process's own.
pub(crate) fn table_pages_of(row: &Row) -> Option<f64> {
    let mut known = Vec::new();
    describe(&mut known, row.mechanisms.keys());
    table_pages(&known, row).map(|(own, beside)| own + beside.unwrap_or_default())
}

/// What is known of one site, by the name of the description (`SITE_idle`).
pub type Site<'a> = BTreeMap<&'a str, Spread>;

/// A row's sites in alphabetical order.
pub fn sites<'a>(row: &Row, mechanism: &'a Mechanism) -> BTreeMap<String, Site<'a>> {
    let names = mechanism.names();
    let mut sites: BTreeMap<String, Site> = BTreeMap::new();
    for (name, spread) in row.mechanisms.get(&mechanism.name).into_iter().flatten() {
        if let (Some(site), Some(counter)) = (names.site(name), names.get(name)) {
            sites.entry(site.to_string()).or_default().insert(&counter.name, *spread);
        }
    }
    sites
}

/// Counters of the sites in the order of the description; the debug kernel's where a row has them.
pub fn site_counters<'a>(mechanism: &'a Mechanism, rows: &[&Row]) -> Vec<&'a Counter> {
    let is_counted = |counter: &&Counter| {
        counter.source == Source::Kernel
            || rows.iter().any(|row| {
                sites(row, mechanism).values().any(|site| site.contains_key(counter.name.as_str()))
            })
    };
    mechanism.counter.iter().filter(|counter| counter.is_of_sites()).filter(is_counted).collect()
}

/// Words in a cost row for what stands beside each page fault, with its figure where it is not zero.
pub fn per_fault(row: &Row, mechanisms: &[Mechanism]) -> Vec<(Option<f64>, String)> {
    let Some(faults) = row.faults_per_unit.map(|spread| spread.median).filter(|faults| *faults > 0.0) else {
        return Vec::new();
    };
    let mode = row.mode.as_deref().unwrap_or_default();
    let mut list = Vec::new();
    for mechanism in mechanisms {
        let get = |name: &str| row.counted(&mechanism.name, name).map(|spread| spread.median);
        for counter in &mechanism.counter {
            let Some(per_fault) = &counter.per_fault else { continue };
            let is_set = |mode: &str| per_fault.modes.iter().any(|known| known == mode);
            let Some(count) =
                get(&counter.name).filter(|_| mode.split(ceasefire_mechanism::SEPARATOR).any(is_set))
            else {
                continue;
            };
            let is_unless = per_fault.unless.as_deref().and_then(get).is_some_and(|count| count > 0.0);
            list.push(match (&per_fault.unless_words, count == 0.0) {
                (Some(words), true) if is_unless => (None, words.clone()),
                (_, true) => (None, per_fault.none.clone()),
                _ => (Some(count / faults), per_fault.words.clone()),
            });
        }
    }
    list
}

impl Elided {
    /// Of the repeats' own sums, per unit.
    pub(crate) fn of(repeats: &[([u64; 4], u64)]) -> Option<Elided> {
        let spread = |slot: usize| {
            let values: Vec<f64> =
                repeats.iter().map(|(sums, units)| sums[slot] as f64 / *units as f64).collect();
            Spread::of(&values)
        };
        Some(Elided { pages: spread(0)?, none: spread(1)?, one: spread(2)?, set: spread(3)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOY: &str = "title = \"TOY\"\nabout = \"\"\ncounters = \"/toy\"\n\
        sites = { title = \"Where\", note = \"\" }\n[words]\nSITE = [\"zap\", \"migrate\", \"clear_flush\"]\n";

    fn toy() -> Mechanism {
        let mut text = TOY.to_string();
        for (name, total) in [
            ("SITE_idle", "elided_pages"),
            ("SITE_private", "elided_pages"),
            ("SITE_none", "requests_none"),
            ("SITE_one", "requests_one"),
            ("SITE_set", "requests_set"),
            ("SITE_sampled", "sampled"),
            ("SITE_sampled_held", "sampled_held"),
            ("checked", "checked"),
        ] {
            text += &format!(
                "[[counter]]\nname = \"{name}\"\nadds_to = \"{total}\"\ntitle = \"t\"\nmeaning = \"m\"\n"
            );
        }
        for name in ["SITE_recent", "SITE_all", "SITE_checked_idle"] {
            text += &format!("[[counter]]\nname = \"{name}\"\ntitle = \"t\"\nmeaning = \"m\"\n");
        }
        Mechanism::parse("toy", &text).expect("parses")
    }

    fn counted(counters: &[(&str, u64)]) -> Counted {
        let counters = counters.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        Counted::from([("toy".to_string(), counters)])
    }

    #[test]
    fn checks_are_not_counted_as_elisions() {
        let list = [toy()];
        let described = Described::of(&list);
        let counted = counted(&[
            ("zap_idle", 1),
            ("migrate_idle", 2),
            ("zap_private", 4),
            ("zap_recent", 100),
            ("zap_checked_idle", 1000),
            ("zap_sampled", 1000),
            ("zap_none", 8),
            ("migrate_none", 16),
            ("zap_one", 32),
            ("zap_set", 64),
            ("zap_all", 128),
            ("checked", 7),
            ("unheard_of_idle", 5000),
        ]);
        assert_eq!(described.elided(&counted), Some([7, 24, 32, 64]));
        assert_eq!(described.total(&counted, Total::Checked), Some(7));
        assert_eq!(described.total(&counted, Total::Violations), None);
        assert_eq!(Described::of(&[]).elided(&counted), None, "nobody knows what it can do");
        assert_eq!(described.elided(&Counted::new()), None);
    }

    fn run(counters: &[(&str, u64)]) -> Run {
        let text = "{\"workload\":\"w\",\"threads\":1,\"repeat\":0,\"unit\":\"u\",\"units\":1,\"checksum\":\"0\",\"counters\":{}}";
        Run { mechanisms: counted(counters), ..serde_json::from_str(text).expect("a run") }
    }

    /// Of all levels of the tree; and not a word where the workload does not say what its own take, or no mechanism counts.
    #[test]
    fn page_tables_are_the_process_s_own_and_those_beside_them() {
        let text = "title = \"TOY\"\nabout = \"\"\ncounters = \"/toy\"\n[words]\nLEVEL = [\"pte\", \"root\"]\n\
            [[counter]]\nname = \"pages_LEVEL\"\nkind = \"level\"\nadds_to = \"table_pages\"\ntitle = \"t\"\nmeaning = \"m\"\n";
        let results = |extra: &[(&str, f64)], counters: &[(&str, f64)]| {
            let extra = extra.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            let spread = |value: f64| Spread { median: value, min: value, max: value };
            let counters = counters.iter().map(|(name, value)| (name.to_string(), spread(*value))).collect();
            let mechanisms = BTreeMap::from([("toy".to_string(), counters)]);
            let row = Row { extra, mechanisms, ..Row::default() };
            let mut results = Results::new(Default::default());
            results.environment.mechanisms = vec![Mechanism::parse("toy", text).expect("parses")];
            results.table_pages(&row)
        };
        let own = [("page_table_kib", 40.0)];
        let beside = [("pages_pte", 3.0), ("pages_root", 4.0), ("begun", 1.0)];
        assert_eq!(results(&own, &beside), Some(17.0));
        assert_eq!(results(&[], &beside), None);
        assert_eq!(results(&own, &[("begun", 1.0)]), None);
    }

    /// Tight from both sides, and only where nobody was ever found.
    #[test]
    fn a_site_that_never_has_holders_is_asked_wrongly() {
        let list = [toy()];
        let described = Described::of(&list);
        for (sampled, held, wrong) in [(999, 0, false), (1000, 0, true), (1000, 1, false), (0, 0, false)] {
            let run = run(&[
                ("zap_sampled", sampled),
                ("zap_sampled_held", held),
                ("migrate_sampled", 5000),
                ("migrate_sampled_held", 4000),
            ]);
            assert_eq!(described.asked_wrongly(&[&run]) == ["zap"], wrong, "{sampled} {held}");
            assert_eq!(described.asked_wrongly(&[&run]).is_empty(), !wrong, "{sampled} {held}");
        }
        // A kernel that counts samples and no holders has never found one.
        assert_eq!(described.asked_wrongly(&[&run(&[("zap_sampled", 1000)])]), ["zap"]);
    }
}
