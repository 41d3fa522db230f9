// SPDX-License-Identifier: GPL-2.0-only
//! The tables behind `make paper`, one for each paper: its figures, what it claims and where it says so, what we run in
//! its place, and what differs. Everything else reads these tables; nothing else knows a figure.

mod abis;
mod lazyctx;
mod numapte;

use crate::mechanism;
use crate::schema::Row;
use crate::stats::Spread;

/// One paper done again.
pub struct Evaluation {
    /// As the command line takes it; what is kept of it is named after it.
    pub id: &'static str,
    pub title: &'static str,
    /// Authors, title, where it was published.
    pub paper: &'static str,
    /// What is measured side by side where nothing else is asked for; first what the others are held against.
    pub kernels: &'static str,
    /// Where page, rows and logs go where nothing else is said.
    pub out: &'static str,
    /// Run first, whatever is chosen: without them nothing shows that a count is right.
    pub controls: Work,
    /// What differs in every figure.
    pub differs: &'static [&'static str],
    pub figures: &'static [Figure],
}

/// The first where none is named.
pub const EVALUATIONS: &[Evaluation] = &[abis::EVALUATION, numapte::EVALUATION, lazyctx::EVALUATION];

pub struct Figure {
    /// As `--only` takes it.
    pub id: &'static str,
    pub title: &'static str,
    /// Where the paper has it.
    pub section: &'static str,
    /// What is to be seen.
    pub shows: &'static str,
    /// What else the paper says of it that an emulated machine cannot answer.
    pub unanswered: &'static str,
    /// Why our rows are not the paper's, beside what holds for all ([`Evaluation::differs`]).
    pub differs: &'static [&'static str],
    pub claims: &'static [Claim],
    pub works: &'static [Work],
    pub axis: Axis,
    /// One picture each, or with [`Axis::Workloads`] one for each workload.
    pub plots: &'static [Quantity],
}

/// What is counted, per unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Received,
    Sent,
    /// Received over sent.
    Targets,
    Instructions,
    Cycles,
    /// PTEs of the program's addresses that page walks read on another node.
    RemoteReads,
    /// All such reads, one on another node priced as [`REMOTE_READ`] of one's own.
    PricedReads,
    /// The process's own and their replicas, at the end.
    TablePages,
    Counted(&'static Counted),
}

/// What one mechanism or one workload counts, by name: the sum of one list, over that of another.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted {
    pub words: &'static str,
    /// MECHANISM.COUNTER, or a figure of the workload's own.
    pub of: &'static [&'static str],
    /// In per cent of these; empty: per unit.
    pub per: &'static [&'static str],
    pub cost: bool,
}

/// What one on another node costs, in reads of one's own node: low, used, high. Walk cycles of the programs of the
/// Mitosis artifact (ASPLOS 2020, evaluation/reference), tables remote over local: XSBench 1.29 to BTree 1.71.
pub const REMOTE_READ: [f64; 3] = [1.29, 1.5, 1.71];

/// Along the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Workloads,
    Vcpus,
    Threads,
    /// Of [`Work::points`], under this title; the picture shows what is left of the unchanged kernel's count.
    Points(&'static str),
}

/// What the paper says, in per cent against its own unchanged kernel.
pub struct Claim {
    /// As [`Work::shown`] calls it; [`MEAN`] for the mean of the changes of all workloads of the figure, [`SUM`] for the
    /// change of their sum.
    pub workload: &'static str,
    pub quantity: Quantity,
    pub percent: f64,
    /// How the paper puts it.
    pub words: &'static str,
    pub section: &'static str,
    /// Ours to set beside the paper's figure, since it says more than the like of it: shown, and not judged.
    pub is_aside: bool,
}

/// One that is judged, of what is received.
pub(super) const CLAIM: Claim = Claim {
    workload: "",
    quantity: Quantity::Received,
    percent: 0.0,
    words: "",
    section: "",
    is_aside: false,
};

pub const MEAN: &str = "mean of the list";
pub const SUM: &str = "sum of the list";

/// Boots: each workload at each CPU and thread count at each point is one, on each kernel.
pub struct Work {
    /// What rows and claims call it where the name of the workload says too little; for one workload alone.
    pub name: Option<&'static str>,
    pub workloads: &'static [&'static str],
    pub vcpus: &'static [u32],
    /// NUMA nodes. `None`: as many as the workload needs.
    pub nodes: Option<u32>,
    /// Empty: as many as vCPUs.
    pub threads: &'static [u32],
    /// `None`: each workload's own.
    pub units: Option<u64>,
    /// Instructions and modelled cycles at one vCPU, instead of shootdowns.
    pub cost: bool,
    /// Kernels in mode `off` are left out: that it equals the unchanged kernel is shown elsewhere.
    pub skips_off: bool,
    /// Kernels in mode `full` run in this one, too.
    pub also: Option<&'static str>,
    /// More words on the guest's command line, on every kernel.
    pub kernel_args: &'static str,
    pub points: &'static [Point],
    /// Of one boot and of one repeat, on one core of the machine the lab was written on.
    pub boot_s: f64,
    pub repeat_s: f64,
}

/// One machine and one setting of the workload.
pub struct Point {
    pub at: u32,
    /// As `--tlb` takes it and rows carry it. `None`: the machine has its processor's and no others.
    pub tlb: Option<&'static str>,
    /// As `--set` takes it.
    pub set: &'static [(&'static str, &'static str)],
}

/// Skylake's TLBs, access bits as processors set them, paging-structure caches and speculation.
pub const TLB: Option<&str> = Some("hardware");

pub(super) const PLAIN: &[Point] = &[Point { at: 0, tlb: TLB, set: &[] }];

/// One boot of a workload without programs of its own, at 8 vCPUs.
pub(super) const MICRO: Work = Work {
    name: None,
    workloads: &[],
    vcpus: &[8],
    nodes: None,
    threads: &[],
    units: None,
    cost: false,
    skips_off: false,
    also: None,
    kernel_args: "",
    points: PLAIN,
    boot_s: 3.0,
    repeat_s: 0.8,
};

/// What a unit costs, on one vCPU.
pub(super) const COST: Work = Work { vcpus: &[1], cost: true, boot_s: 0.0, repeat_s: 1.6, ..MICRO };

pub(super) const APP: Work = Work { boot_s: 5.0, repeat_s: 5.0, ..MICRO };

impl Quantity {
    pub fn words(self) -> &'static str {
        match self {
            Quantity::Received => "received",
            Quantity::Sent => "sent",
            Quantity::Targets => "targets per shootdown",
            Quantity::Instructions => "instructions",
            Quantity::Cycles => "modelled cycles",
            Quantity::RemoteReads => "PTEs read on other nodes",
            Quantity::PricedReads => "PTE reads, priced in local ones",
            Quantity::TablePages => "pages of page tables",
            Quantity::Counted(counted) => counted.words,
        }
    }

    /// Whether it is of the whole run, and not per unit.
    pub fn is_of_run(self) -> bool {
        match self {
            Quantity::Counted(counted) => !counted.per.is_empty(),
            _ => self == Quantity::TablePages,
        }
    }

    /// Rows of cost have no shootdowns, and others no instructions.
    pub fn get(self, row: &Row) -> Option<Spread> {
        match self {
            Quantity::Received if !row.cost => row.received_per_unit,
            Quantity::Sent if !row.cost => row.sent_per_unit,
            Quantity::Targets if !row.cost => Spread::of(&[row.targets_per_shootdown()?]),
            Quantity::Instructions if row.cost => row.instructions_per_unit,
            Quantity::Cycles if row.cost => row.cycles_modelled_per_unit,
            Quantity::RemoteReads if !row.cost => row.reads_remote_user_per_unit,
            Quantity::PricedReads if !row.cost => {
                let (own, other) = (row.reads_local_user_per_unit?, row.reads_remote_user_per_unit?);
                let [low, used, high] = REMOTE_READ;
                Some(Spread {
                    median: own.median + used * other.median,
                    min: own.min + low * other.min,
                    max: own.max + high * other.max,
                })
            }
            Quantity::TablePages if !row.cost => Spread::of(&[mechanism::table_pages_of(row)?]),
            Quantity::Counted(counted) if row.cost == counted.cost => counted.get(row),
            _ => None,
        }
    }
}

impl Counted {
    fn get(&self, row: &Row) -> Option<Spread> {
        let of = sum(row, self.of)?;
        if self.per.is_empty() {
            return Some(of);
        }
        let per = sum(row, self.per).filter(|per| per.median > 0.0)?;
        Spread::of(&[of.median / per.median * 100.0])
    }
}

/// `None` if one of them was not counted.
fn sum(row: &Row, names: &[&str]) -> Option<Spread> {
    let get = |name: &&str| match name.split_once('.') {
        Some((mechanism, counter)) => row.counted(mechanism, counter),
        None => Spread::of(&[*row.extra.get(*name)?]),
    };
    let add = |sum: Spread, more: Spread| Spread {
        median: sum.median + more.median,
        min: sum.min + more.min,
        max: sum.max + more.max,
    };
    names.iter().map(get).reduce(|sum, more| Some(add(sum?, more?))).flatten()
}

impl Work {
    pub fn shown(&self, workload: &'static str) -> &'static str {
        self.name.unwrap_or(workload)
    }

    /// The same of a row that is [of it](Work::is_of).
    pub fn shown_of<'a>(&self, row: &'a Row) -> &'a str {
        self.name.unwrap_or(&row.workload)
    }

    pub fn is_of(&self, row: &Row) -> bool {
        self.workloads.contains(&row.workload.as_str())
            && self.cost == row.cost
            && self.vcpus.contains(&row.vcpus)
            && self.nodes.map_or(true, |nodes| nodes == row.nodes)
            && self.kernel_args == row.kernel_args.as_deref().unwrap_or_default()
            && self.points.iter().any(|point| point.is_of(row))
    }

    pub fn threads_at(&self, vcpus: u32) -> Vec<u32> {
        if self.threads.is_empty() {
            vec![vcpus]
        } else {
            self.threads.to_vec()
        }
    }
}

impl Point {
    pub fn set_words(&self) -> Option<String> {
        let words: Vec<String> = self.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    pub fn is_of(&self, row: &Row) -> bool {
        row.set == self.set_words() && row.tlb.as_deref() == self.tlb
    }
}

pub fn evaluation(id: &str) -> Option<&'static Evaluation> {
    EVALUATIONS.iter().find(|evaluation| evaluation.id == id)
}

impl Evaluation {
    pub fn figure(&self, id: &str) -> Option<&'static Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

impl Figure {
    /// By the name that is shown, each with what it runs.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, &'static Work, &'static str)> {
        self.works
            .iter()
            .flat_map(|work| work.workloads.iter().map(move |name| (work.shown(name), work, *name)))
    }

    /// What it calls this row.
    pub fn name_of<'a>(&self, row: &'a Row) -> &'a str {
        let of_it = |work: &&Work| work.is_of(row);
        self.works.iter().find(of_it).map_or(&row.workload, |work| work.shown_of(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_whole() {
        for evaluation in EVALUATIONS {
            let figures = evaluation.figures;
            assert!(evaluation.differs.len() > 2 && evaluation.kernels.contains(','));
            for (index, figure) in figures.iter().enumerate() {
                assert!(
                    figures[index + 1..].iter().all(|other| other.id != figure.id),
                    "{} twice",
                    figure.id
                );
                whole(figure, &evaluation.controls);
            }
        }
    }

    fn whole(figure: &'static Figure, controls: &Work) {
        assert!(!figure.works.is_empty() && !figure.plots.is_empty(), "{}", figure.id);
        for work in figure.works.iter().chain([controls]) {
            assert!(!work.workloads.is_empty() && !work.points.is_empty() && work.repeat_s > 0.0);
            assert!(!work.cost || work.vcpus == [1], "{}: cost is counted on one vCPU", figure.id);
            assert!(work.name.is_none() || work.workloads.len() == 1, "{}: one name", figure.id);
        }
        let names: Vec<(&str, bool)> = figure.shown().map(|(name, work, _)| (name, work.cost)).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[index + 1..].contains(name), "{}: {} twice", figure.id, name.0);
        }
        for claim in figure.claims {
            let is_run = names.iter().any(|(name, _)| *name == claim.workload);
            assert!([MEAN, SUM].contains(&claim.workload) || is_run, "{}: {}", figure.id, claim.workload);
            assert!(claim.words.len() > 5 && !claim.section.is_empty(), "{}", claim.words);
        }
        let is_over_points = matches!(figure.axis, Axis::Points(_));
        for work in figure.works {
            assert_eq!(work.points.len() > 1, is_over_points, "{}", figure.id);
            assert!(work.points.windows(2).all(|pair| pair[0].at < pair[1].at), "{}", figure.id);
        }
    }
}
