// SPDX-License-Identifier: GPL-2.0-only
//! `make paper`: from the table of figures to boots, from boots to the paper's evaluation. A plan is pure; a run takes
//! what an earlier one has measured from its logs.

use crate::catalog::Catalog;
use crate::execute::{self, Options, Variant};
use crate::image::Images;
use crate::plan::Request;
use crate::qemu::Cpu;
use crate::tlb::Tlb;
use ceasefire_artifacts::Context;
use ceasefire_base::{Error, Result};
use ceasefire_results::paper::figures::{self, Figure, Work, CONTROLS, FIGURES};
use ceasefire_results::paper::{Measured, Paper, SCHEMA};
use ceasefire_results::schema::Results;

/// As the paper.
pub const REPEATS: u32 = 5;
pub const REPEATS_QUICK: u32 = 2;
const SEED: u64 = 1;

/// One boot on each of its kernels.
#[derive(Debug, Clone)]
pub struct Step {
    pub request: Request,
    /// As `--tlb` takes it.
    pub tlb: &'static str,
    pub skips_off: bool,
    /// See [`Work::also`] and [`Work::kernel_args`].
    pub also: Option<&'static str>,
    pub kernel_args: &'static str,
    /// On one core, on one kernel.
    pub seconds: f64,
}

/// The figures of that name, in the table's order; all where none is named.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Figure>> {
    for id in only {
        if figures::figure(id).is_none() {
            let known: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
            return Err(Error::usage(format!("there is no figure '{id}'"))
                .remedy(format!("choose from: {}", known.join(", "))));
        }
    }
    Ok(FIGURES.iter().filter(|figure| only.is_empty() || only.iter().any(|id| id == figure.id)).collect())
}

/// Every workload, thread count and point is a boot of its own: it is measured alike wherever the table asks for it, and
/// an interrupted run loses no more than that.
pub fn steps(works: &[Work], repeats: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for work in works {
        for point in work.points {
            for &vcpus in work.vcpus {
                for threads in work.threads_at(vcpus) {
                    for workload in work.workloads {
                        steps.push(Step {
                            request: Request {
                                workloads: vec![workload.to_string()],
                                vcpus: vec![vcpus],
                                threads: Some(vec![threads]),
                                repeats,
                                seed: SEED,
                                units: work.units,
                                settings: point
                                    .set
                                    .iter()
                                    .map(|(k, v)| (k.to_string(), v.to_string()))
                                    .collect(),
                                cost: work.cost,
                                ..Request::default()
                            },
                            tlb: point.tlb,
                            skips_off: work.skips_off,
                            also: work.also,
                            kernel_args: work.kernel_args,
                            seconds: work.boot_s + work.repeat_s * f64::from(repeats),
                        });
                    }
                }
            }
        }
    }
    steps
}

pub fn controls(repeats: u32) -> Vec<Step> {
    steps(&[CONTROLS], repeats.min(REPEATS_QUICK))
}

impl Step {
    /// What chooses the machine on the command line, with a leading blank.
    fn machine_flags(&self) -> String {
        let mut flags = format!(" --tlb {}", self.tlb);
        if !self.kernel_args.is_empty() {
            flags += &format!(" --kernel-args {}", self.kernel_args);
        }
        flags
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

    /// Those that this step boots.
    fn variants(&self, kernels: &[Variant], names: &[(String, bool)]) -> Vec<Variant> {
        let mut variants: Vec<Variant> = Vec::new();
        for (variant, (_, is_off)) in kernels.iter().zip(names) {
            if self.skips_off && *is_off {
                continue;
            }
            variants.push(variant.clone());
            if let (Some(mode), Some("full")) = (self.also, variant.mode.as_deref()) {
                variants.push(Variant { mode: Some(mode.into()), ..variant.clone() });
            }
        }
        variants
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
        let plan = step.request.plan(catalog)?;
        let kernel = format!(" --kernel {}", step.on(kernels).join(","));
        if let Some(boot) = plan.boots.first() {
            let mut boot = boot.clone();
            // One boot for each repeat of a cost row.
            boot.jobs.iter_mut().for_each(|job| job.repeats = step.request.repeats);
            lines.push(execute::command_of(&boot, &kernel, &step.machine_flags()));
        }
    }
    Ok(lines)
}

/// How many boots and how many seconds on so many cores.
pub fn estimate(steps: &[Step], kernels: &[(String, bool)], cores: usize) -> (u64, f64) {
    let mut boots = 0;
    let mut seconds = 0.0;
    for step in steps {
        let count = step.on(kernels).len() as u64;
        boots += count * if step.request.cost { u64::from(step.request.repeats) } else { 1 };
        seconds += step.seconds * count as f64;
    }
    (boots, seconds / cores.max(1) as f64)
}

pub struct Run<'a> {
    pub ctx: &'a Context,
    pub catalog: &'a Catalog,
    pub images: &'a Images,
    /// All kernels, the baseline first; its CPU is replaced by each step's.
    pub options: &'a Options,
    /// As the command line names them, and whether they are off.
    pub names: &'a [(String, bool)],
    pub repeats: u32,
}

impl Run<'_> {
    /// Labels as rows carry them.
    pub fn kernels(&self) -> Vec<String> {
        self.options.kernels.iter().map(|variant| variant.row_label()).collect()
    }

    /// The controls, and nothing else yet. Refused, in one sentence, if one fails.
    pub fn begin(&self) -> Result<Paper> {
        let results = self.measure(&controls(self.repeats))?;
        results.reportable()?;
        if let Some(failed) = results.failed.first() {
            return Err(Error::failed(format!(
                "a control was not measured: {}: {}",
                failed.workload, failed.reason
            ))
            .remedy(format!("rerun: {}", failed.rerun.as_deref().unwrap_or("ceasefire lab run control"))));
        }
        Ok(Paper {
            schema: SCHEMA.into(),
            environment: results.environment,
            repeats: self.repeats,
            kernels: self.kernels(),
            controls: results.controls,
            workloads: results.workloads,
            figures: Vec::new(),
        })
    }

    pub fn figure(&self, figure: &Figure, paper: &mut Paper) -> Result<()> {
        let steps = steps(figure.works, self.repeats);
        let results = self.measure(&steps)?;
        if !results.environment.cycle_costs.is_empty() {
            paper.environment.cycle_costs = results.environment.cycle_costs.clone();
        }
        let commands = commands(&steps, self.catalog, self.names)?;
        paper.put(Measured::new(figure, results, &paper.kernels.clone(), commands)?);
        Ok(())
    }

    /// Steps of one machine and the same kernels share one run of the lab.
    fn measure(&self, steps: &[Step]) -> Result<Results> {
        let mut groups: Vec<(&Step, Vec<Request>)> = Vec::new();
        for step in steps {
            match groups.iter_mut().find(|(first, _)| first.is_alike(step)) {
                Some((_, requests)) => requests.push(step.request.clone()),
                None => groups.push((step, vec![step.request.clone()])),
            }
        }
        let mut all: Option<Results> = None;
        for (step, requests) in groups {
            let options = Options {
                kernels: step.variants(&self.options.kernels, self.names),
                cpu: Cpu { tlb: Some(Tlb::parse(step.tlb)?), ..self.options.cpu },
                kernel_arguments: step.kernel_args.into(),
                flags: step.machine_flags(),
                ..self.options.clone()
            };
            let more = execute::measure(self.ctx, self.catalog, &requests, self.images, &options)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_the_table_is_a_valid_request_on_a_machine_as_rows_name_it() {
        for figure in FIGURES {
            for step in steps(figure.works, REPEATS) {
                step.request.validate().expect("valid");
                assert_eq!(Tlb::parse(step.tlb).expect("a machine").to_string(), step.tlb, "{}", figure.id);
                assert!(step.seconds > 0.0);
            }
        }
    }

    #[test]
    fn a_step_is_counted_on_each_of_its_kernels() {
        let kernels = [("vanilla".into(), false), ("k:off".into(), true), ("k:full".into(), false)];
        let one = |skips_off, cost| Step {
            request: Request { repeats: 5, cost, ..Request::default() },
            tlb: "hardware",
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
        let hardware = Step { also: Some("full-hw"), kernel_args: "a=0", ..one(true, false) };
        assert_eq!(hardware.on(&kernels), ["vanilla", "k:full", "k:full-hw"]);
        assert_eq!(hardware.machine_flags(), " --tlb hardware --kernel-args a=0");
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
        let figure = figures::figure("figure-5").expect("known");
        let end = "--repeats 5 --seed 1 --kernel vanilla,k:off,k:full --tlb hardware";
        assert_eq!(
            commands(&steps(figure.works, REPEATS), &catalog, &kernels).expect("a plan"),
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
            Ok(chosen(&only)?.iter().map(|figure| figure.id).collect())
        };
        assert_eq!(ids(&["figure-8", "figure-5"]).expect("known"), ["figure-5", "figure-8"]);
        assert_eq!(ids(&[]).expect("all").len(), FIGURES.len());
        let error = ids(&["figure-9"]).expect_err("unknown");
        assert!(error.message.contains("figure-9") && error.remedy.expect("a remedy").contains("figure-5"));
    }
}
