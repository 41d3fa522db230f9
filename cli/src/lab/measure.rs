// SPDX-License-Identifier: GPL-2.0-only
//! `lab run`, `demo` and `all`: from arguments to artefacts, from artefacts to results, from results to files.

use super::read::table_options;
use crate::args::{AccelName, MachineArgs, MachineName, Output, Run, Switch, ThreadModeName, Where};
use ceasefire_artifacts::kernel::{self, KernelImage, KernelSpec};
use ceasefire_artifacts::lock::Lock;
use ceasefire_artifacts::machine::{self, Machine};
use ceasefire_artifacts::{debian, guest, Context};
use ceasefire_base::{disk, exec, Error, Result};
use ceasefire_report::{page, table};
use ceasefire_results::Results;
use ceasefire_run::catalog::{edit_distance, Catalog};
use ceasefire_run::execute::{self, Options, Variant};
use ceasefire_run::image::Images;
use ceasefire_run::plan::{Request, ThreadMode};
use ceasefire_run::qemu::{Accel, Cpu};
use ceasefire_run::tlb::Tlb;
use ceasefire_run::{files, host, kvm, tour as tours};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where --cpus says nothing.
const CPUS: u32 = 4;
const VANILLA: &str = "vanilla";
const MEMORY_MIB_MIN: u32 = 256;
const MEMORY_MIB_MAX: u32 = 64 * 1024;

/// A kernel and one of its modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Empty for an image of the user's own.
    pub kernel: String,
    pub mode: Option<String>,
}

pub fn tour(ctx: &Context, name: &str, output: &Output) -> Result<()> {
    let is_demo = name == "demo";
    let requests = if is_demo { tours::demo() } else { tours::all() };
    let kernel = if is_demo { tours::DEMO_KERNEL } else { VANILLA }.to_string();
    let modes = if is_demo { tours::DEMO_MODES.map(String::from).to_vec() } else { Vec::new() };
    let machine_args = MachineArgs::default();
    let command = format!("ceasefire lab {name}");
    let choices = choices(ctx, &[kernel], &modes, &machine_args)?;
    guest_run(ctx, &requests, &choices, &machine_args, None, command, output)
}

pub fn run(ctx: &Context, args: &Run) -> Result<()> {
    let request = Request {
        workloads: args.workloads.clone(),
        except: Vec::new(),
        vcpus: match &args.cpus {
            Some(cpus) => distinct(cpus),
            None => vec![if args.cost { 1 } else { CPUS }],
        },
        threads: args.threads.as_deref().map(distinct),
        nodes: args.nodes,
        repeats: args.repeats,
        seed: args.seed,
        units: args.units,
        settings: args.settings.iter().map(|text| setting(text)).collect::<Result<_>>()?,
        cost: args.cost,
    };
    request.validate()?;
    if args.units == Some(0) {
        return Err(Error::usage("0 units of work cannot be measured").remedy("choose --units 1 or more"));
    }
    if args.on == Where::Host {
        check_host(args)?;
        let _ours = own(ctx, &args.output)?;
        let binary = match &args.workloads_program {
            Some(path) => given_program(path)?,
            None => guest::workloads_binary(ctx)?,
        };
        let catalog = catalog_of(&binary)?;
        let modes = distinct(&args.mode);
        let command = command_line();
        let mut results =
            host::measure(&ctx.progress, &catalog, &request, &modes, &binary, &command, ctx.dry_run)?;
        if args.workloads_program.is_none() {
            results.environment.workloads = Some(guest::source_hash(ctx)?);
        }
        return if ctx.dry_run { Ok(()) } else { finish(results, &args.output) };
    }
    if args.workloads_program.is_some() {
        return Err(Error::usage("a guest has its own workloads")
            .remedy("leave out --workloads-program, or give --on host"));
    }
    let limit = args.timeout.map(Duration::from_secs);
    if limit.is_some_and(|limit| limit.is_zero()) {
        return Err(Error::usage("a time limit of 0 s stops every boot").remedy("choose --timeout 1 or more"));
    }
    let choices = choices(ctx, &args.kernel, &args.mode, &args.machine)?;
    guest_run(ctx, &[request], &choices, &args.machine, limit, command_line(), &args.output)
}

/// A figure that is asked for twice is one figure.
fn distinct<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

/// What only a guest can have is refused, not ignored.
fn check_host(args: &Run) -> Result<()> {
    let mut flags = args.machine.flags();
    if args.kernel != [VANILLA] {
        flags += &format!(" --kernel {}", args.kernel.join(","));
    }
    if let Some(nodes) = args.nodes {
        flags += &format!(" --nodes {nodes}");
    }
    if args.timeout.is_some() {
        flags += " --timeout";
    }
    match flags.trim() {
        "" => Ok(()),
        flags => Err(Error::usage(format!("{flags}: this machine is taken as it is"))
            .remedy("leave that out, or leave out --on host")),
    }
}

/// Nobody else writes where the results go; a dry run writes nothing.
pub fn own(ctx: &Context, output: &Output) -> Result<Option<Lock>> {
    match ctx.dry_run {
        true => Ok(None),
        false => files::own_output_directory(&ctx.progress, &output.out).map(Some),
    }
}

fn guest_run(
    ctx: &Context,
    requests: &[Request],
    choices: &[Choice],
    machine_args: &MachineArgs,
    limit: Option<Duration>,
    command: String,
    output: &Output,
) -> Result<()> {
    // Everything that can be refused is refused before minutes are spent on building.
    let memory_mib = check_machine(machine_args)?;
    let found = machine_there_is(ctx, machine_args)?;
    let _ours = own(ctx, output)?;
    ensure_packages(ctx, machine_args)?;
    let catalog = catalog(ctx)?;
    let mut packages = BTreeSet::new();
    let mut programs = BTreeSet::new();
    for request in requests {
        for boot in request.plan(&catalog)?.boots {
            packages.extend(boot.packages);
            programs.extend(boot.programs);
        }
    }
    let machine = machine(ctx, found)?;
    let cpu = cpu(machine_args, &machine)?;
    let kernels = kernels(ctx, choices, machine_args)?;
    let packages: Vec<String> = packages.into_iter().collect();
    let programs: Vec<String> = programs.into_iter().collect();
    let images = Images::prepare(ctx, &packages, &programs)?;
    let accel = accel(ctx, machine_args, &machine, &kernels[0].kernel, &images)?;
    let options = Options {
        kernels,
        machine,
        accel,
        cpu,
        memory_mib,
        kernel_arguments: machine_args.kernel_args.clone(),
        out: output.out.clone(),
        limit,
        command,
        flags: machine_args.flags(),
        resumes: false,
    };
    let mut results = execute::measure(ctx, &catalog, requests, &images, &options)?;
    if ctx.dry_run {
        return Ok(());
    }
    results.environment.workloads = Some(guest::source_hash(ctx)?);
    finish(results, output)
}

/// Prints the table, writes the files; a failed control leaves the figures for study and no report.
fn finish(results: Results, output: &Output) -> Result<()> {
    let json = results.to_json()?;
    if output.json {
        exec::print_line(json.trim_end());
    } else {
        exec::print_line(table::render(&results, &table_options()).trim_end());
    }
    if let Err(error) = results.reportable() {
        files::write_whole(&output.out.join("results.failed.json"), json.as_bytes())?;
        return Err(error);
    }
    let (data, page) = (output.out.join("results.json"), output.out.join("report.html"));
    files::write_whole(&data, json.as_bytes())?;
    files::write_whole(&page, page::html(&results)?.as_bytes())?;
    if !output.json {
        exec::print_line(&format!("\n{}\n{}", page.display(), data.display()));
    }
    if let Some(failed) = results.failed.first() {
        return Err(Error::failed(format!(
            "{} of the rows failed; the first is {}: {}",
            results.failed.len(),
            failed.workload,
            failed.reason
        ))
        .remedy(format!("rerun: {}", failed.rerun.as_deref().unwrap_or("ceasefire lab run"))));
    }
    if results.rows.is_empty() {
        return Err(Error::skip("nothing could be measured here").remedy("see the reasons above"));
    }
    Ok(())
}

/// The workloads there are. Needs a C compiler, nothing else.
pub fn catalog(ctx: &Context) -> Result<Catalog> {
    // Even a dry run must know which workloads exist, and only the program can tell.
    catalog_of(&guest::workloads_binary(ctx)?)
}

fn catalog_of(binary: &Path) -> Result<Catalog> {
    Catalog::parse(&exec::read(&exec::Command::new(binary).arg("list"))?)
}

fn given_program(path: &Path) -> Result<PathBuf> {
    let program = std::fs::canonicalize(path).map_err(|error| {
        Error::usage(format!("cannot use {} as the workloads: {}", path.display(), disk::reason(&error)))
            .remedy(
            "copy it from a checkout: `ceasefire lab run zero --on host --cpus 1 --dry-run` there says where it is",
        )
    })?;
    Ok(program)
}

/// All packages in one go: a build must not stop half-way to ask for one more.
pub fn ensure_packages(ctx: &Context, args: &MachineArgs) -> Result<()> {
    let mut needed = BTreeSet::new();
    if args.kernel_image.is_none() {
        needed.extend(kernel::packages(ctx)?);
    }
    if args.uses_our_machine() {
        needed.extend(machine::packages(ctx)?);
    }
    let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
    debian::ensure_packages(ctx, &needed)
}

/// The machine, unless it is the lab's own, which may have to be built first.
pub fn machine_there_is(ctx: &Context, args: &MachineArgs) -> Result<Option<Machine>> {
    let machine = match &args.qemu {
        Some(path) => machine::given(ctx, path)?,
        None if args.uses_our_machine() => return Ok(None),
        None => machine::stock(ctx)?,
    };
    // What it cannot do is said before a kernel is built for it.
    cpu(args, &machine)?;
    check_given_slice(args, &machine)?;
    Ok(Some(machine))
}

pub fn machine(ctx: &Context, found: Option<Machine>) -> Result<Machine> {
    match found {
        Some(machine) => Ok(machine),
        None => machine::build(ctx),
    }
}

/// The CPU that was asked for, if this machine has it.
pub fn cpu(args: &MachineArgs, machine: &Machine) -> Result<Cpu> {
    let tlb = args.tlb.as_deref().map(Tlb::parse).transpose()?;
    if tlb.is_some() && !machine.has_tlb_model {
        return Err(Error::usage(format!("{} has no TLB model to set", machine.qemu.display()))
            .remedy("leave out --tlb, or use the lab's own QEMU"));
    }
    let is_modelled = machine.has_tlb_model && args.accel == AccelName::Tcg;
    Ok(Cpu { la57: args.la57 == Switch::On, tlb: is_modelled.then(|| tlb.unwrap_or_default()) })
}

/// The images of what was chosen, each built once.
pub fn kernels(ctx: &Context, choices: &[Choice], args: &MachineArgs) -> Result<Vec<Variant>> {
    let mut built: Vec<(&str, KernelImage)> = Vec::new();
    let mut variants = Vec::new();
    for choice in choices {
        let known = built.iter().find(|(name, _)| *name == choice.kernel).map(|(_, image)| image.clone());
        let image = match (known, &args.kernel_image, &args.kernel_source) {
            (Some(image), ..) => image,
            (None, Some(path), _) => kernel::from_image(path)?,
            (None, None, Some(tree)) => kernel::build_from_tree(ctx, tree, &choice.kernel)?,
            (None, None, None) => kernel::build(ctx, &choice.kernel)?,
        };
        built.push((&choice.kernel, image.clone()));
        variants.push(Variant { kernel: image, mode: choice.mode.clone(), flags: choice.flags() });
    }
    Ok(variants)
}

/// One sentence for a name that is not there, with the ones that are.
pub fn known_kernel(all: &[String], name: &str) -> Result<()> {
    if all.iter().any(|known| known == name) {
        return Ok(());
    }
    let mut nearest: Vec<&str> = all.iter().map(String::as_str).collect();
    nearest.sort_by_key(|known| edit_distance(name, known));
    Err(Error::usage(format!("there is no kernel named '{name}'"))
        .remedy(format!("choose from: {}; a new one is a file in kernel/recipes/", nearest.join(", "))))
}

/// Everything about the machine that can be refused at once. Returns the guest's memory in MiB.
pub fn check_machine(args: &MachineArgs) -> Result<u32> {
    check_slice(args)?;
    check_cpu(args)?;
    memory(args)
}

impl Choice {
    /// As `--kernel` takes it.
    pub fn name(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{}:{mode}", self.kernel),
            None => self.kernel.clone(),
        }
    }

    fn flags(&self) -> String {
        match &self.mode {
            _ if self.kernel.is_empty() => String::new(),
            Some(mode) => format!(" --kernel {}:{mode}", self.kernel),
            None if self.kernel == VANILLA => String::new(),
            None => format!(" --kernel {}", self.kernel),
        }
    }
}

/// Kernels and modes as given, checked against the recipes: each pair once, in order.
pub fn choices(ctx: &Context, names: &[String], modes: &[String], args: &MachineArgs) -> Result<Vec<Choice>> {
    if let Some(image) = &args.kernel_image {
        kernel::from_image(image)?;
        let named: Vec<String> =
            names.iter().filter_map(|name| Some(name.split_once(':')?.1.into())).collect();
        return match modes.iter().chain(&named).next() {
            None => Ok(vec![Choice { kernel: String::new(), mode: None }]),
            Some(mode) => Err(no_mode(mode, &image.display().to_string())),
        };
    }
    if let Some(tree) = &args.kernel_source {
        kernel::check_tree(tree)?;
    }
    let choices = chosen(&kernel::list(ctx)?, names, modes)?;
    check_inserting(&choices, args.tlb.as_deref())?;
    Ok(choices)
}

/// Mode full-hw has the machine insert, which is not there unless asked for.
fn check_inserting(choices: &[Choice], tlb: Option<&str>) -> Result<()> {
    if choices.iter().all(|choice| choice.mode.as_deref() != Some("full-hw")) {
        return Ok(());
    }
    if tlb.map(Tlb::parse).transpose()?.is_some_and(|tlb| tlb.insert) {
        return Ok(());
    }
    Err(Error::usage("mode full-hw asks the machine to insert into its TLBs, and this one does not").remedy(
        format!("add insert=on to the settings of --tlb: --tlb {},insert=on", tlb.unwrap_or("hardware")),
    ))
}

fn chosen(specs: &[KernelSpec], names: &[String], modes: &[String]) -> Result<Vec<Choice>> {
    let all: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    let mut choices = Vec::new();
    for given in names {
        let (name, own) = match given.split_once(':') {
            Some((name, mode)) => (name, Some(mode.to_string())),
            None => (given.as_str(), None),
        };
        known_kernel(&all, name)?;
        let known = specs.iter().find(|spec| spec.name == name).map_or(&[][..], |spec| &spec.modes);
        let wanted: Vec<String> = match own {
            Some(mode) => vec![mode],
            None if modes.is_empty() => known.first().cloned().into_iter().collect(),
            None => modes.to_vec(),
        };
        if let Some(mode) = wanted.iter().find(|mode| !known.contains(mode)) {
            return Err(no_mode(mode, name));
        }
        if wanted.is_empty() {
            choices.push(Choice { kernel: name.into(), mode: None });
        }
        choices.extend(wanted.into_iter().map(|mode| Choice { kernel: name.into(), mode: Some(mode) }));
    }
    Ok(distinct(&choices))
}

fn no_mode(mode: &str, kernel: &str) -> Error {
    Error::usage(format!("kernel {kernel} has no mode '{mode}'"))
        .remedy("`ceasefire lab list` shows the modes of every kernel")
}

fn memory(args: &MachineArgs) -> Result<u32> {
    if (MEMORY_MIB_MIN..=MEMORY_MIB_MAX).contains(&args.memory) {
        return Ok(args.memory);
    }
    Err(Error::usage(format!("a guest cannot have {} MiB of memory", args.memory))
        .remedy(format!("choose --memory between {MEMORY_MIB_MIN} and {MEMORY_MIB_MAX}")))
}

fn check_slice(args: &MachineArgs) -> Result<()> {
    match args.slice_us {
        Some(slice) if !(1..=100_000).contains(&slice) => {
            Err(Error::usage(format!("a slice of {slice} us is out of range"))
                .remedy("choose --slice-us between 1 and 100000"))
        }
        Some(_) if is_stock(args) => Err(Error::usage("stock QEMU has no settable slice")
            .remedy("leave out --slice-us, or --machine stock")),
        _ => Ok(()),
    }
}

fn check_given_slice(args: &MachineArgs, machine: &Machine) -> Result<()> {
    if args.slice_us.is_some() && machine.slice_us_default.is_none() {
        return Err(Error::usage(format!("{} has no settable slice", machine.qemu.display()))
            .remedy("leave out --slice-us, or use the lab's own QEMU"));
    }
    Ok(())
}

/// KVM takes the QEMU that is installed, too, where none is given.
fn is_stock(args: &MachineArgs) -> bool {
    args.qemu.is_none() && !args.uses_our_machine()
}

fn check_cpu(args: &MachineArgs) -> Result<()> {
    if args.accel == AccelName::Kvm && (args.tlb.is_some() || args.la57 == Switch::On) {
        return Err(Error::usage("with KVM the guest has this machine's own CPU and TLBs")
            .remedy("leave out --tlb and --la57, or --accel kvm"));
    }
    let Some(spec) = &args.tlb else { return Ok(()) };
    Tlb::parse(spec)?;
    if args.machine == MachineName::Stock {
        return Err(Error::usage("stock QEMU has no TLB model to set").remedy(
            "leave out --tlb, or --machine stock; --tlb stock is the lab's QEMU behaving like stock QEMU",
        ));
    }
    Ok(())
}

pub fn accel(
    ctx: &Context,
    args: &MachineArgs,
    machine: &Machine,
    kernel: &KernelImage,
    images: &Images,
) -> Result<Accel> {
    if args.accel == AccelName::Kvm {
        if !ctx.dry_run {
            kvm::probe(ctx, machine, kernel, images)?;
        }
        return Ok(Accel::Kvm);
    }
    let thread_mode = match args.thread_mode {
        ThreadModeName::Single => ThreadMode::Single,
        ThreadModeName::Multi => ThreadMode::Multi,
    };
    Ok(Accel::Tcg { thread_mode, slice_us: args.slice_us.or(machine.slice_us_default) })
}

fn setting(text: &str) -> Result<(String, String)> {
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    match text.split_once('=') {
        Some((key, value)) if is_word(key) && is_word(value) => Ok((key.into(), value.into())),
        _ => {
            Err(Error::usage(format!("'{text}' is no setting"))
                .remedy("write --set KEY=VALUE, without blanks"))
        }
    }
}

/// What the user typed, to stand in the results.
pub fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| exec::quote(&word)).collect();
    format!("ceasefire {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    fn spec(name: &str, modes: &[&str]) -> KernelSpec {
        KernelSpec {
            name: name.into(),
            about: String::new(),
            base: String::new(),
            config: Vec::new(),
            mechanisms: Vec::new(),
            modes: modes.iter().map(|mode| mode.to_string()).collect(),
            packages: Vec::new(),
            only_by_name: false,
        }
    }

    fn labels(names: &[&str], modes: &[&str]) -> Result<Vec<String>> {
        let specs = [spec("abis", &["off", "idle"]), spec("vanilla", &[])];
        let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let choices = chosen(&specs, &words(names), &words(modes))?;
        Ok(choices.iter().map(|choice| choice.flags().trim().to_string()).collect())
    }

    #[test]
    fn every_kernel_runs_in_every_mode_asked_for_and_once() {
        for (names, modes, expected) in [
            (vec!["vanilla"], vec![], vec![""]),
            (vec!["abis"], vec![], vec!["--kernel abis:off"]),
            (vec!["abis"], vec!["off", "idle", "off"], vec!["--kernel abis:off", "--kernel abis:idle"]),
            (vec!["vanilla", "abis:idle"], vec![], vec!["", "--kernel abis:idle"]),
            (vec!["abis:idle", "abis"], vec!["idle"], vec!["--kernel abis:idle"]),
        ] {
            assert_eq!(labels(&names, &modes).expect("chosen"), expected, "{names:?} {modes:?}");
        }
        for (names, modes, fragment) in [
            (vec!["vanilla"], vec!["idle"], "kernel vanilla has no mode 'idle'"),
            (vec!["abis", "vanilla"], vec!["idle"], "kernel vanilla has no mode 'idle'"),
            (vec!["abis"], vec!["full"], "kernel abis has no mode 'full'"),
            (vec!["abis:"], vec![], "kernel abis has no mode ''"),
            (vec!["vanilla:off"], vec![], "kernel vanilla has no mode 'off'"),
            (vec!["abi:off"], vec![], "no kernel named 'abi'"),
        ] {
            let error = labels(&names, &modes).expect_err("refused");
            assert_eq!(error.kind, Kind::Usage);
            assert!(error.message.contains(fragment), "{error:?}");
        }
    }

    #[test]
    fn a_machine_that_inserts_is_asked_for() {
        let choices = |mode: &str| [Choice { kernel: "abis".into(), mode: Some(mode.into()) }];
        for (mode, tlb, remedy) in [
            ("full", None, None),
            ("full-hw", Some("hardware,insert=on"), None),
            ("full-hw", Some("entries=64"), Some("--tlb entries=64,insert=on")),
            ("full-hw", None, Some("--tlb hardware,insert=on")),
        ] {
            match (check_inserting(&choices(mode), tlb), remedy) {
                (Ok(()), None) => {}
                (Err(error), Some(remedy)) => {
                    assert_eq!(error.kind, Kind::Usage);
                    assert!(error.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{error:?}");
                }
                (said, _) => panic!("{mode} {tlb:?}: {said:?}"),
            }
        }
    }
}
