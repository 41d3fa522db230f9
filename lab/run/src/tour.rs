// SPDX-License-Identifier: GPL-2.0-only
//! The fixed sets of requests behind `make demo` and `make lab`.

use crate::plan::Request;

const SEED: u64 = 1;
const REPEATS: u32 = 3;

fn request(workloads: &[&str], vcpus: &[u32]) -> Request {
    Request {
        workloads: workloads.iter().map(|name| name.to_string()).collect(),
        vcpus: vcpus.to_vec(),
        threads: None,
        nodes: None,
        repeats: REPEATS,
        seed: SEED,
        units: None,
        settings: Vec::new(),
        cost: false,
    }
}

/// What the demo measures side by side: one kernel, so one build. That `off` equals the baseline is a test of its own.
pub const DEMO_KERNEL: &str = "abis";
pub const DEMO_MODES: [&str; 2] = ["off", "idle"];

/// Controls and micro rows at 1, 2, 4 and 8 threads, idle mappings, and one real program.
pub fn demo() -> Vec<Request> {
    vec![
        request(&["control", "micro", "article"], &[1, 2, 4, 8]),
        request(&["idle"], &[8]),
        request(&["apache"], &[8]),
    ]
}

/// Everything there is: more CPUs, four NUMA nodes, all applications, instruction counts.
pub fn all() -> Vec<Request> {
    let counts = ["control", "micro", "article", "lmbench"];
    vec![
        request(&counts, &[1, 2, 4, 8, 16]),
        Request { nodes: Some(4), ..request(&["control", "micro", "article"], &[16]) },
        request(&["app"], &[8]),
        request(&["apache"], &[4]),
        Request { cost: true, ..request(&counts, &[1]) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_sets_are_valid_requests() {
        for request in demo().into_iter().chain(all()) {
            request.validate().expect("valid");
            assert!(request.repeats >= 3);
        }
    }
}
