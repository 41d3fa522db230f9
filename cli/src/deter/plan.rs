// SPDX-License-Identifier: GPL-2.0-only
//! `plan`: looks, and changes nothing.

use super::args::Plan;
use super::interception::risks_of_remedy;
use super::lines::say;
use super::{seen, show};
use ceasefire_base::exec::print_line;
use ceasefire_base::{Error, Result};
use ceasefire_deter::machine::Machine;
use ceasefire_deter::plan::{list, plan, Plan as Found, Seen};
use ceasefire_deter::program::{of_command, of_process, Program};
use ceasefire_deter::remedy;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

pub fn run(args: &Plan) -> Result<u8> {
    let program = look(args)?;
    let seen = args.seen.as_deref().map(|path| seen::read(path, args.pid)).transpose()?;
    let machine = Machine::here(Path::new("/"));
    let found = plan(&program, &machine, seen.as_ref().map(|(seen, _)| seen), remedy::all());
    if args.json {
        let seen = seen.map(|(seen, _)| seen);
        print_line(&json(&program, &found, seen.as_ref()).to_string());
        return Ok(0);
    }
    say("", &program.describe());
    if let Some(script) = &program.script {
        say("  ", &format!("runs the script {}", script.display()));
    }
    for note in &program.notes {
        say("  note: ", note);
    }
    for sentence in &found.removed {
        say("  first: ", sentence);
    }
    if let Some((_, whose)) = &seen {
        say("  ", whose);
    }
    let (host, own): (Vec<_>, Vec<_>) = found.helps.iter().partition(|choice| choice.remedy.is_host());
    print_line("");
    match own.is_empty() {
        true => print_line("no remedy for the program itself"),
        false => print_line("could help:"),
    }
    for choice in &own {
        let remedy = choice.remedy;
        print_line(&format!("  {}", remedy.name));
        say("    ", &remedy.about);
        say("    because  ", &choice.why.join(", "));
        say("    removes  ", &list(&remedy.removes));
        if remedy.is_received_only {
            say("    but      ", "as many flushes are asked for; fewer interrupt somebody");
        }
        say("    costs    ", &remedy.costs);
        if let (Some(running), true) = (&remedy.running, program.pid.is_some()) {
            say("    running  ", running);
        }
        if let Some(first) = &choice.first {
            say("    first    ", first);
        }
        if remedy.is_loose {
            say("    risk     ", "a program can notice it: only with --loose");
        }
        for risk in risks_of_remedy(remedy) {
            say("    risk     ", risk);
        }
        say("    says     ", &show::source(remedy));
    }
    if !host.is_empty() {
        let names: Vec<String> = host.iter().map(|choice| choice.remedy.name.clone()).collect();
        say("", "of the whole host, if its causes are seen:");
        say("  ", &list(&names));
    }
    if args.all {
        print_line("");
        print_line("does not apply:");
        for (remedy, why) in &found.not {
            say("  ", &format!("{}: {why}", remedy.name));
        }
    } else if !found.not.is_empty() {
        say("", &format!("{} others do not apply; --all says why", found.not.len()));
    }
    print_line("");
    say("", "Nothing was changed or tried. How to set one: `ceasefire deter show NAME`.");
    Ok(0)
}

fn look(args: &Plan) -> Result<Program> {
    match (args.pid, args.command.is_empty()) {
        (Some(pid), _) => of_process(pid),
        (None, false) => of_command(&args.command, environment()),
        (None, true) => Err(Error::usage("plan needs a process or a command")
            .remedy("ceasefire deter plan -p PID, or ceasefire deter plan -- COMMAND")),
    }
}

/// What a command would be given.
pub fn environment() -> BTreeMap<String, String> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

fn json(program: &Program, found: &Found, seen: Option<&Seen>) -> serde_json::Value {
    let helps: Vec<_> = found
        .helps
        .iter()
        .map(|choice| json!({"remedy": choice.remedy, "why": choice.why, "first": choice.first}))
        .collect();
    let not: Vec<_> =
        found.not.iter().map(|(remedy, why)| json!({"remedy": remedy.name, "why": why})).collect();
    json!({
        "schema": "ceasefire.deter-plan/1",
        "program": {
            "name": program.name, "path": program.path, "pid": program.pid, "script": program.script,
            "kinds": program.kinds, "versions": program.versions, "threads": program.threads,
            "privileged": program.privileged, "sanitizer": program.sanitizer, "notes": program.notes,
        },
        "seen": seen.map(|seen| seen.iter().map(|(cause, n)| (cause.to_string(), *n)).collect::<BTreeMap<_, _>>()),
        "removed": found.removed, "helps": helps, "does_not_apply": not,
    })
}
