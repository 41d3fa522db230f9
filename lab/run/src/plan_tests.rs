// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use ceasefire_base::Kind;

fn catalog() -> Catalog {
    let text = r#"
{"name":"zero","group":"control","unit":"call","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"mprotect","group":"micro","unit":"call","about":"a","threads_min":2,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"migrate","group":"micro","unit":"page","about":"a","threads_min":2,"needs":["nodes"],"packages":[],"programs":[],"shared":false}
{"name":"gups","group":"numa","unit":"word","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"apache","group":"app","unit":"request","about":"a","threads_min":1,"needs":[],"packages":["apache2-bin"],"programs":["/usr/sbin/apache2"],"shared":false}
"#;
    Catalog::parse(text).expect("the sample catalog parses")
}

fn matrix() -> Matrix {
    Matrix { workloads: vec![], vcpus: vec![4], repeats: 3, ..Matrix::default() }
}

#[test]
fn numbers_out_of_range_are_usage_errors() {
    let cases: Vec<fn(&mut Matrix)> = vec![
        |r| r.vcpus = vec![0],
        |r| r.vcpus = vec![5000],
        |r| r.nodes = Some(0),
        |r| r.nodes = Some(8),
        |r| r.threads = Some(vec![0]),
        |r| r.threads = Some(vec![5]),
        |r| r.repeats = 0,
        |r| r.boots = 0,
        |r| r.boots = 101,
        |r| (r.vcpus, r.boots, r.cost) = (vec![1], 2, true),
        |r| (r.vcpus, r.cost, r.record) = (vec![1], true, true),
        |r| r.settings = ["a", "b"].map(|key| (key.to_string(), vec!["1"; 40].join(","))).to_vec(),
        |r| r.units = Some(0),
    ];
    for change in cases {
        let mut matrix = matrix();
        change(&mut matrix);
        let error = matrix.validate().expect_err("must be refused");
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.remedy.is_some(), "{error} has no remedy");
    }
    matrix().validate().expect("the unchanged matrix is right");
}

/// A workload that needs two nodes runs on those that have CPUs.
#[test]
fn where_cost_is_counted_nodes_may_have_memory_alone() {
    let workloads = vec!["gups".into(), "migrate".into()];
    let mut matrix = Matrix { workloads, vcpus: vec![2], nodes: Some(4), repeats: 1, ..matrix() };
    matrix.validate().expect_err("without cost each node needs a CPU");
    matrix.cost = true;
    matrix.validate().expect("memory alone is enough");
    let plan = matrix.plan(&catalog()).expect("plans");
    assert_eq!(plan.boots.iter().map(|boot| boot.nodes).collect::<Vec<_>>(), [4, 4]);
    assert!(plan.skips.is_empty());
}

#[test]
fn instructions_are_the_time_of_one_cpu_and_counted_apart_on_several() {
    let cost = |vcpus: &[u32]| Matrix { cost: true, vcpus: vcpus.to_vec(), ..matrix() };
    assert!(!cost(&[1]).is_counted_apart() && cost(&[1, 8]).is_counted_apart());
    assert!(!matrix().is_counted_apart(), "that is no cost row");
    for boot in cost(&[1, 8]).plan(&catalog()).expect("plans").boots {
        assert_eq!(boot.is_timed_by_instructions(), boot.vcpus == 1);
        assert_eq!(boot.is_counted_apart(), boot.vcpus == 8);
    }
}

#[test]
fn node_workloads_boot_a_machine_of_their_own() {
    let plan = matrix().plan(&catalog()).expect("plans");
    let shapes: Vec<_> = plan.boots.iter().map(|b| (b.nodes, b.jobs.len())).collect();
    assert_eq!(shapes, [(1, 2), (2, 1)]);
    assert!(plan.skips.is_empty());
}

/// In a group it is a skip with its reason; named, a mistake.
#[test]
fn what_cannot_run_there_is_not_planned() {
    let mut catalog = catalog();
    for workload in &mut catalog.workloads {
        workload.refusal = (workload.name == "apache").then(|| "has no place".into());
    }
    let matrix = |names: &[&str]| Matrix {
        workloads: names.iter().map(|name| name.to_string()).collect(),
        vcpus: vec![1],
        ..matrix()
    };
    let plan = matrix(&["control", "app"]).plan(&catalog).expect("plans");
    assert_eq!(plan.boots.len(), 1);
    assert!(plan.boots[0].jobs.iter().all(|job| job.workload == "zero"), "{plan:?}");
    assert_eq!(plan.skips.len(), 1);
    assert_eq!((plan.skips[0].workload.as_str(), plan.skips[0].reason.as_str()), ("apache", "has no place"));
    let error = matrix(&["zero", "apache"]).plan(&catalog).expect_err("refused");
    assert_eq!((error.kind, error.message.as_str()), (Kind::Usage, "apache has no place"));
    assert!(error.remedy.is_some());
}

#[test]
fn what_is_left_out_is_neither_run_nor_skipped() {
    let mut matrix = matrix();
    matrix.vcpus = vec![1];
    matrix.except = vec!["migrate".into()];
    let plan = matrix.plan(&catalog()).expect("plans");
    assert!(plan.skips.is_empty());
    assert_eq!(plan.boots.len(), 1);
    assert_eq!(plan.boots[0].jobs[0].workload, "zero");
    matrix.except = vec!["migrat".into()];
    assert_eq!(matrix.plan(&catalog()).expect_err("unknown").kind, Kind::Usage);
}

#[test]
fn a_machine_too_small_for_two_nodes_is_a_counted_skip() {
    let mut matrix = matrix();
    matrix.nodes = Some(1);
    let plan = matrix.plan(&catalog()).expect("plans");
    assert_eq!(plan.skips.len(), 1);
    assert_eq!(plan.skips[0].workload, "migrate");
}

#[test]
fn every_cost_repeat_is_a_boot() {
    let mut matrix = matrix();
    matrix.vcpus = vec![1];
    matrix.cost = true;
    matrix.repeats = 5;
    let plan = matrix.plan(&catalog()).expect("plans");
    assert_eq!(plan.boots.len(), 5);
    assert!(plan.boots.iter().all(|b| b.jobs.len() == 1 && b.jobs[0].repeats == 1 && b.jobs[0].cost));
}

#[test]
fn each_of_several_boots_has_all_repeats() {
    let mut matrix = matrix();
    matrix.workloads = vec!["zero".into()];
    matrix.boots = 5;
    let plan = matrix.plan(&catalog()).expect("plans");
    assert_eq!(plan.boots.len(), 5);
    assert!(plan.boots.iter().all(|boot| boot.jobs.len() == 1 && boot.jobs[0].repeats == 3));
}

/// A job runs all repeats, and each of them makes its memory anew.
#[test]
fn a_job_has_time_for_each_of_its_repeats() {
    let limit = |name: &str, repeats: u32| {
        let matrix = Matrix { workloads: vec![name.into()], repeats, ..matrix() };
        matrix.plan(&catalog()).expect("plans").boots[0].jobs[0].timeout_s
    };
    assert_eq!((limit("mprotect", 1), limit("mprotect", 10)), (140, 320));
    assert_eq!((limit("gups", 1), limit("gups", 10)), (1320, 12120));
}

#[test]
fn a_boots_own_matrix_plans_the_same_boot() {
    for change in [
        |_: &mut Matrix| {},
        |m: &mut Matrix| m.workloads = vec!["all".into()],
        |m: &mut Matrix| m.threads = Some(vec![1, 2, 4]),
        |m: &mut Matrix| (m.nodes, m.units) = (Some(2), Some(9)),
        |m: &mut Matrix| (m.vcpus, m.cost) = (vec![1], true),
        |m: &mut Matrix| m.settings = vec![("pages".into(), "8".into())],
        |m: &mut Matrix| m.settings = vec![("pages".into(), "8,16".into())],
        |m: &mut Matrix| m.record = true,
    ] {
        let mut matrix = matrix();
        change(&mut matrix);
        for boot in matrix.plan(&catalog()).expect("plans").boots {
            let again = boot.matrix().plan(&catalog()).expect("plans").boots;
            let text = |boot: &Boot| {
                let words = boot.job_text();
                // A boot of a cost row has time for the repeats of the others.
                if boot.cost {
                    words.replace("timeout_s=180", "timeout_s=140")
                } else {
                    words
                }
            };
            assert_eq!(again.len(), 1, "{boot:?}");
            assert_eq!((text(&again[0]), again[0].nodes), (text(&boot), boot.nodes));
        }
    }
}

#[test]
fn controls_are_not_changed_with_what_they_stand_beside() {
    let mut matrix = matrix();
    matrix.settings = vec![("pages".into(), "8".into())];
    let settings_of = |matrix: &Matrix, name: &str| {
        let boots = matrix.plan(&catalog()).expect("plans").boots;
        let mut jobs = boots.iter().flat_map(|boot| &boot.jobs);
        jobs.find(|job| job.workload == name).map(|job| job.settings.clone())
    };
    matrix.workloads = vec!["zero".into(), "mprotect".into()];
    assert_eq!(settings_of(&matrix, "zero"), Some(Vec::new()));
    assert_eq!(settings_of(&matrix, "mprotect"), Some(matrix.settings.clone()));
    matrix.workloads = vec!["zero".into()];
    assert_eq!(settings_of(&matrix, "zero"), Some(matrix.settings.clone()));
}

#[test]
fn every_combination_of_values_is_measured_and_controls_once() {
    let mut matrix = matrix();
    matrix.workloads = vec!["zero".into(), "mprotect".into()];
    matrix.settings = vec![("pages".into(), "1,8,8".into()), ("by".into(), "a,b".into())];
    let boots = matrix.plan(&catalog()).expect("plans").boots;
    let jobs: Vec<&Job> = boots.iter().flat_map(|boot| &boot.jobs).collect();
    let set = |name: &str| -> Vec<String> {
        let mine = jobs.iter().filter(|job| job.workload == name);
        let words = |job: &&&Job| job.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        mine.map(|job| words(&job)).map(|words: Vec<String>| words.join(" ")).collect()
    };
    assert_eq!(set("mprotect"), ["pages=1 by=a", "pages=1 by=b", "pages=8 by=a", "pages=8 by=b"]);
    assert_eq!(set("zero"), [""]);
    matrix.workloads = vec!["zero".into()];
    assert_eq!(matrix.plan(&catalog()).expect("plans").boots.len(), 4);
}

#[test]
fn what_is_recorded_boots_alone() {
    let mut matrix = matrix();
    matrix.workloads = vec!["zero".into(), "mprotect".into(), "migrate".into()];
    (matrix.record, matrix.nodes) = (true, Some(2));
    let boots = matrix.plan(&catalog()).expect("plans").boots;
    let names = |boot: &Boot| boot.jobs.iter().map(|job| job.workload.clone()).collect::<Vec<_>>();
    assert_eq!(boots.iter().map(names).collect::<Vec<_>>(), [["zero"], ["mprotect"], ["migrate"]]);
    // A control's figures are promised; nobody looks on.
    assert_eq!(boots.iter().map(Boot::is_recorded).collect::<Vec<_>>(), [false, true, true]);
    assert!(boots[1].jobs[0].line().ends_with(" record=1"), "{}", boots[1].jobs[0].line());
}

#[test]
fn applications_are_only_run_when_named() {
    let all = matrix().plan(&catalog()).expect("plans");
    assert!(all.boots.iter().all(|b| b.packages.is_empty()));
    let mut matrix = matrix();
    matrix.workloads = vec!["apache".into()];
    let plan = matrix.plan(&catalog()).expect("plans");
    assert_eq!(plan.boots.len(), 1);
    assert_eq!(plan.boots[0].packages, ["apache2-bin"]);
}

#[test]
fn job_lines_carry_every_choice() {
    let job = Job {
        workload: "munmap".into(),
        threads: 8,
        repeats: 3,
        seed: 7,
        units: Some(100),
        settings: vec![("pages".into(), "32".into())],
        cost: true,
        record: false,
        timeout_s: 60,
    };
    assert_eq!(
        job.line(),
        "run munmap threads=8 repeats=3 seed=7 timeout_s=60 units=100 cost=1 set=pages=32"
    );
}
