// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const TEXT: &str = r#"
title = "TOY"
about = "For tests."
modes = ["off", "on"]
boot = "toy"
switch = "/sys/kernel/mm/toy/mode"
counters = "/sys/kernel/debug/toy/counters"
prctl = 0x10
flush_functions = ["toy_flush"]

[sites]
title = "Where"
note = "n"

[words]
SITE = ["zap", "clear_flush"]
WHO = ["none", "all"]

[[counter]]
name = "SITE_sampled"
adds_to = "sampled"
title = "sampled"
meaning = "m"

[[counter]]
name = "SITE_sampled_held"
adds_to = "sampled_held"
title = "held"
meaning = "m"

[[counter]]
name = "bytes_WHO"
kind = "level"
unit = "bytes"
title = "bytes"
meaning = "m"

[[counter]]
name = "rounds"
title = "rounds"
meaning = "m"
"#;

fn toy() -> Mechanism {
    Mechanism::parse("toy", TEXT).expect("parses")
}

fn refused(change: (&str, &str)) -> String {
    assert!(TEXT.contains(change.0), "{change:?}");
    Mechanism::parse("toy", &TEXT.replacen(change.0, change.1, 1)).expect_err("refused").message
}

#[test]
fn names_are_matched_whole() {
    let toy = toy();
    let names = toy.names();
    for (name, counter, site) in [
        ("zap_sampled", Some("SITE_sampled"), Some("zap")),
        ("clear_flush_sampled_held", Some("SITE_sampled_held"), Some("clear_flush")),
        ("rounds", Some("rounds"), None),
        ("bytes_all", Some("bytes_WHO"), None),
        ("bytes_WHO", None, None),
        ("nowhere_sampled", None, None),
        ("sampled", None, None),
        ("", None, None),
    ] {
        assert_eq!(names.get(name).map(|counter| counter.name.as_str()), counter, "{name}");
        assert_eq!(names.site(name), site, "{name}");
    }
    assert!(names.is_level("bytes_all") && !names.is_level("rounds") && !names.is_level("unknown"));
}

#[test]
fn the_workloads_are_told_what_they_need() {
    assert_eq!(
        toy().argument(),
        "toy,switch=/sys/kernel/mm/toy/mode,counters=/sys/kernel/debug/toy/counters,prctl=0x10,flush=toy_flush,\
         level=bytes_all,level=bytes_none"
    );
    let words = Mechanism { opt_in: true, ..toy() }.argument();
    assert!(words.contains(",prctl=0x10,opt-in,flush="), "{words}");
    assert!(refused(("prctl = 0x10", "opt_in = true")).contains("opt_in"));
}

#[test]
fn two_mechanisms_in_one_kernel_are_set_one_by_one() {
    let other = Mechanism { boot: Some("other".into()), modes: vec!["off".into(), "eager".into()], ..toy() };
    let silent = Mechanism { modes: Vec::new(), ..toy() };
    assert_eq!(modes_of(&[]), [""; 0]);
    assert_eq!(modes_of(std::slice::from_ref(&silent)), [""; 0]);
    assert_eq!(modes_of(&[toy()]), ["off", "on"]);
    let both = [toy(), silent, other];
    assert_eq!(modes_of(&both), ["off+off", "off+eager", "on+off", "on+eager"]);
    assert_eq!(boot_words(&both, "on+eager"), "toy=on other=eager");
    assert_eq!(boot_words(&both[..1], "on"), "toy=on");
    assert_eq!(boot_words(&both[1..2], ""), "");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (change, fragment) in [
        (("\"off\", \"on\"", "\"off\", \"off\""), "modes must differ"),
        (("\"on\"]", "\"o+n\"]"), "modes must differ"),
        (("boot = \"toy\"", ""), "modes need `boot`"),
        (("/sys/kernel/mm/toy/mode", "mode"), "`switch` is no full path"),
        (("/sys/kernel/debug/toy/counters", "/a,b"), "`counters` is no full path"),
        (("\"toy_flush\"", "\"toy flush\""), "'toy flush' is no word"),
        (("counters = \"/sys/kernel/debug/toy/counters\"", ""), "no file `counters`"),
        (("\"bytes_WHO\"", "\"bytes_WHAT\""), "[words] has no WHAT"),
        (("\"rounds\"", "\"zap_sampled\""), "two descriptions fit the counter zap_sampled"),
        (("\"level\"", "\"many\""), "unknown variant"),
        (("title = \"TOY\"", ""), "missing field `title`"),
        (("about =", "abuot ="), "unknown field `abuot`"),
        (("[sites]", "[[needs]]\nmodes = [\"no\"]\ntlb = \"a=b\"\nbecause = \"c\"\n[sites]"), "no mode 'no'"),
    ] {
        let message = refused(change);
        assert!(
            message.starts_with("kernel/toy/mechanism.toml: ") && message.contains(fragment),
            "{message}"
        );
    }
    assert!(Mechanism::parse("Toy", TEXT).is_err(), "a folder's name is a word");
}

/// A results file carries them to machines without the checkout.
#[test]
fn what_is_written_as_json_is_read_again() {
    for mechanism in built_in().expect("they parse").into_iter().chain([toy()]) {
        let text = serde_json::to_string(&mechanism).expect("written");
        assert_eq!(serde_json::from_str::<Mechanism>(&text).expect("read"), mechanism);
    }
}

#[test]
fn every_mechanism_of_the_checkout_is_well_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let there = all(&root).expect("they parse");
    assert_eq!(there, built_in().expect("they parse"));
    assert!(!there.is_empty());
    assert_eq!(all(Path::new("/no/such/checkout")).expect("those built in"), there);
    for mechanism in &there {
        assert!(mechanism.argument().len() < 2048, "{}", mechanism.argument());
    }
}

#[test]
fn a_feature_of_the_processor_stands_for_a_switch() {
    let switch = "switch = \"/sys/kernel/mm/toy/mode\"\n";
    let feature = "cpuid = \"0x80000008.ebx.3\"\n";
    for bad in ["ebx.3", "0x80000008.ebx", "0x80000008.rbx.3", "0x80000008.ebx.32", "80000008.ebx.3"] {
        let said = refused((switch, &format!("cpuid = \"{bad}\"\n")));
        assert!(said.contains("LEAF.REGISTER.BIT"), "{said}");
    }
    assert!(refused((switch, "")).contains("`switch` or `cpuid`"));
    assert!(refused((switch, &format!("{switch}{feature}"))).contains("`switch` or `cpuid`"));
    assert!(refused((switch, &format!("{switch}warm_up_ms = 300\n"))).contains("goes with `cpuid`"));
    let toy = Mechanism::parse("toy", &TEXT.replacen(switch, feature, 1)).expect("parses");
    let words = toy.argument();
    assert!(words.starts_with("toy,cpuid=0x80000008.ebx.3,first=toy=off,second=on,counters="), "{words}");
}
