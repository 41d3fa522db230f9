// SPDX-License-Identifier: GPL-2.0-only
//! What the observer in a guest has recorded while a row was measured: pages per shootdown, by stack.

use crate::terminal;
use ceasefire_base::{Error, Result};
use ceasefire_results::schema::{Recorded, Results};
use ceasefire_watch_model::{Savings, Shootdown, Snapshot};
use ceasefire_watch_record::{Item, Reader};
use ceasefire_watch_views::savings;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Rows of a table. The results have all.
const TOP: usize = 5;
const COLUMNS: usize = 100;
/// An emulator's time says nothing: neighbours are those with none of the thread's other flushes between them.
const WITHIN_NS: u64 = 1_000_000_000;

struct Seen {
    whole: Snapshot,
    savings: Savings,
    /// Shootdowns that were only counted.
    dropped: u64,
}

/// Adds what the records hold to the results; what cannot be read is one of their problems. Return: the same for
/// people, one text for each.
pub fn add(results: &mut Results) -> Vec<String> {
    let mut texts = Vec::new();
    for recorded in &mut results.recorded {
        match read(recorded) {
            Ok(text) => texts.push(text),
            Err(error) => results.problems.push(error.message),
        }
    }
    texts
}

fn read(recorded: &mut Recorded) -> Result<String> {
    let seen = open(Path::new(&recorded.file), &mut |_| ())?;
    let json = savings::json(&seen.whole, Some(&seen.savings), usize::MAX);
    let value = serde_json::from_str(&json);
    recorded.savings = Some(value.map_err(|error| Error::failed(format!("{}: {error}", recorded.file)))?);

    let mode = recorded.mode.as_ref().map_or(String::new(), |mode| format!(" {mode}"));
    let set = recorded.set.as_ref().map_or(String::new(), |set| format!(" {set}"));
    let row = format!("{}{set} x{} ({}{mode})", recorded.workload, recorded.threads, recorded.kernel);
    let pages = pages(&seen, terminal::width(COLUMNS));
    let within_us = WITHIN_NS / 1000;
    let more = format!("ceasefire watch report {} --view savings --within-us {within_us}", recorded.file);
    let lost = lost(&seen).map_or(String::new(), |lost| format!("  lost: {lost}\n"));
    Ok(format!("\nrecorded, setup included: {row}\n{pages}{lost}  more: {more}"))
}

fn open(path: &Path, take: &mut dyn FnMut(&Shootdown)) -> Result<Seen> {
    let about = |error: ceasefire_watch_record::Error| error.about(path);
    let file = File::open(path).map_err(|error| about(ceasefire_watch_record::Error::Io(error)))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(about)?;
    let mut savings = Savings::new(WITHIN_NS);
    while let Some(item) = reader.next_item().map_err(about)? {
        if let Item::Events(events) = item {
            for event in &events {
                savings.take(event);
                take(event);
            }
        }
    }
    savings.end();
    let dropped = reader.end.as_ref().map_or(0, |end| end.events_dropped);
    // Waiting times would be the emulator's.
    Ok(Seen { whole: Snapshot { has_latencies: false, ..reader.whole() }, savings, dropped })
}

/// What the figures do not hold.
fn lost(seen: &Seen) -> Option<String> {
    let lost = &seen.whole.coverage.lost;
    let sum = lost.events + lost.stacks + lost.rows + lost.slots + lost.answers + seen.dropped;
    (sum > 0).then(|| format!("{sum} shootdowns, targets or stacks were not recorded one by one"))
}

fn pages(seen: &Seen, width: usize) -> String {
    let table = |class| savings::pages(&seen.whole, Some(&seen.savings), class, TOP, width);
    savings::BOTH.map(table).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::Class;
    use ceasefire_watch_views::trace;
    use std::{env, fs};

    const PAGE: &str = "docs/measured/batch.md";
    const CLOSE: &str = "<!-- end -->";
    /// ADDRESS, PAGES, SHOOTDOWNS and FACTOR; behind them come the emulator's times.
    const TRACE_COLUMNS: usize = 45;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli/ has a parent")
    }

    /// What the page says of a record, between its marks.
    fn block(name: &str) -> String {
        let mut lines = vec![trace::head()[..TRACE_COLUMNS].to_string()];
        let path = root().join(format!("docs/measured/data/{name}.record"));
        let mut take = |event: &Shootdown| {
            if event.class == Class::KernelRange && event.pages.is_some() {
                lines.push(trace::line(event)[..TRACE_COLUMNS].to_string());
            }
        };
        let seen = open(&path, &mut take).expect("the kept record is whole");
        let table = savings::pages(&seen.whole, Some(&seen.savings), Class::KernelRange, TOP, COLUMNS);
        let reader =
            Reader::new(BufReader::new(File::open(&path).expect("the record"))).expect("its environment");
        let from = reader.environment;
        let condition = format!("Linux {}, {} CPUs, {}", from.kernel, from.cpus, from.cpu_model);
        format!("Recorded on {condition}:\n\n```\n{}\n\n{table}```\n", lines.join("\n"))
    }

    /// The article's listings, as our own observer makes them. UPDATE_EXPECT=1 writes them.
    #[test]
    fn the_page_shows_what_the_kept_records_hold() {
        let path = root().join(PAGE);
        let mut text = fs::read_to_string(&path).expect("the page");
        for name in ["slabs-pages", "slabs-range"] {
            let open = format!("<!-- record: {name} -->\n");
            let start = text.find(&open).unwrap_or_else(|| panic!("{PAGE} has no {open}")) + open.len();
            let end = start + text[start..].find(CLOSE).expect("an end");
            let wanted = block(name);
            if env::var_os("UPDATE_EXPECT").is_some() {
                text.replace_range(start..end, &wanted);
            } else {
                assert_eq!(text[start..end], wanted, "{name}: UPDATE_EXPECT=1 make test-unit writes it");
            }
        }
        if env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, text).expect("the page can be written");
        }
    }

    #[test]
    fn rows_say_pages_shootdowns_and_factor_of_each_stack() {
        let file =
            |name: &str| root().join(format!("docs/measured/data/{name}.record")).display().to_string();
        let mut sent = Vec::new();
        for (name, factor) in [("slabs-pages", " 1.00 "), ("slabs-range", " 32.00 ")] {
            let mut recorded = Recorded {
                workload: "slabs".into(),
                threads: 4,
                kernel: "observed-batch".into(),
                file: file(name),
                ..Recorded::default()
            };
            let text = read(&mut recorded).expect("whole");
            let line = text.lines().find(|line| line.contains("slab_write")).expect("a row of the slabs");
            assert!(line.contains(factor), "{line}");
            assert!(text.contains("recorded, setup included: slabs x4 (observed-batch)"), "{text}");
            assert!(!text.contains("waited"), "an emulator's time: {text}");
            let rows = recorded.savings.expect("a document")["processes"].clone();
            let rows = rows.as_array().expect("rows").clone();
            let mine = rows.iter().find(|row| row["cause"] == "unknown:slab_write").expect("of the slabs");
            let count = |field: &str| mine[field].as_u64().expect("a number");
            assert_eq!(count("pages") % 32, 0);
            sent.push((count("shootdowns") * 32 / count("pages"), count("saved_shootdowns_at_most")));
        }
        // All of a slab's but one could be spared; two instructions of one function are two stacks.
        let [each, range] = sent[..] else { panic!("two records") };
        assert!(each.0 == 32 && (28..=31).contains(&each.1), "{each:?}");
        assert_eq!(range, (1, 0));
    }

    /// A record that is missing, empty or cut costs its own report, and no row.
    #[test]
    fn a_record_that_cannot_be_read_is_a_problem_of_the_results() {
        let scratch = tempfile::tempdir().expect("a directory");
        let whole = fs::read(root().join("docs/measured/data/slabs-range.record")).expect("the kept record");
        let mut results = Results::new(Default::default());
        for (name, content) in [("empty", &[][..]), ("cut", &whole[..whole.len() / 2]), ("whole", &whole[..])]
        {
            let path = scratch.path().join(name);
            fs::write(&path, content).expect("a file");
            results.recorded.push(Recorded { file: path.display().to_string(), ..Recorded::default() });
        }
        results.recorded.push(Recorded { file: "/none".into(), ..Recorded::default() });
        assert_eq!(add(&mut results).len(), 1);
        let has = results.recorded.iter().map(|recorded| recorded.savings.is_some()).collect::<Vec<_>>();
        assert_eq!(has, [false, false, true, false]);
        let said = results.problems.join("\n");
        for words in ["empty is empty", "cut ends in the middle", "/none"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
