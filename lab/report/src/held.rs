// SPDX-License-Identifier: GPL-2.0-only
//! How many figures of the controls hold, in a sentence under a published table.

use ceasefire_results::schema::Control;

/// `18 of 18 control figures hold.` One that the machine cannot count has not failed.
pub(crate) fn held(controls: &[Control]) -> String {
    let count_of = |ok| controls.iter().filter(|control| control.ok == ok).count();
    let (held, unjudged) = (count_of(Some(true)), count_of(None));
    match (controls.len() - unjudged, unjudged) {
        (0, 0) => "No control was run.".into(),
        (0, _) => format!("None of the {unjudged} control figures can be counted on this machine."),
        (judged, 0) => format!("{held} of {judged} control figures hold."),
        (judged, _) => format!("{held} of {judged} control figures hold; {unjudged} could not be counted."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_has_neither_held_nor_failed() {
        let controls = |oks: &[Option<bool>]| {
            let of = |ok: &Option<bool>| -> Control {
                let text = r#"{"name": "zero", "expected": 0.0, "measured": null, "ok": null}"#;
                Control { ok: *ok, ..serde_json::from_str(text).expect("a control") }
            };
            held(&oks.iter().map(of).collect::<Vec<_>>())
        };
        assert_eq!(controls(&[]), "No control was run.");
        assert_eq!(controls(&[None, None]), "None of the 2 control figures can be counted on this machine.");
        assert_eq!(controls(&[Some(true), Some(false)]), "1 of 2 control figures hold.");
        assert_eq!(controls(&[Some(true), None]), "1 of 1 control figures hold; 1 could not be counted.");
    }
}
