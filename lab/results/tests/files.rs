// SPDX-License-Identifier: GPL-2.0-only
//! Results files: written, read back, refused.
mod sample;

use ceasefire_results::schema::Tlb;
use ceasefire_results::Results;

#[test]
fn a_file_reads_back_as_it_was_and_writes_the_same_bytes() {
    for results in [sample::one_kernel(), sample::two_kernels(), sample::hostile()] {
        let text = results.to_json().expect("writes");
        let read = Results::from_json(text.as_bytes(), "results.json").expect("reads");
        assert_eq!(read, results);
        assert_eq!(read.to_json().expect("writes"), text);
    }
}

#[test]
fn fields_stand_in_the_documented_order_and_null_is_written() {
    let text = sample::one_kernel().to_json().expect("writes");
    let order = [
        "\"schema\": \"ceasefire.results/1\"",
        "\"environment\"",
        "\"cycle_costs\": {}",
        "\"controls\"",
        "\"skipped\"",
        "\"rows\"",
        "\"workload\": \"zero\"",
        "\"kernel\": \"vanilla\"",
        "\"mode\": null",
        "\"vcpus\": 8",
        "\"nodes\": 1",
        "\"threads\": 1",
        "\"repeats\": 3",
        "\"unit\"",
        "\"units\": 1000",
        "\"checksum\"",
        "\"requested_per_unit\"",
        "\"sent_per_unit\"",
        "\"median\"",
        "\"min\"",
        "\"max\"",
        "\"received_per_unit\"",
        "\"kernel_range_per_unit\"",
        "\"local_full_per_unit\"",
        "\"local_single_per_unit\"",
        "\"other_ipis_per_unit\"",
        "\"faults_per_unit\"",
        "\"walks_per_unit\": null",
        "\"instructions_per_unit\": null",
        "\"cycles_modelled_per_unit\": null",
        "\"elided\": null",
        "\"checked\": null",
        "\"violations\": null",
        "\"received_irq_per_unit\"",
        "\"kernel_sent_per_unit\"",
        "\"noisy\": false",
        "\"cost\": false",
        "\"tlb\": null",
        "\"cr3_noflush_per_unit\": null",
    ];
    let mut from = text.find("\"rows\"").map_or(0, |_| 0);
    for key in order {
        let at = text[from..].find(key).unwrap_or_else(|| panic!("{key} is missing or out of order"));
        from += at + key.len();
    }
}

#[test]
fn unknown_fields_are_ignored_and_missing_late_ones_filled() {
    let text = sample::one_kernel().to_json().expect("writes");
    let newer = text.replacen("\"environment\":", "\"added_later\": {\"a\": [1]}, \"environment\":", 1);
    assert!(Results::from_json(newer.as_bytes(), "f").is_ok());
    let least = br#"{"schema":"ceasefire.results/1","environment":{},"controls":[],"skipped":[],"rows":[]}"#;
    assert!(Results::from_json(least, "f").expect("reads").rows.is_empty());
}

#[test]
fn what_is_no_results_file_is_refused_in_one_sentence() {
    let good = sample::one_kernel().to_json().expect("writes");
    let newer = good.replace("ceasefire.results/1", "ceasefire.results/2");
    let other = good.replace("ceasefire.results/1", "ceasefire.compare/1");
    let negative = good.replacen("\"vcpus\": 8", "\"vcpus\": -8", 1);
    let contradiction = {
        let mut results = sample::one_kernel();
        let spread = results.rows[10].sent_per_unit.as_mut().expect("measured");
        spread.min = spread.max + 1.0;
        results.to_json().expect("writes")
    };
    for (bytes, says) in [
        (&b""[..], "line 1, column 0"),
        (&good.as_bytes()[..good.len() / 2], "line "),
        (b"not json at all", "line 1, column"),
        (b"\xff\xfe\x00", "line 1, column"),
        (b"[]", "schema"),
        (b"{\"schema\":1}", "line 1, column"),
        (b"{\"schema\":\"\\u001b[2J\"}", "not a results file"),
        (newer.as_bytes(), "ceasefire.results/2"),
        (other.as_bytes(), "ceasefire.compare/1"),
        (negative.as_bytes(), "line "),
        (contradiction.as_bytes(), "contradicts itself"),
    ] {
        let error = Results::from_json(bytes, "a.json").expect_err(says);
        assert_eq!(error.kind.exit_code(), 2, "{error}");
        assert!(error.remedy.is_some(), "{error}");
        let is_clean = !error.message.contains(['\n', '\u{1b}']);
        assert!(
            error.message.starts_with("a.json ") && error.message.contains(says) && is_clean,
            "{says}: {error}"
        );
    }
}

/// A file of before mechanisms had names: its counters and their meaning are there, under the name.
#[test]
fn a_file_of_0_1_0_is_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results-of-0.1.0.json");
    let bytes = std::fs::read(path).expect("the file");
    let results = Results::from_json(&bytes, "old.json").expect("reads");
    let full = results.rows.iter().find(|row| row.mode.as_deref() == Some("full")).expect("a row");
    assert_eq!(full.mechanisms["abis"]["spte_bytes"].median, 14_336.0);
    assert_eq!(full.elided.expect("elided").one.median, 1.0);
    assert_eq!(full.checked, Some(3000));
    let described = &results.environment.mechanisms;
    assert_eq!(described.iter().map(|mechanism| mechanism.name.as_str()).collect::<Vec<_>>(), ["abis"]);
    // Written again, it needs no help any more.
    let text = results.to_json().expect("writes");
    assert!(!text.contains("\"abis\": null") && text.contains("\"mechanisms\""));
    assert_eq!(Results::from_json(text.as_bytes(), "new.json").expect("reads"), results);
}

/// A file of before `hardware` was what processors do: its TLBs are called what they are called now.
#[test]
fn tlbs_of_a_file_with_the_old_names_are_called_by_the_new_ones() {
    let with = |spec: &str, access_bit: &str| {
        let mut results = sample::one_kernel();
        let qemu = results.environment.qemu.as_mut().expect("a machine");
        qemu.tlb = Some(Tlb {
            spec: spec.into(),
            model: true,
            access_bit: Some(access_bit.into()),
            ..Tlb::default()
        });
        results.rows.iter_mut().for_each(|row| row.tlb = Some(spec.into()));
        results
    };
    for (spec, access_bit, spec_now, access_bit_now) in [
        ("hardware,seed=7", "intel", "adversary,seed=7", "denied"),
        ("plain,access-bit=intel,psc=64", "intel", "plain,access-bit=denied,psc=64", "denied"),
        ("hardware,access-bit=ideal", "ideal", "hardware,access-bit=ideal", "ideal"),
        ("hardware", "dirty", "hardware", "dirty"),
    ] {
        let text = with(spec, access_bit).to_json().expect("writes");
        let read = Results::from_json(text.as_bytes(), "old.json").expect("reads");
        assert_eq!(read, with(spec_now, access_bit_now), "{spec}");
    }
}
