// SPDX-License-Identifier: GPL-2.0-only
//! Which remedy is best, which are as good, and whether one helps at all.
//!
//! Flushes decide where they were counted: how many CPUs were interrupted depends on the scheduler far more. Ranges that
//! overlap are no difference. A remedy that lets as many flushes be asked for, and fewer interrupt somebody, is judged by
//! what was received, and comes behind those that make them fewer.

use super::state::Trial;
use super::NONE;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Fewer than so many, over all rounds of the command as it is: chance would decide. What is called worse needs as many.
const COUNT_MIN: u64 = 30;
/// With fewer, a range lies below another one by chance too often.
pub const ROUNDS_MIN: usize = 3;
/// Medians that differ by less are no difference: of ten remedies and three rounds, some range lies below by chance.
const CHANGE_MIN: f64 = 0.1;
/// Of what the command as it is has: what two remedies leave differs by too little to choose by.
const TIE_MAX: f64 = 0.02;
/// Medians that differ by less are looked at again: of three rounds each, one remedy in twenty that does nothing has the
/// lower range; of six each, one in a thousand.
const CLOSE_MAX: f64 = 0.3;
const FLUSHES: &str = "flushes_per_unit";

/// Of the repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Range {
    /// None without a value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        Some(Range { min, median, max })
    }

    pub fn overlaps(&self, other: &Range) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Below the command as it is, and nothing is better.
    Best,
    /// Below the command as it is; its range overlaps the best one's, or nearly does.
    Ties,
    /// Below the command as it is.
    Helps,
    /// Below the command as it is in what was received, by a remedy that does no more.
    FewerReceived,
    /// Its range overlaps that of the command as it is, or nearly does.
    NoChange,
    /// Above it.
    Worse,
    /// Below or above it, in fewer rounds than tell.
    TooFewRounds,
    /// More memory than was allowed.
    TooMuchMemory,
    /// The output is not what it was.
    ChangedOutput,
    /// The command failed with it.
    Failed,
    /// The command as it is.
    Baseline,
    /// Nothing was counted.
    NotCounted,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub remedy: String,
    pub verdict: Verdict,
    pub trials: usize,
    pub flushes_per_unit: Option<Range>,
    pub received_per_unit: Option<Range>,
    pub rss_kib: Option<Range>,
    pub faults_per_unit: Option<Range>,
    pub seconds: Option<Range>,
    /// What trials of it said: no effect, failed, changed.
    pub says: Vec<String>,
}

impl Row {
    /// What decides: flushes where they were counted.
    fn decides(&self, by_flushes: bool) -> Option<Range> {
        if by_flushes {
            self.flushes_per_unit
        } else {
            self.received_per_unit
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ranking {
    /// Best first; the command as it is stands where it belongs.
    pub rows: Vec<Row>,
    /// "flushes_per_unit" or "received_per_unit"; empty where nothing was tried.
    pub ranked_by: &'static str,
    /// The command as it is has hardly any: no remedy can be told to help.
    pub is_too_few: bool,
}

impl Ranking {
    /// Of those that make flushes fewer; else of those that let fewer interrupt somebody.
    pub fn best(&self) -> Option<&Row> {
        let by_flushes = self.rows.iter().find(|row| row.verdict == Verdict::Best);
        by_flushes.or_else(|| {
            let received = |row: &&Row| row.received_per_unit.map_or(f64::INFINITY, |range| range.median);
            let fewer = self.rows.iter().filter(|row| row.verdict == Verdict::FewerReceived);
            fewer.min_by(|a, b| received(a).total_cmp(&received(b)))
        })
    }

    /// Remedies of which chance may have made the difference: separate ranges, and medians that are near.
    pub fn close(&self) -> Vec<String> {
        let by_flushes = self.ranked_by == FLUSHES;
        let median = |row: &Row| row.decides(by_flushes).map(|range| range.median);
        let base = self.rows.iter().find(|row| row.remedy == NONE).and_then(median);
        let Some(base) = base.filter(|base| *base > 0.0) else { return Vec::new() };
        let is_found = |row: &&Row| {
            matches!(row.verdict, Verdict::Best | Verdict::Ties | Verdict::Helps | Verdict::Worse)
        };
        let is_near = |row: &&Row| median(row).is_some_and(|own| (own / base - 1.0).abs() < CLOSE_MAX);
        self.rows.iter().filter(is_found).filter(is_near).map(|row| row.remedy.clone()).collect()
    }

    pub fn has_changed_output(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::ChangedOutput)
    }
}

/// `names`: the remedies tried, and none. `received_only`: those of them that do not make flushes fewer. `rss_share_max`: of
/// the baseline's memory, 1.5 for half as much again.
pub fn rank(
    names: &[String],
    trials: &[Trial],
    received_only: &BTreeSet<String>,
    rss_share_max: Option<f64>,
) -> Ranking {
    let mut rows: Vec<Row> = names.iter().map(|name| row(name, trials)).collect();
    let base = rows.iter().find(|row| row.remedy == NONE).cloned();
    let by_flushes = base.as_ref().is_some_and(|base| base.flushes_per_unit.is_some());
    let baseline = base.as_ref().and_then(|base| base.decides(by_flushes));
    let rss = base.as_ref().and_then(|base| base.rss_kib);
    let sum = |name: &str, count: fn(&Trial) -> Option<u64>| {
        let own = trials.iter().filter(|trial| trial.remedy == name);
        own.filter_map(count).fold(0u64, u64::saturating_add)
    };
    let (flushes, received) = (sum(NONE, |trial| trial.flushes), sum(NONE, |trial| trial.received));
    let rounds = base.as_ref().map_or(0, |base| base.trials);
    let is_too_few = (if by_flushes { flushes } else { received }) < COUNT_MIN;
    for row in &mut rows {
        let only_received = by_flushes && received_only.contains(&row.remedy);
        let (baseline, own) = match only_received {
            true => (base.as_ref().and_then(|base| base.received_per_unit), row.received_per_unit),
            false => (baseline, row.decides(by_flushes)),
        };
        let count = match by_flushes && !only_received {
            true => sum(&row.remedy, |trial| trial.flushes),
            false => sum(&row.remedy, |trial| trial.received),
        };
        row.verdict = match verdict(row, baseline, own, rss, rss_share_max) {
            Verdict::Worse if count < COUNT_MIN => Verdict::NoChange,
            Verdict::Helps | Verdict::Worse if rounds.min(row.trials) < ROUNDS_MIN => Verdict::TooFewRounds,
            Verdict::Helps if only_received && received >= COUNT_MIN => Verdict::FewerReceived,
            Verdict::Helps if only_received || is_too_few => Verdict::NoChange,
            other => other,
        };
    }
    let helps = |row: &&Row| row.verdict == Verdict::Helps;
    let median = |row: &Row| row.decides(by_flushes).map_or(f64::INFINITY, |range| range.median);
    let best = rows.iter().filter(helps).min_by(|a, b| median(a).total_cmp(&median(b))).cloned();
    if let Some((best, range)) = best.and_then(|best| Some((best.remedy.clone(), best.decides(by_flushes)?)))
    {
        for row in rows.iter_mut().filter(|row| row.verdict == Verdict::Helps) {
            if row.remedy == best {
                row.verdict = Verdict::Best;
            } else if row.decides(by_flushes).is_some_and(|own| {
                own.overlaps(&range)
                    || own.median - range.median <= baseline.map_or(0.0, |base| base.median * TIE_MAX)
            }) {
                row.verdict = Verdict::Ties;
            }
        }
    }
    let is_out = |row: &Row| {
        matches!(
            row.verdict,
            Verdict::ChangedOutput | Verdict::Failed | Verdict::NotCounted | Verdict::TooMuchMemory
        )
    };
    rows.sort_by(|a, b| match is_out(a).cmp(&is_out(b)) {
        Ordering::Equal => median(a).total_cmp(&median(b)),
        other => other,
    });
    Ranking { rows, ranked_by: if by_flushes { FLUSHES } else { "received_per_unit" }, is_too_few }
}

fn row(name: &str, trials: &[Trial]) -> Row {
    let own: Vec<&Trial> = trials.iter().filter(|trial| trial.remedy == name).collect();
    let good: Vec<&Trial> = own.iter().copied().filter(|trial| trial.failed.is_none()).collect();
    let per_unit = |count: fn(&Trial) -> Option<u64>| {
        Range::of(good.iter().filter_map(|trial| Some(count(trial)? as f64 / trial.units)))
    };
    let mut says: Vec<String> = Vec::new();
    let all = own.iter().flat_map(|trial| [&trial.failed, &trial.no_effect, &trial.changed]);
    for sentence in all.flatten() {
        if !says.contains(sentence) {
            says.push(sentence.clone());
        }
    }
    let mut verdict = Verdict::NotCounted;
    if own.iter().any(|trial| trial.failed.is_some()) {
        verdict = Verdict::Failed;
    } else if own.iter().any(|trial| trial.changed.is_some()) {
        verdict = Verdict::ChangedOutput;
    }
    Row {
        remedy: name.to_string(),
        verdict,
        trials: own.len(),
        flushes_per_unit: per_unit(|trial| trial.flushes),
        received_per_unit: per_unit(|trial| trial.received),
        rss_kib: Range::of(good.iter().filter_map(|trial| Some(trial.rss_kib? as f64))),
        faults_per_unit: per_unit(|trial| Some(trial.faults)),
        seconds: Range::of(good.iter().map(|trial| trial.seconds)),
        says,
    }
}

fn verdict(
    row: &Row,
    baseline: Option<Range>,
    own: Option<Range>,
    rss: Option<Range>,
    rss_share_max: Option<f64>,
) -> Verdict {
    if matches!(row.verdict, Verdict::Failed | Verdict::ChangedOutput) {
        return row.verdict;
    }
    if row.remedy == NONE {
        return Verdict::Baseline;
    }
    let (Some(own), Some(baseline)) = (own, baseline) else { return Verdict::NotCounted };
    if let (Some(most), Some(mine), Some(rss)) = (rss_share_max, row.rss_kib, rss) {
        if mine.median > rss.median * most {
            return Verdict::TooMuchMemory;
        }
    }
    match () {
        () if own.max < baseline.min && own.median <= baseline.median * (1.0 - CHANGE_MIN) => Verdict::Helps,
        () if own.min > baseline.max && own.median >= baseline.median * (1.0 + CHANGE_MIN) => Verdict::Worse,
        () => Verdict::NoChange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(remedy: &str, flushes: Option<u64>, received: u64) -> Trial {
        Trial {
            remedy: remedy.into(),
            units: 10.0,
            flushes,
            received: Some(received),
            rss_kib: Some(1000),
            ..Trial::default()
        }
    }

    fn ranked(trials: &[Trial], most: Option<f64>) -> Vec<(String, Verdict)> {
        let mut names: Vec<String> = Vec::new();
        for trial in trials {
            if !names.contains(&trial.remedy) {
                names.push(trial.remedy.clone());
            }
        }
        let ranking = rank(&names, trials, &BTreeSet::from(["few-cpus".to_string()]), most);
        ranking.rows.into_iter().map(|row| (row.remedy, row.verdict)).collect()
    }

    fn of(rows: &[(String, Verdict)], name: &str) -> Verdict {
        rows.iter().find(|(remedy, _)| remedy == name).expect(name).1
    }

    #[test]
    fn a_range_is_least_middle_and_most() {
        let range = |values: &[f64]| Range::of(values.iter().copied()).map(|r| (r.min, r.median, r.max));
        assert_eq!(range(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(range(&[4.0, 1.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(range(&[]), None);
        assert_eq!(range(&[f64::NAN, f64::INFINITY, 1.0]), Some((1.0, 1.0, 1.0)));
    }

    /// The scheduler alone moves what is received; flushes tell.
    #[test]
    fn flushes_decide_where_they_are_counted() {
        let trials = [
            trial(NONE, Some(70), 8),
            trial(NONE, Some(69), 3),
            trial(NONE, Some(68), 1),
            trial("a", Some(72), 1),
            trial("a", Some(70), 2),
            trial("a", Some(69), 2),
            trial("b", Some(12), 2),
            trial("b", Some(13), 2),
            trial("b", Some(14), 3),
        ];
        let rows = ranked(&trials, None);
        assert_eq!(rows[0], ("b".into(), Verdict::Best));
        assert_eq!(of(&rows, "a"), Verdict::NoChange);
        assert_eq!(of(&rows, NONE), Verdict::Baseline);
        let without: Vec<Trial> = trials.iter().map(|t| Trial { flushes: None, ..t.clone() }).collect();
        assert_eq!(of(&ranked(&without, None), "b"), Verdict::NoChange);
        assert_eq!(rank(&[NONE.into()], &without, &BTreeSet::new(), None).ranked_by, "received_per_unit");
    }

    #[test]
    fn ties_are_called_ties_and_worse_is_worse() {
        let many =
            |name: &str, [least, most]: [u64; 2]| [least, least, most].map(|n| trial(name, Some(n), 0));
        let trials: Vec<Trial> = [
            many(NONE, [90, 100]),
            many("best", [9, 9]),
            many("tie", [9, 12]),
            many("near", [10, 10]),
            many("helps", [20, 30]),
            many("same", [80, 95]),
            many("worse", [200, 300]),
        ]
        .concat();
        let rows = ranked(&trials, None);
        let expected = [
            ("best", Verdict::Best),
            ("tie", Verdict::Ties),
            ("near", Verdict::Ties),
            ("helps", Verdict::Helps),
            ("same", Verdict::NoChange),
            (NONE, Verdict::Baseline),
            ("worse", Verdict::Worse),
        ];
        let expected: Vec<(String, Verdict)> = expected.iter().map(|(n, v)| (n.to_string(), *v)).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn small_differences_are_close_and_large_ones_are_not() {
        let thrice = |name: &str, flushes: u64| vec![trial(name, Some(flushes), 0); 3];
        let trials: Vec<Trial> =
            [("small", 80), (NONE, 100), ("same", 100), ("large", 60), ("worse", 120), ("far", 200)]
                .iter()
                .flat_map(|(name, flushes)| thrice(name, *flushes))
                .collect();
        let names: Vec<String> = trials.iter().step_by(3).map(|trial| trial.remedy.clone()).collect();
        let close = rank(&names, &trials, &BTreeSet::new(), None).close();
        assert_eq!(close, ["small", "worse"]);
    }

    /// On one CPU as much is asked for, and nobody is interrupted.
    #[test]
    fn fewer_that_are_interrupted_come_behind_fewer_flushes() {
        let thrice = |of: &[Trial]| -> Vec<Trial> { of.iter().cycle().take(3 * of.len()).cloned().collect() };
        let few = [trial(NONE, Some(100), 90), trial("few-cpus", Some(100), 1), trial("b", Some(95), 80)];
        let few = thrice(&few);
        let rows = ranked(&few, None);
        assert_eq!(of(&rows, "few-cpus"), Verdict::FewerReceived);
        assert_eq!(of(&rows, "b"), Verdict::NoChange, "5 % is no difference");
        let names = [NONE, "few-cpus", "c"].map(String::from);
        let only = BTreeSet::from(["few-cpus".to_string()]);
        let best = |trials: &[Trial]| rank(&names, trials, &only, None).best().map(|row| row.remedy.clone());
        assert_eq!(best(&few), Some("few-cpus".into()));
        let with_c = [few[0].clone(), few[1].clone(), trial("c", Some(50), 40)];
        assert_eq!(best(&thrice(&with_c)), Some("c".into()));
        assert_eq!(best(&thrice(&[trial(NONE, Some(100), 9), trial("few-cpus", Some(100), 1)])), None);
    }

    #[test]
    fn a_handful_tells_nothing() {
        let of = |none: u64, own: u64, rounds: usize| {
            let all = [trial(NONE, Some(none), 0), trial("a", Some(own), 0)];
            let trials: Vec<Trial> = all.iter().cycle().take(2 * rounds).cloned().collect();
            rank(&[NONE.into(), "a".into()], &trials, &BTreeSet::new(), None)
        };
        let verdict = |ranking: &Ranking| {
            ranking.rows.iter().find(|row| row.remedy == "a").map(|row| row.verdict).expect("there")
        };
        let ranking = of(9, 1, 3);
        assert!(ranking.is_too_few && ranking.best().is_none());
        assert_eq!(verdict(&of(1, 9, 3)), Verdict::NoChange, "27 are no more than 3");
        assert_eq!(verdict(&of(1, 10, 3)), Verdict::Worse);
        for rounds in 1..3 {
            let ranking = of(1000, 1, rounds);
            assert_eq!((verdict(&ranking), ranking.best()), (Verdict::TooFewRounds, None));
            assert_eq!(verdict(&of(1000, 9000, rounds)), Verdict::TooFewRounds);
        }
        assert_eq!(verdict(&of(1000, 1, 3)), Verdict::Best);
    }

    #[test]
    fn memory_output_and_failures_take_a_remedy_out() {
        let mut trials = vec![
            trial(NONE, Some(100), 0),
            trial("fat", Some(1), 0),
            trial("odd", Some(2), 0),
            trial("dead", Some(3), 0),
        ];
        trials.extend([0, 0, 1, 1].map(|at: usize| trials[at].clone()));
        trials[6].rss_kib = Some(1501);
        trials[7].rss_kib = Some(1501);
        trials[1].rss_kib = Some(1501);
        trials[2].changed = Some("it is not what it was".into());
        trials[3].failed = Some("it exited with 1".into());
        let rows = ranked(&trials, Some(1.5));
        assert_eq!(of(&rows, "fat"), Verdict::TooMuchMemory);
        assert_eq!(of(&rows, "odd"), Verdict::ChangedOutput);
        assert_eq!(of(&rows, "dead"), Verdict::Failed);
        assert_eq!(rows[0].0, NONE);
        trials.retain(|trial| trial.remedy == NONE || trial.remedy == "fat");
        assert_eq!(of(&ranked(&trials, None), "fat"), Verdict::Best);
        trials.push(Trial { changed: Some("it is not what it was".into()), ..trial("odd", Some(2), 0) });
        let ranking = rank(&[NONE.into(), "odd".into()], &trials, &BTreeSet::new(), None);
        assert!(ranking.has_changed_output() && ranking.best().is_none());
    }

    /// Whatever is counted: the best is below the baseline, and no row is lost.
    #[test]
    fn no_figures_break_the_order() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        for _ in 0..500 {
            let names: Vec<String> = [NONE, "a", "b", "c"].map(String::from).to_vec();
            let mut trials = Vec::new();
            for name in &names {
                for _ in 0..next() % 6 {
                    let flushes = (next() % 3 > 0).then(|| next() % 50);
                    trials.push(Trial { units: (next() % 3) as f64, ..trial(name, flushes, next() % 9) });
                }
            }
            let ranking = rank(&names, &trials, &BTreeSet::new(), Some(1.5));
            assert_eq!(ranking.rows.len(), names.len());
            assert!(ranking.rows.iter().filter(|row| row.verdict == Verdict::Best).count() <= 1);
            if let Some(best) = ranking.best() {
                let base = ranking.rows.iter().find(|row| row.remedy == NONE).expect("there");
                let by_flushes = ranking.ranked_by == FLUSHES;
                let (best, base) = (best.decides(by_flushes), base.decides(by_flushes));
                assert!(best.expect("counted").max < base.expect("counted").min);
            }
        }
    }
}
