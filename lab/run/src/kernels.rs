// SPDX-License-Identifier: GPL-2.0-only
//! Kernels and modes as they are asked for, checked against the recipes, and built.

use crate::machine::MachineSpec;
use crate::plan::distinct;
use crate::words::Line;
use ceasefire_artifacts::base::Architecture;
pub use ceasefire_artifacts::kernel::Tree;
use ceasefire_artifacts::kernel::{self, KernelImage, KernelSpec};
use ceasefire_artifacts::Context;
use ceasefire_base::{Error, Result};
use ceasefire_results::schema::Row;
use std::path::PathBuf;

/// The kernel that runs where none is named.
pub const USUAL: &str = "vanilla";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernels {
    /// NAME or NAME:MODE.
    pub names: Vec<String>,
    /// For those of `names` that name none.
    pub modes: Vec<String>,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Those that recipes name.
    Recipes,
    /// A finished bzImage of the user's own.
    Image(PathBuf),
    /// A kernel tree of the user's own, built as the recipe says.
    Tree(Tree),
}

/// A kernel and one of its modes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Empty for an image of the user's own.
    pub kernel: String,
    /// `None` for a kernel without modes.
    pub mode: Option<String>,
}

/// The same, built.
#[derive(Debug, Clone)]
pub struct Variant {
    pub choice: Choice,
    pub image: KernelImage,
}

impl Default for Kernels {
    fn default() -> Kernels {
        Kernels::named(&[USUAL.to_string()], &[])
    }
}

impl Kernels {
    pub fn named(names: &[String], modes: &[String]) -> Kernels {
        Kernels { names: names.to_vec(), modes: modes.to_vec(), source: Source::Recipes }
    }

    /// The same source, one kernel and mode.
    pub fn only(&self, choice: &Choice) -> Kernels {
        let names = if choice.kernel.is_empty() { self.names.clone() } else { vec![choice.name()] };
        Kernels { names, modes: Vec::new(), source: self.source.clone() }
    }

    /// `usual`: the kernel that need not be named.
    pub fn put_words(&self, line: &mut Line, usual: &str) {
        if self.names != [usual] {
            line.list("kernel", &self.names);
        }
        line.list("mode", &self.modes);
        match &self.source {
            Source::Recipes => {}
            Source::Image(path) => line.flag("kernel-image", path),
            Source::Tree(tree) => {
                line.flag("kernel-source", &tree.dir);
                tree.config.iter().for_each(|path| line.flag("config", path));
            }
        }
    }

    pub fn are_built(&self) -> bool {
        !matches!(self.source, Source::Image(_))
    }

    /// Each pair once, in order. Refuses what is not there, and what this machine cannot do.
    pub fn choices(&self, ctx: &Context, machine: &MachineSpec) -> Result<Vec<Choice>> {
        match &self.source {
            Source::Image(image) => {
                kernel::from_image(image)?;
                let named = self.names.iter().filter_map(|name| Some(name.split_once(':')?.1));
                return match self.modes.iter().map(String::as_str).chain(named).next() {
                    None => Ok(vec![Choice::default()]),
                    Some(mode) => Err(no_mode(mode, &image.display().to_string())),
                };
            }
            Source::Tree(tree) => drop(kernel::check_tree(&tree.dir)?),
            Source::Recipes => {}
        }
        let specs = kernel::list(ctx)?;
        let choices = chosen(&specs, &self.names, &self.modes)?;
        check_needs(&specs, &choices, machine)?;
        Ok(choices)
    }

    /// Refuses those of recipes that the observer cannot look into.
    pub fn check_observed(&self, ctx: &Context, choices: &[Choice]) -> Result<()> {
        if !self.are_built() {
            return Ok(());
        }
        let specs = kernel::list(ctx)?;
        for choice in choices {
            if !kernel::can_be_observed(ctx, kernel::known(&specs, &choice.kernel)?)? {
                let mut names = Vec::new();
                for spec in &specs {
                    if kernel::can_be_observed(ctx, spec)? {
                        names.push(spec.name.as_str());
                    }
                }
                return Err(Error::usage(format!("the observer cannot look into kernel {}", choice.kernel))
                    .remedy(format!("choose one that has type information: {}", names.join(", "))));
            }
        }
        Ok(())
    }

    /// The processor that they are all for. An image of the user's own is for that of the usual kernel.
    pub fn architecture(&self, ctx: &Context, choices: &[Choice]) -> Result<Architecture> {
        let mut found: Option<(Architecture, &Choice)> = None;
        for choice in choices.iter().filter(|choice| !choice.kernel.is_empty()) {
            let own = kernel::architecture_of(ctx, &kernel::find(ctx, &choice.kernel)?)?;
            match &found {
                Some((known, other)) if known.machine != own.machine => {
                    return Err(Error::usage(format!(
                        "{} boots on the machine {} and {} on {}",
                        other.kernel, known.machine, choice.kernel, own.machine
                    ))
                    .remedy("run them one after the other"));
                }
                _ => found = Some((own, choice)),
            }
        }
        match found {
            Some((architecture, _)) => Ok(architecture),
            None => kernel::architecture_of(ctx, &kernel::find(ctx, USUAL)?),
        }
    }

    /// The images of what was chosen, each built once.
    pub fn build(&self, ctx: &Context, choices: &[Choice]) -> Result<Vec<Variant>> {
        let mut variants: Vec<Variant> = Vec::new();
        for choice in choices {
            let known = variants.iter().find(|known| known.choice.kernel == choice.kernel);
            let image = match (known, &self.source) {
                (Some(known), _) => known.image.clone(),
                (None, Source::Image(path)) => kernel::from_image(path)?,
                (None, Source::Tree(tree)) => kernel::build_from_tree(ctx, tree, &choice.kernel)?,
                (None, Source::Recipes) => kernel::build(ctx, &choice.kernel)?,
            };
            variants.push(Variant { choice: choice.clone(), image });
        }
        Ok(variants)
    }
}

impl Choice {
    /// As `--kernel` takes it.
    pub fn name(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{}:{mode}", self.kernel),
            None => self.kernel.clone(),
        }
    }
}

impl Variant {
    /// What chooses its mode on the kernel's command line.
    pub fn boot_words(&self) -> String {
        self.choice
            .mode
            .as_ref()
            .map_or_else(String::new, |mode| ceasefire_mechanism::boot_words(&self.image.mechanisms, mode))
    }

    /// The text of /job: what the workloads must know of its mechanisms, then these lines.
    pub fn job(&self, lines: &str) -> String {
        let told = self.image.mechanisms.iter();
        told.map(|mechanism| format!("mechanism {}\n", mechanism.argument())).collect::<String>() + lines
    }

    /// As its rows are labelled.
    pub fn row_label(&self) -> String {
        let (kernel, mode) = (self.image.name.clone(), self.choice.mode.clone());
        Row { kernel, mode, ..Row::default() }.kernel_label()
    }
}

fn chosen(specs: &[KernelSpec], names: &[String], modes: &[String]) -> Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for given in names {
        let (name, own) = match given.split_once(':') {
            Some((name, mode)) => (name, Some(mode.to_string())),
            None => (given.as_str(), None),
        };
        let known = &kernel::known(specs, name)?.modes;
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

/// Some modes ask the machine for what it has not unless asked for.
fn check_needs(specs: &[KernelSpec], choices: &[Choice], machine: &MachineSpec) -> Result<()> {
    for choice in choices {
        let (Some(mode), Ok(spec)) = (&choice.mode, kernel::known(specs, &choice.kernel)) else { continue };
        for (mechanism, mode) in ceasefire_mechanism::parts(&spec.described, mode) {
            for need in mechanism.needs.iter().filter(|need| need.modes.iter().any(|known| known == mode)) {
                check_need(&need.tlb, machine)
                    .map_err(|error| Error { message: format!("mode {mode} {}", need.because), ..error })?;
            }
        }
    }
    Ok(())
}

/// Is the machine so? `KEY=VALUE`, or `KEY=VALUE|VALUE`, of which the first is advised.
fn check_need(wanted: &str, machine: &MachineSpec) -> Result<()> {
    let tlb = machine.tlb.map_or_else(|| "hardware".to_string(), |tlb| tlb.to_string());
    let (key, values) = wanted.split_once('=').unwrap_or((wanted, ""));
    let mut settings = values.split('|').map(|value| format!("{key}={value}"));
    if machine.tlb.is_some() && settings.clone().any(|setting| tlb.split(',').any(|word| word == setting)) {
        return Ok(());
    }
    let setting = settings.next().unwrap_or_default();
    Err(Error::usage("").remedy(format!("add {setting} to the settings of --tlb: --tlb {tlb},{setting}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::Tlb;
    use ceasefire_base::Kind;
    use ceasefire_mechanism::{Mechanism, Need};

    fn spec(name: &str, modes: &[&str]) -> KernelSpec {
        let modes = modes.iter().map(|mode| mode.to_string()).collect();
        KernelSpec { name: name.into(), modes, ..KernelSpec::default() }
    }

    fn labels(names: &[&str], modes: &[&str]) -> Result<Vec<String>> {
        let specs = [spec("abis", &["off", "idle"]), spec("vanilla", &[])];
        let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let choices = chosen(&specs, &words(names), &words(modes))?;
        Ok(choices.iter().map(Choice::name).collect())
    }

    #[test]
    fn every_kernel_runs_in_every_mode_asked_for_and_once() {
        for (names, modes, expected) in [
            (vec!["vanilla"], vec![], vec!["vanilla"]),
            (vec!["abis"], vec![], vec!["abis:off"]),
            (vec!["abis"], vec!["off", "idle", "off"], vec!["abis:off", "abis:idle"]),
            (vec!["vanilla", "abis:idle"], vec![], vec!["vanilla", "abis:idle"]),
            (vec!["abis:idle", "abis"], vec!["idle"], vec!["abis:idle"]),
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
        let need = Need {
            modes: vec!["full-hw".into()],
            tlb: "insert=on".into(),
            because: "asks the machine to insert".into(),
        };
        let modes = vec!["full".to_string(), "full-hw".to_string()];
        let mechanism = Mechanism { modes, needs: vec![need], ..Mechanism::default() };
        let spec = KernelSpec { described: vec![mechanism], ..spec("toy", &["full", "full-hw"]) };
        let choices = |mode: &str| [Choice { kernel: "toy".into(), mode: Some(mode.into()) }];
        for (mode, tlb, remedy) in [
            ("full", None, None),
            ("full-hw", Some("hardware,insert=on"), None),
            ("full-hw", Some("entries=64"), Some("--tlb plain,entries=64,insert=on")),
            ("full-hw", None, Some("--tlb hardware,insert=on")),
        ] {
            let tlb = tlb.map(|spec| Tlb::parse(spec).expect("a spec"));
            let machine = MachineSpec { tlb, ..MachineSpec::default() };
            match (check_needs(std::slice::from_ref(&spec), &choices(mode), &machine), remedy) {
                (Ok(()), None) => {}
                (Err(error), Some(remedy)) => {
                    assert_eq!(error.kind, Kind::Usage);
                    assert_eq!(error.message, "mode full-hw asks the machine to insert");
                    assert!(error.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{error:?}");
                }
                (said, _) => panic!("{mode} {tlb:?}: {said:?}"),
            }
        }
    }

    #[test]
    fn one_of_two_settings_is_enough() {
        let machine = |spec: &str| MachineSpec {
            tlb: Some(Tlb::parse(spec).expect("a spec")),
            ..MachineSpec::default()
        };
        for spec in ["hardware,broadcast=early", "hardware,broadcast=late"] {
            check_need("broadcast=early|late", &machine(spec)).expect(spec);
        }
        let error = check_need("broadcast=early|late", &machine("hardware")).expect_err("no broadcast");
        assert!(
            error.remedy.as_deref().is_some_and(|text| text.ends_with("hardware,broadcast=early")),
            "{error:?}"
        );
    }
}
