// SPDX-License-Identifier: GPL-2.0-only
//! Printed command = run command: what a request prints is parsed to the same request, for many of them.

use crate::args::{Arguments, Part, Verb};
use ceasefire_run::kernels::{Kernels, Source, Tree};
use ceasefire_run::luggage::{Luggage, Program};
use ceasefire_run::machine::{Emulator, MachineSpec};
use ceasefire_run::mmtests;
use ceasefire_run::plan::{distinct, Matrix, ThreadMode};
use ceasefire_run::presets::Preset;
use ceasefire_run::request::{GuestSpec, Own, Place, Request, Work};
use ceasefire_run::tlb::Tlb;
use ceasefire_run::words::Output;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

const REQUESTS: u64 = 500;

/// splitmix64: the same requests every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 0
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn some<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        self.yes().then(|| make(self))
    }

    fn many<T: Clone + PartialEq>(&mut self, most: u64, make: impl Fn(&mut Random) -> T) -> Vec<T> {
        let count = self.below(most + 1);
        distinct(&(0..count).map(|_| make(self)).collect::<Vec<_>>())
    }

    fn words(&mut self, most: u64, of: &[&str]) -> Vec<String> {
        self.many(most, |random| random.one(of).to_string())
    }

    fn matrix(&mut self) -> Matrix {
        let or_one = |list: Vec<u32>| if list.is_empty() { vec![1] } else { list };
        Matrix {
            workloads: self.words(3, &["zero", "munmap", "control", "apache"]),
            except: Vec::new(),
            vcpus: or_one(self.many(4, |random| 1 + random.below(64) as u32)),
            threads: self.some(|random| or_one(random.many(3, |random| 1 + random.below(64) as u32))),
            nodes: self.some(|random| 1 + random.below(8) as u32),
            repeats: 1 + self.below(9) as u32,
            boots: 1 + self.below(3) as u32,
            seed: self.below(u64::MAX),
            units: self.some(|random| 1 + random.below(1 << 40)),
            settings: self.many(2, |random| {
                (
                    random.one(&["pages", "-x", "a"]).to_string(),
                    random.one(&["1", "it's", "x=y", "a,b"]).to_string(),
                )
            }),
            cost: self.yes(),
            record: self.yes(),
        }
    }

    fn kernels(&mut self, usual: &str) -> Kernels {
        let names = self.words(3, &["vanilla", "toy", "toy:off", "toy:on", "own.1"]);
        Kernels {
            names: if names.is_empty() { vec![usual.into()] } else { names },
            modes: self.words(2, &["off", "idle", "full"]),
            source: match self.below(3) {
                0 => Source::Image(self.path()),
                1 => Source::Tree(Tree {
                    dir: self.path(),
                    config: (0..self.below(3)).map(|_| self.path()).collect(),
                }),
                _ => Source::Recipes,
            },
        }
    }

    fn path(&mut self) -> std::path::PathBuf {
        self.one(&["/boot/vmlinuz", "a b/c", "-", "--out", "it's", "$HOME", "*", "é", "a,b"]).into()
    }

    fn machine(&mut self) -> MachineSpec {
        MachineSpec {
            emulator: match self.below(3) {
                0 => Emulator::Given(self.path()),
                1 => Emulator::Stock,
                _ => Emulator::Ours,
            },
            is_kvm: self.yes(),
            thread_mode: self.one(&[ThreadMode::Single, ThreadMode::Multi]),
            slice_us: self.some(|random| random.below(200_000) as u32),
            tlb: self.some(|random| {
                let specs = [
                    "stock",
                    "plain",
                    "hardware",
                    "hardware,seed=7,psc=0",
                    "adversary,speculation-us=0",
                    "entries=64,ways=4,insert=on",
                    "hardware,broadcast=late,broadcast-pages=64",
                ];
                Tlb::parse(random.one(&specs)).expect("a spec")
            }),
            la57: self.yes(),
            memory_mib: self.some(|random| random.below(9000) as u32),
            kernel_args: self.one(&["", "nopcid", "-x toy_adaptive=0", "a='b c' \"d\"", "--seed 5"]).into(),
        }
    }

    fn output(&mut self) -> Output {
        Output { out: if self.yes() { "out".into() } else { self.path() }, json: self.yes() }
    }

    fn limit(&mut self) -> Option<Duration> {
        self.some(|random| Duration::from_secs(random.below(100_000)))
    }

    fn request(&mut self) -> Request {
        match self.below(10) {
            0 => Request::preset(Preset::Demo(1 + self.below(3) as u32), self.output()),
            1 => Request::preset(Preset::All, self.output()),
            2..=4 => Request {
                work: Work::One(Matrix { nodes: None, boots: 1, record: false, ..self.matrix() }),
                place: Place::Host {
                    modes: self.words(2, &["off", "full"]),
                    program: self.some(Random::path),
                },
                limit: self.limit(),
                output: self.output(),
            },
            5 | 6 => Request {
                work: Work::Program(self.own()),
                place: Place::Guest(GuestSpec { kernels: self.kernels("vanilla"), machine: self.machine() }),
                limit: self.limit(),
                output: self.output(),
            },
            _ => Request {
                work: Work::One(self.matrix()),
                place: Place::Guest(GuestSpec { kernels: self.kernels("vanilla"), machine: self.machine() }),
                limit: self.limit(),
                output: self.output(),
            },
        }
    }

    fn own(&mut self) -> Own {
        let arguments = ["5", "a b", "", "--json", "--", "it's", "-x=1", "zero"];
        Own {
            matrix: Matrix { workloads: Vec::new(), settings: Vec::new(), ..self.matrix() },
            program: Program {
                file: self.path(),
                args: self.many(3, |random| random.one(&arguments).into()),
            },
            luggage: Luggage { dir: self.some(Random::path), tools: self.many(2, Random::path) },
        }
    }

    fn tests(&mut self) -> mmtests::Request {
        let kernel = self.one(&[mmtests::KERNEL, "vanilla", "toy"]);
        let kernels = self.kernels(kernel);
        mmtests::Request {
            tests: self.words(3, &["cow", "mremap_test", "madv_populate"]),
            short: self.yes(),
            spec: GuestSpec {
                kernels: Kernels {
                    names: vec![kernel.into()],
                    modes: kernels.modes.into_iter().take(1).collect(),
                    source: kernels.source,
                },
                machine: self.machine(),
            },
            cpus: 1 + self.below(8) as u32,
            limit: self.limit(),
            patience: 1 + self.below(100) as u32,
            output: self.output(),
        }
    }
}

fn parse(words: &[OsString]) -> Verb {
    let all = std::iter::once(OsString::from("ceasefire")).chain(words.iter().cloned());
    match Arguments::try_parse_from(all) {
        Ok(Arguments { part: Part::Lab(lab) }) => lab.verb,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// As a shell would take it apart.
fn split(command: &str) -> Vec<OsString> {
    let words = shlex::split(command).unwrap_or_else(|| panic!("{command} cannot be split"));
    assert_eq!(words.first().map(String::as_str), Some("ceasefire"), "{command}");
    words.into_iter().skip(1).map(OsString::from).collect()
}

fn request(words: &[OsString]) -> Request {
    match parse(words) {
        Verb::Run(run) => run.request().unwrap_or_else(|error| panic!("{words:?}: {error:?}")),
        Verb::Demo(demo) => Request::preset(Preset::Demo(demo.boots), demo.output.typed()),
        Verb::All(output) => Request::preset(Preset::All, output.typed()),
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn a_request_is_printed_as_it_is_parsed() {
    let mut random = Random(1);
    for number in 0..REQUESTS {
        let asked = random.request();
        assert_eq!(request(&asked.words()), asked, "request {number}: {:?}", asked.words());
        assert_eq!(request(&split(&asked.command())), asked, "request {number}: {}", asked.command());
    }
}

#[test]
fn tests_of_linux_are_asked_for_as_they_are_printed() {
    let mut random = Random(2);
    for number in 0..REQUESTS {
        let asked = random.tests();
        for words in [asked.words(), split(&asked.command())] {
            let Verb::Selftests(args) = parse(&words) else { panic!("{words:?}") };
            assert_eq!(args.request().expect("a request"), asked, "request {number}: {words:?}");
        }
        let Verb::Selftests(args) = parse(&split(&asked.rerun("cow"))) else { panic!("no tests") };
        assert_eq!(args.request().expect("a request").spec, asked.spec);
    }
}
