// SPDX-License-Identifier: GPL-2.0-only
//! Published figures: what stands between `<!-- figures: NAME -->` and `<!-- end -->` in the documents is written from
//! results that are kept beside them, and from nothing else.

use crate::ceiling::{ceiling_table, is_ceiling};
use crate::cost::{cost_table, is_cost};
use crate::designs::{designs_table, is_designs};
use crate::held::held;
use crate::net::{is_net, net_table};
use crate::numbers::{figure, grouped, in_cell, median};
use crate::paper::blocks;
use crate::picture;
use crate::rows::list;
use crate::summary::{Change, Line, Rise, Summary};
use crate::trials::{self, Trials};
use crate::walks::{is_walks, walks_table};
use ceasefire_base::text::{count, width, wrap};
use ceasefire_base::{disk, Error, Result};
use ceasefire_results::paper::figures::{Evaluation, EVALUATIONS};
use ceasefire_results::paper::Paper;
use ceasefire_results::schema::{Environment, Results, Row};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Below the checkout.
const DATA: &str = "docs/measured/data";
const DEMO: &str = "demo.json";
const ENDING: &str = ".json";
const BOOTS_LEAST: u32 = 5;
const PICTURE: &str = "docs/demo.svg";
const OPEN: &str = "<!-- figures: ";
const CLOSE: &str = "<!-- end -->";
/// An application's row is what a reader can picture.
const APPLICATIONS: &str = "app";

/// Blocks by name.
pub(crate) type Blocks = BTreeMap<String, String>;

/// Keeps the results that are to be published as `kept_as`, and fills every document from them. Returns the files that
/// changed. Results that do not name the commit that measured them are refused, and those of few boots.
pub fn publish(root: &Path, bytes: &[u8], name: &str, kept_as: &str) -> Result<Vec<PathBuf>> {
    let whole = |environment: &Environment| match &environment.commit {
        Some(commit) if commit.ends_with("-dirty") => {
            Err(Error::usage(format!("{name} was measured with changes that no commit holds"))
                .remedy("commit them, and measure again"))
        }
        Some(_) => Ok(()),
        None => Err(Error::usage(format!("{name} does not say at which commit it was measured"))
            .remedy("measure again, in a git checkout")),
    };
    let (file, text) = if Paper::is_meant(bytes) {
        let mut paper = Paper::from_json(bytes, name)?;
        whole(&paper.environment)?;
        paper.environment = slim(&paper.environment);
        if !paper.is_of_boots || paper.repeats < BOOTS_LEAST {
            return Err(Error::usage(format!(
                "{name} is of {}, and published figures are of at least {BOOTS_LEAST} boots",
                paper.times()
            ))
            .remedy(format!("measure again: make paper BOOTS={BOOTS_LEAST}")));
        }
        blocks::reduced(&mut paper);
        (file_of_paper(paper.table()), serde_json::to_string(&paper))
    } else if Trials::is_meant(bytes) {
        let kept = Trials::from_json(bytes, name)?.to_kept(name)?;
        return keep(root, trials::FILE, &kept);
    } else {
        let results = Results::from_json(bytes, name)?;
        results.reportable()?;
        whole(&results.environment)?;
        if results.rows.iter().any(|row| row.recorded) {
            return Err(Error::usage(format!("{name} was measured while the observer looked on"))
                .remedy("measure again without --record"));
        }
        of_enough_boots(&results, name)?;
        let (file, kept) = (file_of(kept_as)?, reduced(&results));
        // What no table can be made of is not kept.
        table(&kept)?;
        (file, serde_json::to_string(&kept))
    };
    let text =
        text.map_err(|error| Error::failed(format!("the results cannot be written as JSON: {error}")))?;
    // A row a line, so that a change can be read.
    keep(root, &file, &(text.replace("},{\"workload\"", "},\n{\"workload\"") + "\n"))
}

fn keep(root: &Path, file: &str, text: &str) -> Result<Vec<PathBuf>> {
    let data = root.join(DATA);
    fs::create_dir_all(&data).map_err(|error| disk::error("create", &data, &error))?;
    let kept = data.join(file);
    let mut changed = Vec::new();
    if fs::read_to_string(&kept).ok().as_deref() != Some(text) {
        write(&kept, text)?;
        changed.push(kept);
    }
    for (path, _, new) in differing(root)? {
        write(&path, &new)?;
        changed.push(path);
    }
    Ok(changed)
}

/// Says which blocks are not what the kept results give, one sentence each.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let path_of = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let list = differing(root)?;
    Ok(list.iter().map(|(path, names, _)| format!("{}: {}", path_of(path), names.join(", "))).collect())
}

/// Files with what in them differs, and what they should hold.
fn differing(root: &Path) -> Result<Vec<(PathBuf, Vec<String>, String)>> {
    let mut blocks = Blocks::new();
    let mut list = Vec::new();
    if let Some(bytes) = kept(root, DEMO)? {
        let results = Results::from_json(&bytes, DEMO)?;
        blocks.extend(of_demo(&results)?);
        let (path, drawn) = (root.join(PICTURE), picture::file(&results)?);
        if fs::read_to_string(&path).ok().as_ref() != Some(&drawn) {
            list.push((path, vec!["the picture".into()], drawn));
        }
    }
    for file in EVALUATIONS.iter().map(file_of_paper) {
        if let Some(bytes) = kept(root, &file)? {
            blocks.extend(blocks::blocks(&Paper::from_json(&bytes, &file)?));
        }
    }
    if let Some(bytes) = kept(root, trials::FILE)? {
        blocks.insert(trials::BLOCK.into(), Trials::from_json(&bytes, trials::FILE)?.table());
    }
    for file in others(root)? {
        let Some(bytes) = kept(root, &file)? else { continue };
        let results = Results::from_json(&bytes, &file)?;
        blocks.insert(format!("{}-table", file.trim_end_matches(ENDING)), table(&results)?);
    }
    for path in documents(root)? {
        let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        let (filled, names) = fill(&text, &blocks)
            .map_err(|error| Error { message: format!("{}: {}", path.display(), error.message), ..error })?;
        if filled != text {
            list.push((path, names, filled));
        }
    }
    Ok(list)
}

/// Of results other than the demo's and the paper's.
fn table(results: &Results) -> Result<String> {
    match () {
        () if is_ceiling(results) => ceiling_table(results),
        () if is_net(results) => net_table(results),
        () if is_cost(results) => cost_table(results),
        () if is_designs(results) => Ok(designs_table(results, &compared(results)?)),
        () if is_walks(results) => Ok(walks_table(results, &compared(results)?)),
        () => Ok(demo_table(results, &compared(results)?)),
    }
}

/// Figures differ more between boots than between repeats of one.
fn of_enough_boots(results: &Results, name: &str) -> Result<()> {
    let few = results.rows.iter().find(|row| row.boots < BOOTS_LEAST);
    let Some(row) = few else { return Ok(()) };
    Err(Error::usage(format!(
        "{name} has {} of {}, and published figures are of at least {BOOTS_LEAST} boots",
        row.workload,
        count(u64::from(row.boots), "boot")
    ))
    .remedy(format!(
        "measure again: make demo BOOTS={BOOTS_LEAST}, ceasefire lab run with --boots {BOOTS_LEAST} --repeats 1, or \
         --cost with --repeats {BOOTS_LEAST}"
    )))
}

fn file_of_paper(evaluation: &Evaluation) -> String {
    format!("{}{ENDING}", blocks::stem(evaluation))
}

/// Below DATA. Papers have a form of their own.
fn file_of(name: &str) -> Result<String> {
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let file = format!("{name}{ENDING}");
    let is_other =
        file == trials::FILE || EVALUATIONS.iter().any(|evaluation| file_of_paper(evaluation) == file);
    match is_word && !is_other {
        true => Ok(file),
        false => Err(Error::usage(format!("results cannot be kept as '{name}'"))
            .remedy("give --as a name of small letters and dashes, other than a paper's or deter's")),
    }
}

/// What is kept beside the demo and the paper, sorted.
fn others(root: &Path) -> Result<Vec<String>> {
    let data = root.join(DATA);
    let mut found = Vec::new();
    let entries = match fs::read_dir(&data) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(|error| disk::error("read", &data, &error))?,
    };
    for entry in entries {
        let name = entry.map_err(|error| disk::error("read", &data, &error))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let is_paper = EVALUATIONS.iter().any(|evaluation| file_of_paper(evaluation) == name);
        if name.ends_with(ENDING) && name != DEMO && name != trials::FILE && !is_paper {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

fn kept(root: &Path, file: &str) -> Result<Option<Vec<u8>>> {
    let path = root.join(DATA).join(file);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk::error("read", &path, &error)),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| disk::error("write", path, &error))
}

/// README and every document under docs/.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| disk::error("read", &folder, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| disk::error("read", &folder, &error))?.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text with its blocks as they should be, and the names of those that were not. A marker in a sentence is
/// none: it stands at the beginning of a line.
fn fill(text: &str, blocks: &Blocks) -> Result<(String, Vec<String>)> {
    let (mut filled, mut names) = (String::new(), Vec::new());
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        filled.push_str(line);
        let Some(name) = line.strip_prefix(OPEN).and_then(|rest| rest.trim_end().strip_suffix(" -->")) else {
            continue;
        };
        let mut old = String::new();
        let end = loop {
            match lines.next() {
                Some(line) if line.trim_end() == CLOSE => break line,
                Some(line) if !line.starts_with(OPEN) => old.push_str(line),
                _ => {
                    return Err(Error::failed(format!("block '{name}' has no end"))
                        .remedy(format!("write {CLOSE} on a line of its own below it")))
                }
            }
        };
        match blocks.get(name) {
            Some(new) if *new != old => {
                filled.push_str(new);
                names.push(name.to_string());
            }
            _ => filled.push_str(&old),
        }
        filled.push_str(end);
    }
    Ok((filled, names))
}

/// What the blocks and the picture are made of.
fn reduced(results: &Results) -> Results {
    let summary = Summary::of(results);
    let described: Vec<_> =
        results.environment.mechanisms.iter().map(|mechanism| (&mechanism.name, mechanism.names())).collect();
    let kept = |row: &Row| {
        // The whole file has been judged; what it was judged by is not kept.
        let mut row = Row { asked_wrongly: Vec::new(), ..row.clone() };
        for (mechanism, counters) in &mut row.mechanisms {
            counters.retain(|name, _| {
                described.iter().any(|(known, names)| *known == mechanism && names.is_level(name))
            });
        }
        row
    };
    let mut rows: Vec<Row> = Vec::new();
    if is_cost(results) {
        rows.extend(results.rows.iter().map(kept));
    }
    for line in &summary.lines {
        rows.extend(std::iter::once(&line.base).chain(line.others.iter().flatten()).map(|row| kept(row)));
    }
    // What was checked is checked in every row, not only where most threads ran.
    if let Some(first) = rows.first_mut() {
        let sum =
            |get: fn(&Row) -> Option<u64>| results.rows.iter().filter_map(get).reduce(u64::saturating_add);
        (first.checked, first.violations) = (sum(|row| row.checked), sum(|row| row.violations));
    }
    for row in rows.iter_mut().skip(1) {
        (row.checked, row.violations) = (None, None);
    }
    let workloads =
        results.workloads.iter().filter(|about| rows.iter().any(|row| row.workload == about.name));
    Results {
        workloads: workloads.cloned().collect(),
        controls: results.controls.clone(),
        skipped: results.skipped.clone(),
        failed: results.failed.clone(),
        rows,
        ..Results::new(slim(&results.environment))
    }
}

/// A mechanism's own description is in its folder, and where results lay is nobody else's business.
fn slim(environment: &Environment) -> Environment {
    let command = environment.command.as_ref().map(|command| {
        let mut words: Vec<&str> = command.split(' ').collect();
        if let Some(at) = words.iter().position(|word| *word == "--out") {
            words.drain(at..words.len().min(at + 2));
        }
        words.join(" ")
    });
    Environment { mechanisms: Vec::new(), cpu_flags: None, command, ..environment.clone() }
}

fn of_demo(results: &Results) -> Result<Blocks> {
    let summary = compared(results)?;
    let blocks = [
        ("headline", headline(results, &summary)),
        ("gain", gain(results, &summary)),
        ("demo-table", demo_table(results, &summary)),
    ];
    Ok(blocks.map(|(name, text)| (name.to_string(), text)).into())
}

fn compared(results: &Results) -> Result<Summary<'_>> {
    let summary = Summary::of(results);
    match summary.is_compared() {
        true => Ok(summary),
        false => Err(Error::usage("one kernel in one mode has nothing to be held against")
            .remedy("publish what was measured in two modes, as `ceasefire lab demo` does")),
    }
}

/// `kernel NAME, mode full against off`
fn what(summary: &Summary) -> String {
    let (baseline, last) = (&summary.names[0], &summary.names[summary.names.len() - 1]);
    match &summary.kernel {
        Some(kernel) => format!("kernel {kernel}, mode {last} against {baseline}"),
        None => format!("{last} against {baseline}"),
    }
}

/// Date, commit, machine: what every published figure carries.
pub(crate) fn condition(environment: &Environment, place: Option<String>, repeats: String) -> String {
    let mut parts: Vec<String> = place.into_iter().collect();
    parts.push(format!("median of {repeats}"));
    let release = environment.kernels.first().and_then(|kernel| kernel.release.as_ref());
    parts.extend(release.map(|release| format!("Linux {release}")));
    parts.extend(environment.qemu.as_ref().map(|qemu| {
        let tlb = qemu.tlb.as_ref().map_or_else(String::new, |tlb| format!(", TLBs `{}`", tlb.spec));
        format!("emulated by QEMU {} ({}){tlb}", qemu.version, qemu.accel)
    }));
    parts.extend(day(environment));
    parts.extend(environment.commit.as_ref().map(|commit| format!("commit {commit}")));
    parts.extend(environment.command.as_ref().map(|command| format!("`{command}`")));
    parts.join(", ")
}

fn day(environment: &Environment) -> Option<String> {
    environment.date.split('T').next().filter(|day| !day.is_empty()).map(String::from)
}

pub(crate) fn hashes(environment: &Environment) -> String {
    let short = |hash: &Option<String>| hash.as_ref().map(|hash| hash.chars().take(12).collect::<String>());
    let mut parts = Vec::new();
    for kernel in &environment.kernels {
        parts.extend(short(&kernel.series).map(|hash| format!("kernel {} series {hash}", kernel.name)));
        parts.extend(short(&kernel.config).map(|hash| format!("config {hash}")));
    }
    let qemu = environment.qemu.as_ref();
    parts.extend(qemu.and_then(|qemu| short(&qemu.series)).map(|hash| format!("machine {hash}")));
    parts.extend(short(&environment.workloads).map(|hash| format!("workloads {hash}")));
    parts.join(", ")
}

fn last(line: &Line) -> Option<(usize, Change)> {
    let other = line.others.len().checked_sub(1)?;
    Some((other, line.change(other)?))
}

/// One sentence with one number; of an application if there is one.
fn headline(results: &Results, summary: &Summary) -> String {
    let is_application =
        |line: &&Line| results.about(&line.base.workload).is_some_and(|about| about.group == APPLICATIONS);
    let gained = |line: &&Line| matches!(last(line), Some((_, Change::Percent(change))) if change < 0.0);
    let environment = &results.environment;
    let mut parts: Vec<String> = summary.place().into_iter().collect();
    parts.extend(environment.qemu.as_ref().map(|qemu| {
        qemu.tlb.as_ref().map_or_else(|| "emulated".into(), |tlb| format!("emulated, TLBs `{}`", tlb.spec))
    }));
    parts.extend(day(environment));
    parts.extend(environment.commit.as_ref().map(|commit| format!("commit {commit}")));
    let condition = format!("{}; {}", summary.repeats(), parts.join(", "));
    let told = |line: &Line| {
        let (old, new) = (line.received()?, line.others.last().copied().flatten()?.received_per_unit?);
        let words = format!(
            "**One {} of {} interrupts {} other CPUs instead of {}.** ({}; {} to {} against {} to {} in {condition})",
            line.base.unit,
            line.name,
            figure(new.median),
            figure(old.median),
            what(summary),
            figure(new.min),
            figure(new.max),
            figure(old.min),
            figure(old.max),
        );
        Some(wrapped(&words, "> "))
    };
    if let Some(block) = summary.lines.iter().filter(is_application).find(gained).and_then(told) {
        return block;
    }
    let sentence = crate::finding::against(summary, summary.names.len() - 2);
    wrapped(&format!("**{sentence}** ({condition})"), "> ")
}

/// Documents have no longer lines.
const COLUMNS: usize = 116;

pub(crate) fn wrapped(text: &str, first: &str) -> String {
    let lines = wrap(text, "", 0, COLUMNS - first.len());
    lines.iter().map(|line| format!("{first}{line}\n")).collect()
}

/// Baseline and last variant; workloads with the same figures share a line.
fn gain(results: &Results, summary: &Summary) -> String {
    let knows_needed = summary.knows_needed();
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let is_shared = |line: &Line| results.is_shared(line.base);
    let (mut same, mut shared) = (Vec::new(), Vec::new());
    for line in summary.lines.iter().filter(|line| !line.is_silent()) {
        let Some((other, change)) = last(line) else { continue };
        let name = format!("`{}`", line.name);
        if matches!(change, Change::Same | Change::None) {
            if is_shared(line) { &mut shared } else { &mut same }.push(name);
            continue;
        }
        let new = median(line.others[other].and_then(|row| row.received_per_unit));
        let mut cells = vec![median(line.received()), new, minus(&change.words())];
        if knows_needed {
            cells[2] = minus(&line.avoided_words(other).unwrap_or_default());
            cells.insert(1, median(line.base.needed_per_unit));
        }
        let has_room =
            |names: &[String]| names.iter().map(|name| width(name) + 2).sum::<usize>() < COLUMNS / 2;
        match rows.iter_mut().find(|(names, known)| *known == cells && has_room(names)) {
            Some((names, _)) => names.push(name),
            None => rows.push((vec![name], cells)),
        }
    }
    let (baseline, last) = (&summary.names[0], &summary.names[summary.names.len() - 1]);
    let mut text = match knows_needed {
        true => format!("| workload | `{baseline}` | needed | `{last}` | avoided |\n|---|---|---|---|---|\n"),
        false => format!("| workload | `{baseline}` | `{last}` | change |\n|---|---|---|---|\n"),
    };
    for (names, cells) in rows {
        text += &format!("| {} | {} |\n", names.join(", "), cells.join(" | "));
    }
    let mut sentences = Vec::new();
    if !same.is_empty() {
        sentences.push(format!("No change is proved in {}.", list(&same)));
    }
    if !shared.is_empty() {
        sentences.push(format!("Nor in {}, where every thread uses every page.", list(&shared)));
    }
    match sentences.is_empty() {
        true => text,
        false => text + "\n" + &wrapped(&sentences.join(" "), ""),
    }
}

fn demo_table(results: &Results, summary: &Summary) -> String {
    let environment = &results.environment;
    let condition = condition(environment, summary.place(), summary.repeats());
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(environment)), ""));
    let mut heads: Vec<String> = summary.names.iter().map(|name| format!("`{name}`")).collect();
    if summary.knows_needed() {
        let variants = heads.split_off(1);
        heads.push("needed".into());
        heads.extend(variants.into_iter().flat_map(|name| [name, "avoided".into()]));
    }
    text += &format!("\n| workload | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    let mut rose = Vec::new();
    for line in &summary.lines {
        // Without ranges where a line would be too long; the data beside the page have them.
        let row = [true, false].map(|has_ranges| demo_row(line, has_ranges, summary.knows_needed()));
        text += row.iter().find(|row| width(row) <= COLUMNS).unwrap_or(&row[1]);
        text.push('\n');
        let words = |rise: &Rise| format!("{} (`{}`)", rise.words(), summary.names[rise.variant]);
        let rises: Vec<String> = line.rises().iter().map(words).collect();
        if !rises.is_empty() {
            rose.push(format!("`{}`: {}", line.name, rises.join(", ")));
        }
    }
    let rose = if rose.is_empty() { "nothing".into() } else { rose.join("; ") };
    for words in summary.unasked().into_iter().chain(summary.needed_by_variants()) {
        text += &format!("\n{}", wrapped(&words, ""));
    }
    text += &format!("\n{}\n", wrapped(&format!("What rose beside it: {rose}."), ""));
    let mut words = held(&results.controls);
    if let Some(checked) = results.rows.iter().filter_map(|row| row.checked).reduce(u64::saturating_add) {
        let wrong: u64 = results.rows.iter().filter_map(|row| row.violations).sum();
        words += &format!(" {} elisions were checked, {wrong} were wrong.", grouped(checked as f64));
    }
    text + &wrapped(&format!("{words} {}", unmeasured(results)), "")
}

/// `2 rows skipped, 0 failed.`
pub(crate) fn unmeasured(results: &Results) -> String {
    format!("{} skipped, {} failed.", count(results.skipped.len() as u64, "row"), results.failed.len())
}

fn demo_row(line: &Line, has_ranges: bool, knows_needed: bool) -> String {
    let value = |row: Option<&Row>| match row.and_then(|row| row.received_per_unit) {
        None => "-".to_string(),
        Some(spread) if has_ranges => in_cell(spread),
        Some(spread) => figure(spread.median),
    };
    let mut cells = vec![format!("`{}`", line.name), value(Some(line.base))];
    cells.extend(knows_needed.then(|| median(line.base.needed_per_unit)));
    for (other, row) in line.others.iter().enumerate() {
        if knows_needed {
            cells.extend([value(*row), minus(&line.avoided_words(other).unwrap_or_default())]);
            continue;
        }
        let change = match line.change(other) {
            Some(change @ (Change::Percent(_) | Change::FromZero)) => format!(" {}", minus(&change.words())),
            _ => String::new(),
        };
        cells.push(value(*row) + &change);
    }
    format!("| {} |", cells.join(" | "))
}

/// A true minus sign; alone it is a dash.
pub(crate) fn minus(text: &str) -> String {
    match text {
        "-" => text.into(),
        text => text.replace('-', "\u{2212}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_filled_and_everything_else_stays() {
        let blocks = Blocks::from([("a".into(), "new\n".to_string())]);
        let text = "x `<!-- figures: a -->`\n<!-- figures: a -->\nold\n<!-- end -->\ny\n<!-- figures: b -->\nz\n<!-- end -->";
        let (filled, names) = fill(text, &blocks).expect("filled");
        assert_eq!(filled, text.replace("\nold\n", "\nnew\n"));
        assert_eq!(names, ["a"]);
        assert_eq!(fill(&filled, &blocks).expect("filled"), (filled.clone(), vec![]), "once is enough");
        for broken in
            ["<!-- figures: a -->\nold\n", "<!-- figures: a -->\n<!-- figures: b -->\n<!-- end -->\n"]
        {
            assert!(fill(broken, &blocks).is_err(), "{broken}");
        }
    }
}
