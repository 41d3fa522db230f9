// SPDX-License-Identifier: GPL-2.0-only
//! What was found, for programs that read it; the terminal's table is the command line's.

use super::rank::{Ranking, Verdict};
use super::state::{State, Trial};
use super::NONE;
use serde_json::{json, Value};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "ceasefire.deter-try/1";
/// No remedy helps.
pub const NONE_HELPS: u8 = 3;

/// 0 one helps, 1 a remedy changed the output, 3 none helps.
pub fn exit_code(ranking: &Ranking) -> u8 {
    match (ranking.has_changed_output(), ranking.best()) {
        (true, _) => 1,
        (false, Some(_)) => 0,
        (false, None) => NONE_HELPS,
    }
}

/// Fields are added, never renamed.
pub fn json(state: &State, ranking: &Ranking, lost: &[String], notes: &[String], compared: bool) -> Value {
    json!({
        "schema": SCHEMA,
        "command": state.request.command,
        "repeats": state.request.repeats,
        "units": state.request.units,
        "counter": state.request.counter,
        "ranked_by": ranking.ranked_by,
        "is_too_few": ranking.is_too_few,
        "found": ranking.best().map(|row| &row.remedy),
        "is_output_compared": compared,
        "rows": ranking.rows,
        "client": state.request.client,
        "causes_flushes": causes(state, |trial| &trial.causes_flushes),
        "causes_received": causes(state, |trial| &trial.causes),
        "lost": lost,
        "notes": notes,
    })
}

/// Of the command as it is.
fn causes(state: &State, of: fn(&Trial) -> &BTreeMap<String, u64>) -> Value {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in state.trials.iter().filter(|trial| trial.remedy == NONE) {
        for (cause, count) in of(trial) {
            let sum = sums.entry(cause).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    json!(sums)
}

/// One clause for the last column.
pub fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Best => "best",
        Verdict::Ties => "ties with the best",
        Verdict::Helps => "helps",
        Verdict::FewerReceived => "as many flushes are asked for, and fewer interrupt somebody",
        Verdict::NoChange => "no effect: the ranges overlap, or nearly do",
        Verdict::Worse => "worse",
        Verdict::TooMuchMemory => "more memory than --max-rss allows",
        Verdict::ChangedOutput => "the output changed",
        Verdict::Failed => "failed",
        Verdict::Baseline => "",
        Verdict::NotCounted => "nothing was counted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::rank::rank;
    use crate::trial::state::Request;

    fn state(counts: &[(&str, u64)]) -> State {
        let trials = counts.iter().map(|(remedy, n)| Trial {
            remedy: remedy.to_string(),
            units: 1.0,
            flushes: Some(*n),
            causes_flushes: [("munmap".to_string(), *n)].into(),
            ..Trial::default()
        });
        State { trials: trials.collect(), ..State::new(Request { repeats: 1, ..Request::default() }) }
    }

    #[test]
    fn the_exit_code_says_what_was_found() {
        let of = |state: &State| {
            let names: Vec<String> = ["none", "a"].map(String::from).to_vec();
            exit_code(&rank(&names, &state.trials, &Default::default(), None))
        };
        assert_eq!(of(&state(&[("none", 100), ("a", 1)])), 0);
        assert_eq!(of(&state(&[("none", 100), ("a", 100)])), 3);
        let mut changed = state(&[("none", 100), ("a", 1)]);
        changed.trials[1].changed = Some("x".into());
        assert_eq!(of(&changed), 1);
    }

    #[test]
    fn the_json_has_what_was_promised() {
        let state = state(&[("none", 100), ("a", 1)]);
        let ranking = rank(&["none".into(), "a".into()], &state.trials, &Default::default(), None);
        let json = json(&state, &ranking, &[], &[], true);
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["rows"][0]["remedy"], "a");
        assert_eq!(json["rows"][0]["flushes_per_unit"]["median"], 1.0);
        assert!(json["rows"][0]["received_per_unit"].is_null());
        assert_eq!(json["causes_flushes"]["munmap"], 100);
        assert_eq!(json["found"], "a");
    }
}
