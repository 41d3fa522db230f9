// SPDX-License-Identifier: GPL-2.0-only
//! What the library and the filter add to a call, with the spread over repeats, in turn with runs that have neither:
//!
//!   cargo test --release -p ceasefire-deter-preload --test deter_overhead -- --ignored --nocapture
//!
//! CEASEFIRE_OVERHEAD_REPEATS=N for more or fewer than 9.

mod common;

use ceasefire_deter_preload::{install_filter, Advice, Filter};
use common::{command, finish, library, program, text, ALL, STRICT};
use std::os::unix::process::CommandExt;

/// Cases that the library neither answers nor has to look at.
const UNTOUCHED: [&str; 2] = ["getppid", "write"];
const PER_CENT_MOST: f64 = 2.0;

/// Nanoseconds by case, as the program prints them.
fn measured(way: Way) -> Vec<(String, f64)> {
    let library = library();
    let preload = match way {
        Way::Strict => Some((library.as_path(), STRICT)),
        Way::Zero => Some((library.as_path(), ALL)),
        Way::None | Way::Filter => None,
    };
    let mut command = command(&program("overhead", &[]), &[], preload);
    if way == Way::Filter {
        let filter = Filter::answering(&Advice::ALL);
        // SAFETY: between fork and exec, two system calls, on an array that was built before.
        unsafe { command.pre_exec(move || install_filter(&filter)) };
    }
    let output = finish(&mut command, b"", 120);
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let (name, value) = line.split_once('\t').expect("two columns");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    None,
    Strict,
    Zero,
    Filter,
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

#[test]
#[ignore = "a measurement of a minute, on a machine that is otherwise idle"]
fn what_a_call_costs() {
    let repeats: usize =
        std::env::var("CEASEFIRE_OVERHEAD_REPEATS").ok().and_then(|n| n.parse().ok()).unwrap_or(9);
    const WAYS: [Way; 4] = [Way::None, Way::Strict, Way::Zero, Way::Filter];
    let mut runs: [Vec<Vec<(String, f64)>>; 4] = Default::default();
    for _ in 0..repeats {
        for (runs, way) in runs.iter_mut().zip(WAYS) {
            runs.push(measured(way));
        }
    }
    println!("ns a call: median (least to most) of {repeats} runs");
    println!("{:<30}{:>24}{:>32}{:>32}{:>32}", "", "none", "preload, strict", "preload, zero", "filter");
    let mut worst: Vec<String> = Vec::new();
    for case in 0..runs[0][0].len() {
        let name = &runs[0][0][case].0;
        let of = |way: usize| spread(runs[way].iter().map(|run| run[case].1).collect());
        let (none, least, most) = of(0);
        print!("{name:<30}{:>24}", format!("{none:.0} ({least:.0} to {most:.0})"));
        for way in 1..WAYS.len() {
            // In pairs that ran one after the other: what else the machine does hits both.
            let (added, less, more) = spread(
                runs[way].iter().zip(&runs[0]).map(|(with, none)| with[case].1 - none[case].1).collect(),
            );
            print!(
                "{:>32}",
                format!("{added:+.0} ({less:+.0} to {more:+.0}) {:+.1} %", added / none * 100.0)
            );
            // The least of all is what the call takes; the rest is what else the machine does.
            let more = (of(way).1 / least - 1.0) * 100.0;
            if WAYS[way] != Way::Filter && UNTOUCHED.contains(&name.as_str()) && more > PER_CENT_MOST {
                worst.push(format!("{name}: {more:+.1} % with {:?}", WAYS[way]));
            }
        }
        println!();
    }
    assert!(worst.is_empty(), "more than {PER_CENT_MOST} %: {worst:?}");
}
