// SPDX-License-Identifier: GPL-2.0-only
//! What the guests that try a machine's rules say (machine/*/guest), line by line.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(5);

pub struct Said {
    /// To be pasted.
    pub command: String,
    pub text: String,
    pub stderr: String,
    pub in_time: bool,
    /// QEMU itself ended with an error: it does not know an option, or it has crashed.
    pub refused: bool,
}

/// From the best to the worst.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Kept,
    Skipped(String),
    Broken(String),
    /// The guest did not live to tell: it hangs, has crashed, or says "lost".
    Lost,
}

impl Said {
    /// QEMU until it powers off, or time is up. Its serial port writes to `console`.
    pub fn of(mut command: Command, console: &Path, limit: Duration) -> Said {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let begun = Instant::now();
        let mut in_time = true;
        while child.try_wait().expect("QEMU is ours to wait for").is_none() {
            if in_time && begun.elapsed() > limit {
                in_time = false;
                child.kill().expect("QEMU is ours to kill");
            }
            std::thread::sleep(POLL);
        }
        let output = child.wait_with_output().expect("QEMU has ended");
        let text = std::fs::read(console).unwrap_or_default();
        Said {
            command: format!("{command:?}"),
            text: String::from_utf8_lossy(&text).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            in_time,
            refused: in_time && !output.status.success(),
        }
    }

    /// Whether the guest came to its end.
    pub fn is_whole(&self) -> bool {
        self.in_time && !self.refused && self.text.lines().any(|line| line.starts_with("done "))
    }

    pub fn line(&self, prefix: &str) -> Option<&str> {
        self.text.lines().find(|line| line.starts_with(prefix))
    }

    /// What was said of rules that were begun, in order. Of a rule that speaks twice it is both.
    fn spoken(&self) -> impl Iterator<Item = (u32, Verdict)> + '_ {
        self.text.lines().filter_map(parse_verdict)
    }

    /// The verdict of each rule that was begun; of several the worst: a rule that fails once is not kept.
    pub fn verdicts(&self) -> BTreeMap<u32, Verdict> {
        let mut worst = BTreeMap::new();
        for (number, verdict) in self.spoken() {
            let known = worst.entry(number).or_insert(Verdict::Kept);
            *known = verdict.max(known.clone());
        }
        worst
    }

    /// What a rule says it saw.
    pub fn seen(&self, number: u32) -> String {
        self.line(&format!("rule {number} ok ")).map(|line| line.to_string()).unwrap_or_default()
    }

    /// The guest's own table of rules.
    pub fn rules(&self) -> Vec<Rule> {
        let rules: Vec<Rule> = self.text.lines().filter_map(parse_rule).collect();
        assert!(!rules.is_empty(), "{self}");
        rules
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let end = if self.in_time { "" } else { " (time was up)" };
        write!(f, "{}{end}\n--- stderr\n{}\n--- console\n{}", self.command, self.stderr, self.text)
    }
}

/// "rule 17 ok …", "rule 17 FAIL why", "rule 17 skip what is missing", "rule 17 lost …", or "rule 17 " and no more. One
/// that says "resets" has its verdict when the machine is back.
fn parse_verdict(line: &str) -> Option<(u32, Verdict)> {
    let (number, rest) = line.strip_prefix("rule ")?.split_once(' ')?;
    let (word, detail) = rest.split_once(' ').unwrap_or((rest, ""));
    let verdict = match word {
        "ok" => Verdict::Kept,
        "FAIL" => Verdict::Broken(detail.into()),
        "skip" => Verdict::Skipped(detail.into()),
        "resets" => return None,
        _ => Verdict::Lost,
    };
    Some((number.parse().ok()?, verdict))
}

/// The rules that do not fail where they are broken, and why we think so. `run` boots the broken machine, with these
/// words more for the guest. A rule has noticed if it says so, and never anything else; whether it also counts that the
/// guest dies or hangs in the rule, the caller decides. A QEMU that dies has noticed nothing.
pub fn survivors(rules: &[u32], death_is_notice: bool, mut run: impl FnMut(&str) -> Said) -> Vec<String> {
    let mut open = rules.to_vec();
    let mut survivors = Vec::new();
    while !open.is_empty() {
        let list: Vec<String> = open.iter().map(u32::to_string).collect();
        let said = run(&format!("force rules={}", list.join(",")));
        if said.refused || !(said.in_time || death_is_notice) || said.spoken().next().is_none() {
            survivors.push(format!("rules {}: no answer, or none in time\n{said}", list.join(",")));
            break;
        }
        for (number, verdict) in said.spoken() {
            let is_noticed = match &verdict {
                Verdict::Broken(_) => true,
                Verdict::Lost => death_is_notice,
                Verdict::Kept | Verdict::Skipped(_) => false,
            };
            if !is_noticed {
                survivors.push(format!("rule {number}: {verdict:?} under {}", said.command));
            }
        }
        // If it died in the last one, the others have another boot.
        open.retain(|number| said.spoken().all(|(spoken, _)| spoken != *number));
        if said.is_whole() {
            survivors
                .extend(open.drain(..).map(|number| format!("rule {number} is not run by {}", said.command)));
        }
    }
    survivors
}

/// One row of the guest's own table of rules.
#[derive(Debug, Clone)]
pub struct Rule {
    pub number: u32,
    pub name: String,
    pub source: String,
    pub needs: Vec<String>,
    pub killer: String,
}

impl Rule {
    pub fn needs(&self, need: &str) -> bool {
        self.needs.iter().any(|n| n == need)
    }

    /// As the page about the rules has it.
    pub fn entry(&self, need_in_words: impl Fn(&str) -> &str) -> String {
        let needs: Vec<&str> = self.needs.iter().map(|need| need_in_words(need)).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
        format!("- {}: {}\n  {}{needs}; fails under {}\n", self.number, self.name, self.source, self.killer)
    }
}

fn parse_rule(line: &str) -> Option<Rule> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [number, name, source, needs, killer] = fields[..] else { return None };
    Some(Rule {
        number: number.parse().ok()?,
        name: name.into(),
        source: source.into(),
        needs: needs.split(" | ").filter(|need| *need != "0").map(str::to_string).collect(),
        killer: killer.into(),
    })
}

/// `X(ID, "name")`, as the list of breaks stands in machine/.
pub fn breaks_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("X(")?;
        let (id, rest) = rest.split_once(", \"")?;
        let is_id = id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let name = rest.split_once("\")")?.0;
        (is_id && !id.is_empty() && name != "none").then_some(name)
    })
}

/// The page about the rules is what the guest says; UPDATE_EXPECT=1 writes it.
pub fn check_page(path: &Path, page: &str, rules: &[Rule]) {
    let numbers: Vec<u32> = rules.iter().map(|rule| rule.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "the rules are not in order: {numbers:?}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, page).expect("the page");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "{} is not what the guest says: UPDATE_EXPECT=1 writes it", path.display());
}
