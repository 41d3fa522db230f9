// SPDX-License-Identifier: GPL-2.0-only
//! Rule 18: what the seccomp filter answers, in a static program that asks by inline system calls.

mod common;

use ceasefire_deter_preload::{install_filter, Advice, Filter};
use common::{finish, program, text};
use std::os::unix::process::CommandExt;

/// What a case prints under a filter for this advice; None: without one.
fn filtered(case: &str, answers: Option<&[Advice]>) -> Vec<String> {
    let mut command = common::command(&program("filtered", &["-static"]), &[case], None);
    if let Some(answers) = answers {
        let filter = Filter::answering(answers);
        // SAFETY: between fork and exec, two system calls, on an array that was built before.
        unsafe { command.pre_exec(move || install_filter(&filter)) };
    }
    let output = finish(&mut command, b"", 60);
    assert!(output.status.success(), "{:?} {}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn rule_18_the_filter_answers_this_advice_and_nothing_else() {
    let none = filtered("advice", None);
    let has = |facts: &[String], line: &str| facts.iter().any(|fact| fact == line);
    assert!(has(&none, "lazy kernel") && has(&none, "free-nowhere -12"), "{none:?}");
    for chosen in 0..8 {
        let answers: Vec<Advice> = (0..3).filter(|i| chosen >> i & 1 == 1).map(|i| Advice::ALL[i]).collect();
        let facts = filtered("advice", Some(&answers));
        for (fact, without) in facts.iter().zip(&none) {
            // An answer is 0 also for a range that is not mapped: the program can notice.
            let answered =
                [(Advice::Free, "free"), (Advice::Cold, "cold"), (Advice::PageOut, "pageout")].iter().any(
                    |(advice, name)| answers.contains(advice) && fact.split(['-', ' ']).next() == Some(name),
                );
            let expected = match without.rsplit_once(' ').expect("a value") {
                (name, _) if answered => format!("{name} 0"),
                ("lazy", _) if answers.contains(&Advice::Free) => "lazy filter".into(),
                _ => without.clone(),
            };
            assert_eq!(fact, &expected, "{answers:?}");
        }
        assert_eq!(facts.len(), none.len());
    }
}

#[test]
fn rule_18_architecture_and_number_are_checked_and_children_inherit() {
    let (none, all) = (filtered("others", None), filtered("others", Some(&Advice::ALL)));
    for (with, without) in all.iter().zip(&none) {
        let expected = match without.split_once(' ').expect("a value").0 {
            "no-new-privs" => "no-new-privs 1",
            "seccomp" => "seccomp 2",
            "child-free" => "child-free 0",
            _ => without,
        };
        assert_eq!(with, expected);
    }
    assert_eq!(all.len(), none.len());
    assert!(none.iter().any(|fact| fact == "child-free -12"), "{none:?}");
}
