// SPDX-License-Identifier: GPL-2.0-only
//! `lab run`, `demo` and `all`: from arguments to a request, from results to the screen.

use super::read::table_options;
use super::recorded;
use crate::args::{Output, Run, Where};
use ceasefire_artifacts::Context;
use ceasefire_base::{exec::print_line, Error, Result};
use ceasefire_report::{page, screen, table, Files};
use ceasefire_run::board::Board;
use ceasefire_run::executor::Site;
use ceasefire_run::guest::GuestSite;
use ceasefire_run::host::HostSite;
use ceasefire_run::kernels::{Kernels, USUAL};
use ceasefire_run::luggage::{self, Luggage, Program};
use ceasefire_run::plan::{distinct, Matrix};
use ceasefire_run::presets::Preset;
use ceasefire_run::request::{GuestSpec, Own, Place, Request, Work};
use ceasefire_run::session::{self, Session};
use ceasefire_run::words::{shell, Line};
use std::path::PathBuf;
use std::time::Duration;

/// Where --cpus says nothing.
const CPUS: u32 = 4;

pub fn preset(ctx: &Context, preset: Preset, output: &Output) -> Result<()> {
    run(ctx, &Request::preset(preset, output.typed()))
}

pub fn run(ctx: &Context, request: &Request) -> Result<()> {
    request.validate()?;
    match &request.place {
        Place::Guest(spec) => {
            let (mut luggage, mut program) = (Luggage::default(), None);
            let is_recorded = request.matrices().iter().any(|matrix| matrix.record);
            let board = Board::of(ctx, spec)?;
            if let Work::Program(own) = &request.work {
                (luggage, program) = (own.luggage.clone(), Some(&own.program));
            }
            if is_recorded && board.architecture.is_foreign() {
                return Err(Error::usage(format!(
                    "the observer does not run on the machine {}",
                    board.machine()
                ))
                .remedy("leave out --record"));
            }
            if is_recorded {
                luggage.tools.push(observer()?);
            }
            let packed = luggage::pack(ctx, &luggage, program, &board, &spec.machine)?;
            run_in(ctx, GuestSite::new(spec.clone()).with_luggage(packed.as_ref()), request)
        }
        Place::Host { modes, program } => run_in(ctx, HostSite::new(modes, program.clone()), request),
    }
}

fn run_in(ctx: &Context, site: impl Site, request: &Request) -> Result<()> {
    // The output directory is ours until everything is written.
    let session = Session::open(ctx, site, request.matrices(), Some(&request.output.out))?;
    let Some(mut results) = session.measure(request)? else { return Ok(()) };
    let recorded = recorded::add(&mut results);
    let is_tour = matches!(request.work, Work::Preset(Preset::Demo(_))) && results.reportable().is_ok();
    if request.output.json {
        print_line(results.to_json()?.trim_end());
    } else if !is_tour {
        print_line(table::render(&results, &table_options()).trim_end());
        recorded.iter().for_each(|text| print_line(text));
    }
    let written = session::write(&results, &request.output.out, page::html)?;
    let files = Files { page: &written.page, data: &written.data };
    if is_tour && !request.output.json {
        print_line(screen(&results, &files, &table_options()).trim_end());
    } else if !request.output.json {
        print_line(&format!("\n{}\n{}", files.page.display(), files.data.display()));
    }
    session::judge(results.rows.len(), &results.failed.iter().collect::<Vec<_>>())
}

impl Run {
    pub fn request(&self) -> Result<Request> {
        let matrix = Matrix {
            workloads: self.workloads.clone(),
            except: Vec::new(),
            vcpus: match &self.cpus {
                Some(cpus) => distinct(cpus),
                None => vec![if self.cost { 1 } else { CPUS }],
            },
            threads: self.threads.as_deref().map(distinct),
            nodes: self.nodes,
            repeats: self.repeats,
            boots: self.boots,
            seed: self.seed,
            units: self.units,
            settings: self.settings.iter().map(|text| setting(text)).collect::<Result<_>>()?,
            cost: self.cost,
            record: self.record,
        };
        let place = match self.on {
            Where::Guest if self.workloads_program.is_some() => {
                return Err(Error::usage("--workloads-program has no effect on a guest, which has its own")
                    .remedy("leave it out, or add --on host"))
            }
            Where::Guest => {
                Place::Guest(GuestSpec { kernels: self.kernels(&self.mode), machine: self.machine.spec()? })
            }
            Where::Host => {
                self.check_host()?;
                let program = self.workloads_program.clone();
                Place::Host { modes: distinct(&self.mode), program }
            }
        };
        let limit = self.timeout.map(Duration::from_secs);
        let luggage = self.luggage.typed();
        let work = match &self.program {
            Some(file) => {
                let program = Program { file: file.clone(), args: self.arguments.clone() };
                Work::Program(Own { matrix, program, luggage })
            }
            None if luggage.is_empty() => Work::One(matrix),
            None => {
                return Err(Error::usage(
                    "--dir and --with are for a program of your own, and there is no --program",
                )
                .remedy("name it with --program FILE, or leave them out"))
            }
        };
        Ok(Request { work, place, limit, output: self.output.typed() })
    }

    /// The same where no CPUs are named: no more than the machine has. What is wrong with the kernels is said later.
    pub fn request_on(&self, ctx: &Context) -> Result<Request> {
        let mut request = self.request()?;
        let board = match &request.place {
            Place::Guest(spec) if self.cpus.is_none() => Board::of(ctx, spec).ok(),
            _ => None,
        };
        if let (Some(board), Work::One(matrix) | Work::Program(Own { matrix, .. })) =
            (board, &mut request.work)
        {
            matrix.vcpus.iter_mut().for_each(|cpus| *cpus = board.cpus_max().min(*cpus));
        }
        Ok(request)
    }

    fn kernels(&self, modes: &[String]) -> Kernels {
        Kernels { source: self.machine.source(), ..Kernels::named(&self.kernel, modes) }
    }

    /// What only a guest can have is refused, not ignored.
    fn check_host(&self) -> Result<()> {
        let mut line = Line::default();
        self.kernels(&[]).put_words(&mut line, USUAL);
        self.machine.spec()?.put_words(&mut line);
        line.maybe("nodes", self.nodes.map(|nodes| nodes.to_string()));
        line.maybe("boots", (self.boots != 1).then(|| self.boots.to_string()));
        if self.record {
            return Err(Error::usage("--record is for guests")
                .remedy("on this machine: ceasefire watch record --events -- COMMAND"));
        }
        if line.0.is_empty() {
            return Ok(());
        }
        let words = shell(&line.0);
        let words = words.trim_start_matches("ceasefire ");
        Err(Error::usage(format!("--on host takes no {words}"))
            .remedy("leave it out, or leave out --on host"))
    }
}

/// This program, which the guest runs.
fn observer() -> Result<PathBuf> {
    if !cfg!(feature = "watch") {
        return Err(Error::skip("this ceasefire was built without the observer, which records")
            .remedy("make watch, then target/watch/release/ceasefire lab run"));
    }
    let program = std::env::current_exe()
        .map_err(|error| Error::failed(format!("this program cannot be found: {error}")))?;
    // The guest calls it by its name.
    if program.file_name() != Some("ceasefire".as_ref()) {
        return Err(Error::usage(format!("the observer's file is called {}", program.display()))
            .remedy("name it ceasefire, and let nobody replace it meanwhile"));
    }
    Ok(program)
}

fn setting(text: &str) -> Result<(String, String)> {
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    match text.split_once('=') {
        Some((key, values)) if is_word(key) && values.split(',').all(is_word) => {
            Ok((key.into(), values.into()))
        }
        _ => Err(Error::usage(format!("'{text}' is not a setting"))
            .remedy("write --set KEY=VALUE, or several values with commas, without blanks")),
    }
}
