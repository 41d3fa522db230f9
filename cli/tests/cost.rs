// SPDX-License-Identifier: GPL-2.0-only
//! Do instruction counts repeat across boots?

mod common;
use common::{lab_run, Scratch};

/// Each repeat is a boot of its own; the bar is 0.2 %.
#[test]
fn instructions_repeat_across_boots() {
    let out = Scratch::new("cost");
    let results =
        lab_run(&out, &["anon-r-seq", "munmap", "mprotect", "mmap-latency", "--cost", "--repeats", "3"]);
    let rows = results["rows"].as_array().expect("rows");
    assert!(rows.len() >= 3, "too few cost rows: {results}");
    for row in rows {
        assert_eq!(row["cost"], true);
        assert_eq!(row["vcpus"], 1);
        assert_eq!(row["repeats"], 3);
        assert_eq!(row["cpu"], "max,-erms,-fsrm");
        let spread = &row["instructions_per_unit"];
        let [min, median, max] = ["min", "median", "max"].map(|end| spread[end].as_f64().expect("counted"));
        assert!(median > 10.0, "{row}");
        let share = (max - min) / median;
        println!("{}: {median:.1} instructions per unit, spread {:.3} %", row["workload"], share * 100.0);
        assert!(share <= 0.002, "{} spreads {:.3} %", row["workload"], share * 100.0);
    }
}
