// SPDX-License-Identifier: GPL-2.0-only
//! The fixed sets of matrices behind `make demo` and `make lab`.

use crate::kernels::Kernels;
use crate::plan::Matrix;

const SEED: u64 = 1;
const REPEATS: u32 = 3;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn matrix(workloads: &[&str], vcpus: &[u32]) -> Matrix {
    Matrix {
        workloads: names(workloads),
        vcpus: vcpus.to_vec(),
        repeats: REPEATS,
        seed: SEED,
        ..Matrix::default()
    }
}

/// What the demo measures side by side: one kernel, so one build. That `off` equals the baseline is a test of its own.
fn demo_kernels() -> Option<Kernels> {
    let known = ceasefire_mechanism::built_in().ok()?;
    let demo = known.into_iter().find_map(|mechanism| mechanism.demo)?;
    Some(Kernels::named(&[demo.kernel], &demo.modes))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// So many boots of each machine.
    Demo(u32),
    All,
}

impl Preset {
    /// The verb of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Demo(_) => "demo",
            Preset::All => "all",
        }
    }

    pub fn matrices(self) -> Vec<Matrix> {
        match self {
            Preset::Demo(boots) => demo(boots),
            Preset::All => all(),
        }
    }

    pub fn kernels(self) -> Kernels {
        match self {
            Preset::Demo(_) => demo_kernels().unwrap_or_default(),
            Preset::All => Kernels::default(),
        }
    }
}

/// The demo leaves out what takes thousands of threads, or hundreds of scans, for a shootdown or two.
const DEMO_WITHOUT: [&str; 3] = ["vmalloc-stacks", "numa-balancing", "migrate"];
/// What is also measured with two threads: one of each kind.
const DEMO_AT_TWO: [&str; 6] = ["control", "munmap", "munmap-shared", "cow-mt-seq", "msync-mt", "mmap-read"];

/// Controls, micro rows and idle mappings at 8 threads, some at 2, and one real program: three minutes. Of several boots
/// each measures a row once.
fn demo(boots: u32) -> Vec<Matrix> {
    let mut all = vec![
        Matrix { except: names(&DEMO_WITHOUT), ..matrix(&["control", "micro", "article", "idle"], &[8]) },
        matrix(&DEMO_AT_TWO, &[2]),
        matrix(&["migrate"], &[8]),
        // Fewer requests than its own 200: the same shootdowns for each, within 3 %, in half the time.
        Matrix { units: Some(80), ..matrix(&["apache"], &[8]) },
    ];
    for matrix in &mut all {
        (matrix.boots, matrix.repeats) = (boots, if boots > 1 { 1 } else { REPEATS });
    }
    all
}

/// Everything there is: more CPUs, four NUMA nodes, all applications, instruction counts.
fn all() -> Vec<Matrix> {
    let counts = ["control", "micro", "article", "lmbench"];
    vec![
        matrix(&counts, &[1, 2, 4, 8, 16]),
        Matrix { nodes: Some(4), ..matrix(&["control", "micro", "article"], &[16]) },
        matrix(&["app"], &[8]),
        matrix(&["apache"], &[4]),
        Matrix { cost: true, ..matrix(&counts, &[1]) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_sets_are_valid_requests() {
        for matrix in demo(1).into_iter().chain(demo(5)).chain(all()) {
            matrix.validate().expect("valid");
            assert!(matrix.repeats * matrix.boots >= 3);
        }
    }
}
