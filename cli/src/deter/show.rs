// SPDX-License-Identifier: GPL-2.0-only
//! `show`: a remedy to paste; without a name, all of them.

use super::args::Show;
use super::interception::risks_of_remedy;
use super::lines::{comment, say};
use ceasefire_base::exec::print_line;
use ceasefire_base::Result;
use ceasefire_deter::remedy::{self, Remedy};
use ceasefire_deter::show;
use serde_json::json;

pub fn run(args: &Show) -> Result<u8> {
    let Some(name) = &args.name else {
        if args.json {
            print_line(&json!({"schema": "ceasefire.deter-remedies/1", "remedy": remedy::all()}).to_string());
            return Ok(0);
        }
        for remedy in remedy::all() {
            print_line(&remedy.name);
            say("    ", &remedy.about);
        }
        return Ok(0);
    };
    let remedy = remedy::named(name)?;
    let lines = show::show(remedy, args.form.into())?;
    comment(&format!("{}: {}", remedy.name, remedy.about));
    comment(&format!("costs: {}", remedy.costs));
    for risk in risks_of_remedy(remedy) {
        comment(&format!("risk: {risk}"));
    }
    comment(&format!("says: {}", source(remedy)));
    // To be pasted: no line is broken.
    lines.iter().for_each(|line| print_line(line));
    Ok(0)
}

/// Who says so.
pub fn source(remedy: &Remedy) -> String {
    let unverified = if remedy.is_unverified { " (not verified)" } else { "" };
    format!("{}{unverified}", remedy.source.join("; "))
}
