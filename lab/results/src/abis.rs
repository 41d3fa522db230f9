// SPDX-License-Identifier: GPL-2.0-only
//! What an ABIS kernel counts, by its names: sites of the kernel, what was decided there, and what a check found.

use crate::schema::{Elided, Row};
use crate::stats::Spread;
use std::collections::BTreeMap;

/// Pages decided, by why: the first three were let off.
pub const REASONS: [&str; 6] = ["idle", "uncached", "private", "recent", "accessed", "never"];
const LET_OFF: usize = 3;
/// Flush requests decided, by who is still asked.
pub const TARGETS: [&str; 4] = ["none", "one", "set", "all"];
/// Elisions the machine was asked about, and flushes kept that were sampled.
pub const CHECKS: [&str; 5] =
    ["checked_idle", "checked_uncached", "checked_private", "sampled", "sampled_held"];
/// Memory in use at the end of the measured part; every other name is a sum over it.
const LEVELS: [&str; 3] = ["spte_bytes", "spte_tables", "insert_bytes"];
/// A site that was sampled so often has found a holder, unless the question is wrong.
pub const SAMPLES_MIN: u64 = 1000;

/// `SITE_NAME` as its parts; the longest name that fits, so that a check is no decision.
fn parts(counter: &str) -> Option<(&str, &'static str)> {
    CHECKS
        .iter()
        .chain(&REASONS)
        .chain(&TARGETS)
        .filter_map(|&name| {
            let site = counter.strip_suffix(name)?.strip_suffix('_')?;
            (!site.is_empty()).then_some((site, name))
        })
        .max_by_key(|(_, name)| name.len())
}

/// Is it a level rather than a sum?
pub(crate) fn is_level(counter: &str) -> bool {
    LEVELS.contains(&counter)
}

/// Pages and flush requests whose targets were let off, of one repeat.
pub(crate) fn elided(counters: &BTreeMap<String, u64>) -> [u64; 4] {
    let mut sums = [0u64; 4];
    for (counter, count) in counters {
        let slot = match parts(counter) {
            Some((_, name)) if REASONS[..LET_OFF].contains(&name) => 0,
            Some((_, name)) => match TARGETS[..3].iter().position(|target| *target == name) {
                Some(target) => 1 + target,
                None => continue,
            },
            None => continue,
        };
        sums[slot] = sums[slot].saturating_add(*count);
    }
    sums
}

/// Pages that the kernel put into a TLB for each fault, medians; None unless it counts insertions, and met faults.
pub fn inserted_per_fault(row: &Row) -> Option<f64> {
    let inserted = row.abis.as_ref()?.get("inserted")?.median;
    let faults = row.faults_per_unit?.median;
    (faults > 0.0).then(|| inserted / faults)
}

/// Were there pages that the kernel could have put into a TLB, and did not, since that does not pay?
pub fn has_unpaid(row: &Row) -> bool {
    row.abis
        .as_ref()
        .and_then(|counters| counters.get("insert_unpaid"))
        .is_some_and(|spread| spread.median > 0.0)
}

/// Sites in alphabetical order, each with its figures by name.
pub fn sites(row: &Row) -> BTreeMap<&str, BTreeMap<&'static str, Spread>> {
    let mut sites: BTreeMap<&str, BTreeMap<&'static str, Spread>> = BTreeMap::new();
    for (counter, spread) in row.abis.iter().flatten() {
        if let Some((site, name)) = parts(counter) {
            sites.entry(site).or_default().insert(name, *spread);
        }
    }
    sites
}

/// Sites that were asked often enough about flushes that were kept, and where nobody ever held the entry.
pub(crate) fn asked_wrongly(totals: &BTreeMap<String, u64>) -> Vec<String> {
    let of = |site: &str, name: &str| totals.get(&format!("{site}_{name}")).copied().unwrap_or(0);
    let mut wrong: Vec<String> = Vec::new();
    for counter in totals.keys() {
        if let Some((site, "sampled")) = parts(counter) {
            if of(site, "sampled") >= SAMPLES_MIN && of(site, "sampled_held") == 0 {
                wrong.push(site.to_string());
            }
        }
    }
    wrong
}

/// Did a sample of the flushes kept at this site find a holder?
pub(crate) fn found_holders(row: &Row, site: &str) -> bool {
    let held = row.abis.as_ref().and_then(|counters| counters.get(&format!("{site}_sampled_held")));
    held.is_some_and(|held| held.max > 0.0)
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

    #[test]
    fn names_are_taken_apart_from_their_ends() {
        for (counter, expected) in [
            ("zap_idle", Some(("zap", "idle"))),
            ("clear_flush_private", Some(("clear_flush", "private"))),
            ("zap_checked_idle", Some(("zap", "checked_idle"))),
            ("clear_flush_sampled_held", Some(("clear_flush", "sampled_held"))),
            ("zap_sampled", Some(("zap", "sampled"))),
            ("protect_set", Some(("protect", "set"))),
            ("rounds", None),
            ("rounds_forced", None),
            ("spte_bytes", None),
            ("checked", None),
            ("_idle", None),
            ("idle", None),
        ] {
            assert_eq!(parts(counter), expected, "{counter}");
        }
    }

    #[test]
    fn checks_are_not_counted_as_elisions() {
        let counters = [
            ("zap_idle", 1),
            ("reclaim_uncached", 2),
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
        ];
        let counters = counters.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        assert_eq!(elided(&counters), [7, 24, 32, 64]);
    }

    /// Tight from both sides, and only where nobody was ever found.
    #[test]
    fn a_site_that_never_has_holders_is_asked_wrongly() {
        for (sampled, held, wrong) in [(999, 0, false), (1000, 0, true), (1000, 1, false), (0, 0, false)] {
            let totals = BTreeMap::from([
                ("zap_sampled".to_string(), sampled),
                ("zap_sampled_held".to_string(), held),
                ("migrate_sampled".to_string(), 5000),
                ("migrate_sampled_held".to_string(), 4000),
            ]);
            assert_eq!(asked_wrongly(&totals) == ["zap"], wrong, "{sampled} {held}");
            assert_eq!(asked_wrongly(&totals).is_empty(), !wrong, "{sampled} {held}");
        }
        // A kernel that counts samples and no holders has never found one.
        assert_eq!(asked_wrongly(&BTreeMap::from([("zap_sampled".to_string(), 1000)])), ["zap"]);
    }
}
