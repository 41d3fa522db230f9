// SPDX-License-Identifier: GPL-2.0-only
//! `make paper`: from a table of figures to boots, from boots to a paper's evaluation. A plan is pure; a run takes
//! what an earlier one has measured from its logs.

use crate::catalog::Catalog;
use crate::executor::Site;
use crate::files;
use crate::guest::{Guest, GuestSite};
use crate::kernels::{Choice, Kernels, Variant};
use crate::machine::MachineSpec;
use crate::plan::Matrix;
use crate::qemu::Cpu;
use crate::request::{self, GuestSpec, Place};
use crate::session::Session;
use crate::tlb::Tlb;
use crate::words::{self, Line, Output};
use ceasefire_artifacts::Context;
use ceasefire_base::progress::clock;
use ceasefire_base::{exec, Error, Kind, Result};
use ceasefire_results::paper::figures::{Evaluation, Figure, Work, EVALUATIONS};
use ceasefire_results::paper::{Measured, Paper, SCHEMA};
use ceasefire_results::schema::{Results, Unmeasured};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As the paper.
pub const REPEATS: u32 = 5;
pub const REPEATS_QUICK: u32 = 2;
const SEED: u64 = 1;

pub struct Request {
    pub evaluation: &'static Evaluation,
    /// Figures by name; all where none is named.
    pub only: Vec<String>,
    pub times: Times,
    /// NAME or NAME:MODE, the unchanged one first.
    pub kernels: Vec<String>,
    pub output: Output,
}

impl Request {
    pub fn command(&self) -> String {
        let mut line = Line::default();
        let evaluation = self.evaluation;
        ["lab", "paper"].iter().for_each(|word| line.word(word));
        if evaluation.id != EVALUATIONS[0].id {
            line.word(evaluation.id);
        }
        line.list("only", &self.only);
        let flag = if self.times.is_of_boots { "boots" } else { "repeats" };
        line.flag(flag, self.times.repeats.to_string());
        if self.kernels.join(",") != evaluation.kernels {
            line.list("kernel", &self.kernels);
        }
        line.output(&self.output, evaluation.out);
        words::shell(&line.0)
    }

    pub fn data(&self) -> PathBuf {
        self.output.out.join("paper.json")
    }

    pub fn page(&self) -> PathBuf {
        self.output.out.join("paper.html")
    }

    /// Refuses what cannot be right; the figures, and the kernels.
    fn check(&self, ctx: &Context) -> Result<(Vec<&'static Figure>, Vec<Choice>)> {
        let (boots, repeats) = self.times.of(false);
        Matrix { boots, repeats, ..Matrix::default() }.validate()?;
        let figures = chosen(self.evaluation, &self.only)?;
        let choices = Kernels::named(&self.kernels, &[]).choices(ctx, &MachineSpec::default())?;
        if choices.len() < 2 {
            return Err(Error::usage("one kernel alone has nothing to be compared with")
                .remedy("name the unchanged kernel first: --kernel vanilla,NAME:MODE"));
        }
        Ok((figures, choices))
    }

    fn site(&self) -> GuestSite {
        let kernels = Kernels::named(&self.kernels, &[]);
        GuestSite::new(GuestSpec { kernels, ..GuestSpec::default() })
    }
}

/// Runs what was asked for; `save` is called after each figure. What an earlier run into the same directory measured is
/// kept. `None` in a dry run.
pub fn run(ctx: &Context, request: &Request, save: &dyn Fn(&Paper) -> Result<()>) -> Result<Option<Paper>> {
    let (figures, choices) = request.check(ctx)?;
    let names: Vec<(String, bool)> =
        choices.iter().map(|choice| (choice.name(), choice.mode.as_deref() == Some("off"))).collect();
    let times = request.times;
    if ctx.dry_run {
        let mut sections: Vec<(&str, Vec<Step>)> = vec![("controls", controls(request.evaluation, times))];
        sections.extend(figures.iter().map(|figure| (figure.id, steps(figure.works, times))));
        show_plan(&sections, &request.site().catalog(ctx)?, &names)?;
        return Ok(None);
    }
    // Of all figures, so that what is chosen changes no boot's file system, and so no boot.
    let figures_all = request.evaluation.figures.iter();
    let all = figures_all.flat_map(|figure| steps(figure.works, times)).map(|step| step.matrix).collect();
    let mut session = Session::open(ctx, request.site(), all, Some(&request.output.out))?;
    session.resumes = true;
    let run = Run { session: &session, names: &names, times };
    let outcome = run.all(request, &figures, save);
    outcome.map(Some).map_err(|error| match error.kind {
        Kind::Interrupted => error.remedy("the same command resumes: every boot that ended is kept"),
        _ => error,
    })
}

/// How often each row is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub repeats: u32,
    /// Each repeat is a boot of its own, as those of cost rows always are.
    pub is_of_boots: bool,
}

impl Times {
    /// Boots, and repeats in each. Who plans a cost row gives it a boot for each repeat by itself.
    fn of(self, is_cost: bool) -> (u32, u32) {
        match self.is_of_boots && !is_cost {
            true => (self.repeats, 1),
            false => (1, self.repeats),
        }
    }
}

/// One boot on each of its kernels, or as many as [`Times`] says.
#[derive(Debug, Clone)]
pub struct Step {
    pub matrix: Matrix,
    /// As `--tlb` takes it.
    pub tlb: Option<&'static str>,
    pub skips_off: bool,
    /// See [`Work::also`] and [`Work::kernel_args`].
    pub also: Option<&'static str>,
    pub kernel_args: &'static str,
    /// On one core, on one kernel.
    pub seconds: f64,
}

/// The figures of that name, in the table's order; all where none is named.
pub fn chosen(evaluation: &'static Evaluation, only: &[String]) -> Result<Vec<&'static Figure>> {
    for id in only {
        if evaluation.figure(id).is_none() {
            let known: Vec<&str> = evaluation.figures.iter().map(|figure| figure.id).collect();
            return Err(Error::usage(format!("there is no figure '{id}'"))
                .remedy(format!("choose from: {}", known.join(", "))));
        }
    }
    let is_chosen = |figure: &&Figure| only.is_empty() || only.iter().any(|id| id == figure.id);
    Ok(evaluation.figures.iter().filter(is_chosen).collect())
}

/// Every workload, thread count and point is a boot of its own: it is measured alike wherever the table asks for it, and
/// an interrupted run loses no more than that.
pub fn steps(works: &[Work], times: Times) -> Vec<Step> {
    let mut steps = Vec::new();
    for work in works {
        let (boots, repeats) = times.of(work.cost);
        let seconds = f64::from(boots) * (work.boot_s + work.repeat_s * f64::from(repeats));
        for point in work.points {
            for &vcpus in work.vcpus {
                for threads in work.threads_at(vcpus) {
                    for workload in work.workloads {
                        steps.push(Step {
                            matrix: Matrix {
                                workloads: vec![workload.to_string()],
                                vcpus: vec![vcpus],
                                nodes: work.nodes,
                                threads: Some(vec![threads]),
                                repeats,
                                boots,
                                seed: SEED,
                                units: work.units,
                                settings: point
                                    .set
                                    .iter()
                                    .map(|(k, v)| (k.to_string(), v.to_string()))
                                    .collect(),
                                cost: work.cost,
                                ..Matrix::default()
                            },
                            tlb: point.tlb,
                            skips_off: work.skips_off,
                            also: work.also,
                            kernel_args: work.kernel_args,
                            seconds,
                        });
                    }
                }
            }
        }
    }
    steps
}

pub fn controls(evaluation: &Evaluation, times: Times) -> Vec<Step> {
    let repeats = times.repeats.min(REPEATS_QUICK);
    steps(std::slice::from_ref(&evaluation.controls), Times { repeats, ..times })
}

impl Step {
    /// What chooses kernels and machine on the command line.
    fn place(&self, kernels: &[String]) -> Result<Place> {
        let machine = MachineSpec {
            tlb: self.tlb.map(Tlb::parse).transpose()?,
            kernel_args: self.kernel_args.into(),
            ..MachineSpec::default()
        };
        Ok(Place::Guest(GuestSpec { kernels: Kernels::named(kernels, &[]), machine }))
    }

    /// Kernels by name and whether they are off; those that this step boots.
    fn on(&self, kernels: &[(String, bool)]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in kernels.iter().filter(|(_, is_off)| !(self.skips_off && *is_off)) {
            names.push(name.clone());
            if let (Some(mode), Some(kernel)) = (self.also, name.strip_suffix(":full")) {
                names.push(format!("{kernel}:{mode}"));
            }
        }
        names
    }

    /// The same, built: `kernels` has each kernel in some mode.
    fn variants(&self, kernels: &[Variant], names: &[(String, bool)]) -> Vec<Variant> {
        let of = |name: String| {
            let (kernel, mode) = match name.split_once(':') {
                Some((kernel, mode)) => (kernel.to_string(), Some(mode.to_string())),
                None => (name, None),
            };
            let built = kernels.iter().find(|variant| variant.choice.kernel == kernel)?;
            Some(Variant { choice: Choice { kernel, mode }, ..built.clone() })
        };
        self.on(names).into_iter().filter_map(of).collect()
    }

    /// Whether one run of the lab can do both.
    fn is_alike(&self, other: &Step) -> bool {
        (self.tlb, self.skips_off, self.also, self.kernel_args)
            == (other.tlb, other.skips_off, other.also, other.kernel_args)
    }
}

/// One command for each boot, kernels side by side, as `lab run` takes it.
pub fn commands(steps: &[Step], catalog: &Catalog, kernels: &[(String, bool)]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for step in steps {
        if let Some(boot) = step.matrix.plan(catalog)?.boots.first() {
            // One boot for each repeat of a cost row.
            let Matrix { repeats, boots, .. } = step.matrix;
            let matrix = Matrix { repeats, boots, ..boot.matrix() };
            lines.push(request_for(request::Work::One(matrix), step.place(&step.on(kernels))?).command());
        }
    }
    Ok(lines)
}

fn request_for(work: request::Work, place: Place) -> request::Request {
    request::Request { work, place, limit: None, output: Output::default() }
}

/// How many boots and how many seconds on so many cores.
pub fn estimate(steps: &[Step], kernels: &[(String, bool)], cores: usize) -> (u64, f64) {
    let mut boots = 0;
    let mut seconds = 0.0;
    for step in steps {
        let count = step.on(kernels).len() as u64;
        boots += count * u64::from(if step.matrix.cost { step.matrix.repeats } else { step.matrix.boots });
        seconds += step.seconds * count as f64;
    }
    (boots, seconds / cores.max(1) as f64)
}

/// Comments and commands, as every dry run: what boots, and how long it may take here.
fn show_plan(sections: &[(&str, Vec<Step>)], catalog: &Catalog, names: &[(String, bool)]) -> Result<()> {
    let cores = files::cores();
    let (mut boots, mut seconds) = (0, 0.0);
    for (name, steps) in sections {
        let (more_boots, more_seconds) = estimate(steps, names, cores);
        boots += more_boots;
        seconds += more_seconds;
        exec::print_line(&format!("# {name}: {more_boots} boots, about {}", span(more_seconds)));
        commands(steps, catalog, names)?.iter().for_each(|line| exec::print_line(line));
    }
    let whole = span(seconds);
    exec::print_line(&format!(
        "# in all {boots} boots, about {whole} on {cores} idle cores, kernels and machine built"
    ));
    Ok(())
}

fn span(seconds: f64) -> String {
    clock(Duration::from_secs_f64(seconds.max(0.0)))
}

struct Run<'a> {
    /// On all kernels, the baseline first; the CPU is replaced by each step's.
    session: &'a Session<'a, Guest>,
    /// As the command line names them, and whether they are off.
    names: &'a [(String, bool)],
    times: Times,
}

impl Run<'_> {
    fn all(
        &self,
        request: &Request,
        figures: &[&'static Figure],
        save: &dyn Fn(&Paper) -> Result<()>,
    ) -> Result<Paper> {
        let progress = &self.session.ctx.progress;
        progress
            .note(format!("controls, then {} figures; what an earlier run measured is kept", figures.len()));
        let mut paper = self.begin(request.evaluation)?;
        paper.environment.command = Some(request.command());
        if let Some(earlier) = earlier(&request.data()).filter(|earlier| earlier.is_same_condition(&paper)) {
            earlier.figures.into_iter().for_each(|measured| paper.put(measured));
        }
        for (index, figure) in figures.iter().enumerate() {
            progress.note(format!("{} ({} of {})", figure.id, index + 1, figures.len()));
            self.figure(figure, &mut paper)?;
            files::write_whole(&request.data(), paper.to_json()?.as_bytes())?;
            save(&paper)?;
        }
        Ok(paper)
    }

    /// The controls, and nothing else yet. Refused, in one sentence, if one fails.
    fn begin(&self, evaluation: &Evaluation) -> Result<Paper> {
        let results = self.measure(&controls(evaluation, self.times))?;
        results.reportable()?;
        let failed: Vec<&Unmeasured> = results.failed.iter().collect();
        crate::session::judge(results.rows.len(), &failed)?;
        Ok(Paper {
            schema: SCHEMA.into(),
            evaluation: evaluation.id.into(),
            environment: results.environment,
            repeats: self.times.repeats,
            is_of_boots: self.times.is_of_boots,
            kernels: self.session.executor.kernels.iter().map(Variant::row_label).collect(),
            controls: results.controls,
            workloads: results.workloads,
            figures: Vec::new(),
        })
    }

    fn figure(&self, figure: &'static Figure, paper: &mut Paper) -> Result<()> {
        let steps = steps(figure.works, self.times);
        let results = self.measure(&steps)?;
        if !results.environment.cycle_costs.is_empty() {
            paper.environment.cycle_costs = results.environment.cycle_costs.clone();
        }
        let commands = commands(&steps, &self.session.catalog, self.names)?;
        paper.put(Measured::new(figure, results, &paper.kernels.clone(), commands)?);
        Ok(())
    }

    /// Steps of one machine and the same kernels share one run of the lab.
    fn measure(&self, steps: &[Step]) -> Result<Results> {
        let mut groups: Vec<(&Step, Vec<Matrix>)> = Vec::new();
        for step in steps {
            match groups.iter_mut().find(|(first, _)| first.is_alike(step)) {
                Some((_, matrices)) => matrices.push(step.matrix.clone()),
                None => groups.push((step, vec![step.matrix.clone()])),
            }
        }
        let mut all: Option<Results> = None;
        for (step, matrices) in groups {
            let prepared = &self.session.executor;
            let guest = Guest {
                kernels: step.variants(&prepared.kernels, self.names),
                cpu: Cpu { tlb: step.tlb.map(Tlb::parse).transpose()?, ..prepared.cpu },
                kernel_args: step.kernel_args.into(),
                ..prepared.clone()
            };
            let request = request_for(request::Work::Many(matrices.clone()), step.place(&[])?);
            let Some(more) = self.session.measure_on(&guest, &request, &matrices)? else { continue };
            match &mut all {
                None => all = Some(more),
                Some(results) => {
                    results.rows.extend(more.rows);
                    results.controls.extend(more.controls);
                    results.skipped.extend(more.skipped);
                    results.failed.extend(more.failed);
                    results.problems.extend(more.problems);
                    results.environment.cycle_costs.extend(more.environment.cycle_costs);
                }
            }
        }
        all.ok_or_else(|| Error::failed("a figure without boots"))
    }
}

/// Figures that this run does not measure again; a file of another form is written anew.
fn earlier(data: &Path) -> Option<Paper> {
    Paper::from_json(&std::fs::read(data).ok()?, &data.display().to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Times = Times { repeats: REPEATS, is_of_boots: false };

    #[test]
    fn every_step_of_the_table_is_a_valid_request_on_a_machine_as_rows_name_it() {
        for figure in EVALUATIONS.iter().flat_map(|evaluation| evaluation.figures) {
            for step in steps(figure.works, FIVE) {
                step.matrix.validate().expect("valid");
                let tlb = step.tlb.map(|tlb| Tlb::parse(tlb).expect("a machine").to_string());
                assert_eq!(tlb.as_deref(), step.tlb, "{}", figure.id);
                assert!(step.seconds > 0.0);
            }
        }
    }

    #[test]
    fn a_step_is_counted_on_each_of_its_kernels() {
        let kernels = [("vanilla".into(), false), ("k:off".into(), true), ("k:full".into(), false)];
        let one = |skips_off, cost| Step {
            matrix: Matrix { repeats: 5, cost, ..Matrix::default() },
            tlb: Some("hardware"),
            skips_off,
            also: None,
            kernel_args: "",
            seconds: 10.0,
        };
        assert_eq!(estimate(&[one(false, false)], &kernels, 2), (3, 15.0));
        assert_eq!(estimate(&[one(true, false)], &kernels, 1), (2, 20.0));
        assert_eq!(
            estimate(&[one(false, true)], &kernels, 1),
            (15, 30.0),
            "a cost row boots for each repeat"
        );
        let of_boots =
            steps(std::slice::from_ref(&EVALUATIONS[0].controls), Times { is_of_boots: true, ..FIVE });
        assert_eq!((of_boots[0].matrix.boots, of_boots[0].matrix.repeats), (5, 1));
        assert_eq!(estimate(&of_boots, &kernels, 1).0, 30, "so does each of these");
        let hardware = Step { also: Some("full-hw"), kernel_args: "a=0", ..one(true, false) };
        assert_eq!(hardware.on(&kernels), ["vanilla", "k:full", "k:full-hw"]);
        let command = request_for(
            request::Work::One(Matrix::default()),
            hardware.place(&hardware.on(&kernels)).expect("a machine"),
        )
        .command();
        assert!(
            command.ends_with(" --kernel vanilla,k:full,k:full-hw --kernel-args a=0 --tlb hardware"),
            "{command}"
        );
    }

    #[test]
    fn the_plan_of_figure_5_is_the_golden_one() {
        let line = |name: &str, needs: &str| {
            format!(
                r#"{{"name":"{name}","group":"micro","unit":"u","about":"a","threads_min":1,"needs":[{needs}],"packages":[],"programs":[],"shared":false}}"#
            )
        };
        let names = ["cow-mt-seq", "cow-mt-rand", "mmap-read", "msync-mt", "anon-r-seq"];
        let mut text: Vec<String> = names.iter().map(|name| line(name, "")).collect();
        text.push(line("migrate", "\"nodes\""));
        let catalog = Catalog::parse(&text.join("\n")).expect("a catalog");
        let kernels = [("vanilla".into(), false), ("k:off".into(), true), ("k:full".into(), false)];
        let figure = EVALUATIONS[0].figure("figure-5").expect("known");
        let end = "--repeats 5 --seed 1 --kernel vanilla,k:off,k:full --tlb hardware";
        assert_eq!(
            commands(&steps(figure.works, FIVE), &catalog, &kernels).expect("a plan"),
            [
                format!("ceasefire lab run migrate --cpus 8 --nodes 2 {end}"),
                format!("ceasefire lab run cow-mt-seq --cpus 8 {end}"),
                format!("ceasefire lab run cow-mt-rand --cpus 8 {end}"),
                format!("ceasefire lab run msync-mt --cpus 8 {end}"),
                format!(
                    "ceasefire lab run mmap-read --cpus 8 {}",
                    end.replace("--seed 1", "--seed 1 --units 14336")
                ),
                format!("ceasefire lab run anon-r-seq --cpus 1 --cost {end}"),
            ]
        );
    }

    #[test]
    fn figures_are_chosen_by_name_in_the_tables_order() {
        let ids = |only: &[&str]| -> Result<Vec<&str>> {
            let only: Vec<String> = only.iter().map(|id| id.to_string()).collect();
            Ok(chosen(&EVALUATIONS[0], &only)?.iter().map(|figure| figure.id).collect())
        };
        assert_eq!(ids(&["figure-8", "figure-5"]).expect("known"), ["figure-5", "figure-8"]);
        assert_eq!(ids(&[]).expect("all").len(), EVALUATIONS[0].figures.len());
        let error = ids(&["figure-9"]).expect_err("unknown");
        assert!(error.message.contains("figure-9") && error.remedy.expect("a remedy").contains("figure-5"));
    }
}
