// SPDX-License-Identifier: GPL-2.0-only
//! Known storms, one after the other, each in a process of its own; what is seen must be what was done.

use super::args::Selftest;
use ceasefire_base::exec::print_line;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch::{Observer, Options};
use ceasefire_watch_model::{Class, Sender, Snapshot, Victim};
use ceasefire_watch_storms::{find, Pages, Storm, Truth, STORMS};
use ceasefire_watch_views::numbers::count;
use std::process::Command;

/// Another program may come between sender and victim: that storm is made again, and the line says so.
const TRIES: usize = 5;

enum Verdict {
    Exact(String),
    /// Exact but for requests that interrupted nobody.
    Deferred(String),
    Skip(String),
    Wrong(String),
}

pub fn run(args: &Selftest) -> Result<u8> {
    let storms: Vec<&Storm> = match args.storms.is_empty() {
        true => STORMS.iter().collect(),
        false => args.storms.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    cancel::install()?;
    let mut observer = Observer::start(Options::default())?;
    let (mut exact, mut deferred, mut skipped, mut wrong) = (0, 0, 0, 0);
    for storm in storms {
        let verdict = judge(&mut observer, storm, args.rounds.unwrap_or(storm.rounds))?;
        let (word, text) = match &verdict {
            Verdict::Exact(text) | Verdict::Deferred(text) => ("ok", text),
            Verdict::Skip(text) => ("SKIP", text),
            Verdict::Wrong(text) => ("WRONG", text),
        };
        match verdict {
            Verdict::Exact(_) => exact += 1,
            Verdict::Deferred(_) => deferred += 1,
            Verdict::Skip(_) => skipped += 1,
            Verdict::Wrong(_) => wrong += 1,
        }
        print_line(&match args.json {
            true => serde_json::json!({"schema": "ceasefire.watch-selftest/1", "storm": storm.name,
                "verdict": word.to_lowercase(), "detail": text})
            .to_string(),
            false => format!("{word:<5} {:<17} {text}", storm.name),
        });
    }
    if !args.json {
        let but_for = match deferred {
            0 => String::new(),
            _ => format!("{deferred} but for CPUs that the host had stopped, "),
        };
        print_line(&format!("{exact} attributed exactly, {but_for}{wrong} wrong, {skipped} skipped"));
    }
    match wrong {
        0 => Ok(0),
        _ => Err(Error::failed(format!("{wrong} of the storms were not attributed as they were made"))
            .remedy("`ceasefire watch check` says what this kernel hides; report the lines marked WRONG")),
    }
}

fn judge(observer: &mut Observer, storm: &Storm, rounds: u64) -> Result<Verdict> {
    let mut verdict = Verdict::Skip("the victim never had its CPU to itself".into());
    let mut disturbed = false;
    for again in 0..TRIES {
        cancel::check()?;
        let before = observer.snapshot()?;
        // On a slow machine whoever waits for the victim's CPU gets it before the storm is over: it is made shorter.
        let rounds = if disturbed { (rounds >> again).max(1) } else { rounds };
        let truth = match make(storm, rounds)? {
            Ok(truth) => truth,
            Err(why) => return Ok(Verdict::Skip(why)),
        };
        observer.settle()?;
        let window = observer.snapshot()?.since(&before);
        disturbed |= storm.is_steady && !truth.is_undisturbed;
        if storm.is_steady && !truth.is_undisturbed {
            continue;
        }
        verdict = match compare(&window, storm, &truth) {
            Ok(Seen { text, missing: 0 }) => return Ok(Verdict::Exact(text + &before_that(again, &verdict))),
            Ok(Seen { text, missing }) => Verdict::Deferred(format!(
                "{text}; {} interrupted nobody: KVM leaves out CPUs that the host has stopped",
                count(missing)
            )),
            Err(text) => Verdict::Wrong(text),
        };
    }
    Ok(verdict)
}

/// What an exact count after `again` others has to admit.
fn before_that(again: usize, last: &Verdict) -> String {
    match (again, last) {
        (0, _) => String::new(),
        (_, Verdict::Wrong(why) | Verdict::Deferred(why)) => {
            format!("; try {} of {TRIES}, the last one before it not exact: {why}", again + 1)
        }
        _ => format!("; try {} of {TRIES}: the victim did not have its CPU to itself", again + 1),
    }
}

/// `Ok(Err(…))`: this machine cannot make that storm.
fn make(storm: &Storm, rounds: u64) -> Result<std::result::Result<Truth, String>> {
    let failed =
        |error: std::io::Error| Error::failed(format!("the storm {} does not start: {error}", storm.name));
    let program = std::env::current_exe().map_err(failed)?;
    let rounds = rounds.to_string();
    let output = Command::new(program)
        .args(["watch", "storm", storm.name, "--rounds", &rounds])
        .output()
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout)
            .map(Ok)
            .map_err(|error| Error::failed(format!("the storm {} told no truth: {error}", storm.name))),
        Some(4) => Ok(Err(said.lines().next().unwrap_or("").trim_start_matches("error: ").to_string())),
        _ => Err(Error::failed(format!("the storm {} failed: {}", storm.name, said.trim()))),
    }
}

fn is_sender(sender: &Sender, truth: &Truth) -> bool {
    match &truth.sender_comm {
        Some(comm) => sender.task.comm.starts_with(comm.as_str()),
        None => sender.task.tid == truth.sender_tid,
    }
}

/// What was seen of a storm, and how many of its requests interrupted nobody.
struct Seen {
    text: String,
    missing: u64,
}

fn compare(window: &Snapshot, storm: &Storm, truth: &Truth) -> std::result::Result<Seen, String> {
    let deferred = deferred(window, storm);
    let mine: Vec<&Sender> =
        window.senders.iter().filter(|s| s.class.name() == storm.class && is_sender(s, truth)).collect();
    let is_there = |s: &Sender| truth.sender_comm.is_some() || s.cpu == truth.sender_cpu;
    let right: Vec<&&Sender> = mine.iter().filter(|s| s.cause.name() == storm.cause && is_there(s)).collect();
    let sent: u64 = right.iter().map(|s| s.tally.shootdowns).sum();
    let received: u64 = right.iter().map(|s| s.tally.targets).sum();
    let pages: u64 = right.iter().map(|s| s.tally.pages).sum();
    let full: u64 = right.iter().filter(|s| s.kind.is_full()).map(|s| s.tally.shootdowns).sum();
    let others: Vec<String> = mine
        .iter()
        .filter(|s| s.cause.name() != storm.cause && !storm.besides.contains(&s.cause.name()))
        .map(|s| format!("{} as {}", count(s.tally.shootdowns), s.cause))
        .collect();
    let victims = window.victims.iter().filter(|v| v.class.name() == storm.class);
    let by_anybody: u64 = victims.clone().map(|v| v.interruptions).sum();
    let is_victim = |v: &&Victim| v.task.tid == truth.victim_tid && v.cpu == truth.victim_cpu;
    let stolen: u64 = victims.filter(is_victim).map(|v| v.interruptions).sum();
    let rounds = truth.rounds;
    let text = format!(
        "{} rounds: {} sent, {} received, {} pages, {} full, victim interrupted {} times",
        count(rounds),
        count(sent),
        count(received),
        count(pages),
        count(full),
        count(stolen)
    );
    let text = match truth.is_undisturbed {
        true => text,
        false => format!("{text}, and others in its stead"),
    };
    let wrong = |why: &str| Err(format!("{text}: {why}"));
    // What a thread sends when it starts and ends (stacks, other memory) is not the storm's.
    let strays: u64 = mine.iter().map(|s| s.tally.shootdowns).sum::<u64>() - sent;
    let expected = rounds * storm.each + truth.full_besides;
    let missing = match (storm.each, expected.checked_sub(sent)) {
        (0, _) => 0,
        (_, Some(missing)) if missing <= deferred => missing,
        _ => return wrong(&format!("{} expected; {}", count(expected), others.join(", "))),
    };
    if sent == 0 {
        return wrong(&format!("none seen; {}", others.join(", ")));
    }
    let is_right = match storm.pages {
        Pages::Exactly(each) => full == truth.full_besides && pages == (sent - full) * each,
        Pages::Full => full == sent,
        Pages::None => full == 0 && pages == 0,
    };
    if !is_right {
        return wrong(&format!("other pages expected: {:?}", storm.pages));
    }
    // Each of them interrupts the victim, or who had its CPU for a moment; with more CPUs, others besides.
    let least = match (&truth.sender_comm, storm.is_steady) {
        (None, _) => received.min(rounds),
        (Some(_), true) => sent,
        (Some(_), false) => sent - sent / 10,
    };
    // A thread of the kernel that took the victim's CPU interrupts the other one.
    let was_seen = match truth.is_undisturbed {
        true => stolen >= least,
        false => by_anybody >= received && (stolen > 0 || storm.class != Class::User.name()),
    };
    if !was_seen {
        return wrong("the victim was not seen");
    }
    if storm.besides.is_empty() && strays > 16 {
        return wrong(&others.join(", "));
    }
    Ok(Seen { text, missing })
}

/// At most so many of the storm's requests found their target stopped by the host.
fn deferred(window: &Snapshot, storm: &Storm) -> u64 {
    match ceasefire_watch::defers_flushes() && storm.class == Class::User.name() {
        true => window.coverage.interrupted_nobody().unwrap_or(0),
        false => 0,
    }
}
