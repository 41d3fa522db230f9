// SPDX-License-Identifier: GPL-2.0-only
//! What several causes have in common: neighbours, nested flushes, the ceiling, who is hit.

use crate::facts::{who, Facts};
use crate::Advice;
use ceasefire_watch_model::{Class, Range, Task, WhyFull};
use ceasefire_watch_views::numbers::{count, time};
use std::collections::{BTreeMap, HashMap};

/// Less of a share is not worth a change of code.
const SHARE: f64 = 0.1;

pub fn about(facts: &Facts<'_>) -> Vec<Advice> {
    let mut all: Vec<Advice> = Vec::new();
    all.extend(batching(facts));
    all.extend(full(facts));
    all.extend(pinning(facts));
    all
}

fn batching(facts: &Facts<'_>) -> Vec<Advice> {
    let mut all = Vec::new();
    for cause in &facts.causes {
        let Some(saving) = facts.saving(cause.class, &cause.cause, Range::Touching) else { continue };
        if saving.shootdowns < 100 || (saving.saved_shootdowns as f64) < saving.shootdowns as f64 * SHARE {
            continue;
        }
        all.push(Advice {
            class: cause.class,
            subject: format!("{} piece by piece", cause.cause),
            change: "make one call for the whole range instead of one for each piece".into(),
            evidence: vec![
                format!(
                    "{} of {} shootdowns continue the range that the same thread flushed from the same stack just before",
                    count(saving.saved_shootdowns),
                    count(saving.shootdowns)
                ),
                format!(
                    "one call for each group would save up to {} of {} received and {} of {} waited",
                    count(saving.saved_targets),
                    count(saving.targets),
                    time(saving.saved_wait_ns),
                    time(saving.wait_ns)
                ),
            ],
            command: "ceasefire watch report FILE --view savings".into(),
            caution: format!(
                "an upper bound; {} of {} groups would be full flushes (over 33 pages)",
                count(saving.full_runs),
                count(saving.runs)
            ),
        });
    }
    all
}

fn full(facts: &Facts<'_>) -> Vec<Advice> {
    let sites = || facts.window.sites.iter().filter(|site| site.class == Class::User);
    let sum = |why: Option<WhyFull>| {
        sites()
            .filter(|site| why.is_none() || site.why_full == why)
            .map(|site| site.tally.shootdowns)
            .fold(0, u64::saturating_add)
    };
    let all = sum(None);
    let is_much = |part: u64| part >= 100 && part as f64 >= all as f64 * SHARE;
    let mut advice = Vec::new();
    let nested = sum(Some(WhyFull::Nested));
    if is_much(nested) {
        advice.push(Advice {
            class: Class::User,
            subject: "full flushes (nested)".into(),
            change: "let one thread at a time unmap or discard in that process".into(),
            evidence: vec![format!(
                "{} of {} user shootdowns were full because another thread was unmapping at that moment",
                count(nested),
                count(all)
            )],
            command: "ceasefire watch stacks --for 10s".into(),
            caution: "a full flush is quick itself; its price are the misses afterwards, which are not measured here".into(),
        });
    }
    let over = sum(Some(WhyFull::OverCeiling));
    let path = "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling";
    if let (true, Some(ceiling)) = (is_much(over), facts.setting(path)) {
        advice.push(Advice {
            class: Class::User,
            subject: "full flushes (over the ceiling)".into(),
            change: "try another ceiling only if misses after the flush cost more than single pages".into(),
            evidence: vec![format!(
                "{} of {} user shootdowns were full because their range was over {ceiling} pages",
                count(over),
                count(all)
            )],
            command: format!("echo 64 > {path}"),
            caution: "each single page lengthens the handler on every target: compare `ceasefire watch hist`"
                .into(),
        });
    }
    advice
}

/// A process that interrupts threads of others still stands in the TLBs of CPUs it has left.
fn pinning(facts: &Facts<'_>) -> Option<Advice> {
    let window = facts.window;
    let mut tasks: HashMap<u32, &Task> = HashMap::new();
    window.victims.iter().for_each(|victim| {
        tasks.insert(victim.task.tid, &victim.task);
    });
    let mut senders: HashMap<u32, &Task> = HashMap::new();
    window.senders.iter().for_each(|sender| {
        senders.insert(sender.task.tid, &sender.task);
    });
    // By process: all interruptions, those of other processes' threads, and time stolen from these.
    let mut sums: BTreeMap<u32, (u64, u64, u64, &Task)> = BTreeMap::new();
    for pair in window.pairs.iter().filter(|pair| pair.class == Class::User && pair.victim_tid != 0) {
        let (Some(sender), Some(victim)) = (senders.get(&pair.sender_tid), tasks.get(&pair.victim_tid))
        else {
            continue;
        };
        let sum = sums.entry(sender.tgid).or_insert((0, 0, 0, sender));
        sum.0 = sum.0.saturating_add(pair.interruptions);
        if victim.tgid != sender.tgid {
            sum.1 = sum.1.saturating_add(pair.interruptions);
            sum.2 = sum.2.saturating_add(pair.stolen_ns);
        }
    }
    let (tgid, (all, others, stolen_ns, task)) =
        sums.into_iter().filter(|(_, sum)| sum.3.process().is_some()).max_by_key(|(_, sum)| sum.1)?;
    if others < 100 || (others as f64) < all as f64 * SHARE || facts.environment.cpus < 2 {
        return None;
    }
    let process = facts.processes.iter().find(|process| process.tgid == tgid);
    let allowed =
        process.map_or(String::new(), |process| format!("; it may run on CPUs {}", process.cpus_allowed));
    Some(Advice {
        class: Class::User,
        subject: "threads of other processes hit".into(),
        change: "give that process CPUs of its own, so that it does not stay in the TLBs of others'".into(),
        evidence: vec![format!(
            "{} of {} interruptions by {} hit threads of other processes, stealing {}{allowed}",
            count(others),
            count(all),
            who(task),
            time(stolen_ns)
        )],
        command: format!("taskset -acp CPUS {tgid}"),
        caution: "its threads then share fewer CPUs; choose CPUS as many as it keeps busy".into(),
    })
}
