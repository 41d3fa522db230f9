// SPDX-License-Identifier: GPL-2.0-only
//! `host`: settings of this machine, with a journal.

use super::args::{Host as Args, HostAction};
use super::lines::say;
use ceasefire_base::exec::print_line;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_deter::host::{Host, Row, State};
use ceasefire_deter::remedy::{self, Remedy};
use serde_json::json;
use std::path::PathBuf;

/// Another root, for tests.
const ROOT: &str = "CEASEFIRE_DETER_ROOT";

pub fn run(args: &Args) -> Result<u8> {
    cancel::install()?;
    let root = std::env::var_os(ROOT).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let mut host = Host::new(&root);
    let rows = match &args.action {
        HostAction::On { names } => host.on(&chosen(names)?)?,
        HostAction::Off => host.off()?,
        HostAction::Status => host.status()?,
    };
    if args.json {
        print_line(&json!({"schema": "ceasefire.deter-host-status/1", "rows": rows}).to_string());
    } else {
        tell(&rows, &args.action);
    }
    let is_on = matches!(args.action, HostAction::On { .. });
    match is_on && rows.iter().all(|row| row.state == State::Missing) {
        true => Err(Error::skip("this kernel has none of these settings")
            .remedy("`ceasefire deter plan` names what else could help")),
        false => Ok(0),
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Remedy>> {
    let mut chosen = Vec::new();
    for name in names {
        let remedy = remedy::named(name)?;
        if !remedy.is_host() {
            return Err(Error::usage(format!("{name} is about a program, not about the host"))
                .remedy(format!("ceasefire deter show {name}")));
        }
        chosen.push(remedy);
    }
    Ok(chosen)
}

fn tell(rows: &[Row], action: &HostAction) {
    for row in rows {
        print_line(&row.path);
        let now = row.now.as_deref().unwrap_or("not there");
        let before = row.before.as_deref().unwrap_or(now);
        let says = match row.state {
            State::On => format!("{now}, set by {}; before: {before}", row.remedy),
            State::AlreadySo => format!("{now} already; it stays so after `off`"),
            State::Restored => format!("{now}, as it was before"),
            State::Changed => format!("{now}, which somebody else has set; left alone (before: {before})"),
            State::Missing => "this kernel does not have it".to_string(),
            State::Gone => format!("{now}; the machine was restarted since it was set"),
        };
        say("    ", &says);
    }
    match action {
        HostAction::On { .. } if rows.iter().any(|row| row.state == State::On) => {
            say(
                "",
                "Until `ceasefire deter host off` or the next restart of the machine. For good: \
                `ceasefire deter show NAME --as systemd`.",
            );
        }
        _ if rows.is_empty() => print_line("nothing is set"),
        _ => {}
    }
}
