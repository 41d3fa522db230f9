// SPDX-License-Identifier: GPL-2.0-only
//! The fixed sets of requests behind `make demo` and `make lab`.

use crate::plan::Request;

const SEED: u64 = 1;
const REPEATS: u32 = 3;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn request(workloads: &[&str], vcpus: &[u32]) -> Request {
    Request {
        workloads: names(workloads),
        vcpus: vcpus.to_vec(),
        repeats: REPEATS,
        seed: SEED,
        ..Request::default()
    }
}

/// What the demo measures side by side: one kernel, so one build. That `off` equals the baseline is a test of its own.
pub const DEMO_KERNEL: &str = "abis-debug";
pub const DEMO_MODES: [&str; 3] = ["off", "idle", "full"];

/// Thousands of threads for one kernel-range shootdown, or a machine of their own with two nodes: the demo has them at
/// 8 vCPUs alone.
const DEMO_SLOW: [&str; 3] = ["vmalloc-stacks", "migrate", "numa-balancing"];

/// Controls and micro rows at 1, 2, 4 and 8 threads, idle mappings, and one real program.
pub fn demo() -> Vec<Request> {
    let mut at_eight = vec!["idle"];
    at_eight.extend(DEMO_SLOW);
    vec![
        Request { except: names(&DEMO_SLOW), ..request(&["control", "micro", "article"], &[1, 2, 4, 8]) },
        request(&at_eight, &[8]),
        // Fewer requests than its own 200: the same shootdowns for each, within 3 %, in half the time.
        Request { units: Some(80), ..request(&["apache"], &[8]) },
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
