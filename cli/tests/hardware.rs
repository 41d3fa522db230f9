// SPDX-License-Identifier: GPL-2.0-only
//! Does what others run on real machines do what it says: switching, measuring, packages?

mod common;
use common::{
    ceasefire, close, lab_run, refused, results, root, row, run, skip, succeed, Said, Scratch, BINARY,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `script` where /sys/kernel/mm holds a switch that takes any word, and says idle. None without root.
fn with_switch(script: &str) -> Option<Said> {
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        run(command.args(["--mount", "sh", "-c", script]).current_dir(root()).env("NO_COLOR", "1"))
    };
    if isolated("mount -t tmpfs none /sys/kernel/mm").code != 0 {
        skip("host switch", "mounting a small tmpfs needs root");
        return None;
    }
    let prepare = "mount -t tmpfs none /sys/kernel/mm && mkdir /sys/kernel/mm/abis && echo idle > /sys/kernel/mm/abis/mode";
    Some(isolated(&format!("{prepare}; {script}")))
}

const SHOW: &str = "echo now $(cat /sys/kernel/mm/abis/mode)";

#[test]
fn the_running_kernel_is_set_to_each_mode_and_back() {
    let out = Scratch::new("switch");
    let dir = out.0.display();
    let measure =
        format!("{BINARY} lab run munmap --on host --cpus 1 --repeats 3 --units 50 --quiet --out {dir}");
    let Some(said) = with_switch(&format!("{measure} --mode off,full,off; echo code $?; {SHOW}")) else {
        return;
    };
    assert!(
        said.stdout.contains("code 0") && said.stdout.ends_with("now idle\n"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    let file = results(&out.0);
    let modes: Vec<&Value> = file["rows"].as_array().expect("rows").iter().map(|row| &row["mode"]).collect();
    assert_eq!(modes, ["off", "full"]);
    for row in file["rows"].as_array().expect("rows") {
        let figure = |name: &str| row["ns_per_unit"][name].as_f64().expect("a time");
        let (median, min, max) = (figure("median"), figure("min"), figure("max"));
        assert!(0.0 < min && min <= median && median <= max, "{row}");
        let whole = row["duration_ns"]["median"].as_f64().expect("a time");
        assert!((whole / 50.0 - median).abs() < 1.0, "{row}");
    }
    // Not asked for, it is taken as it is, and the row says how.
    let said = with_switch(&measure).expect("as before");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(row(&results(&out.0), "munmap", 1)["mode"], "idle");
}

#[test]
fn the_mode_is_set_back_after_a_failure_and_after_ctrl_c() {
    let out = Scratch::new("switch-back");
    let stale = |more: &str| {
        format!(
            "{BINARY} lab run stale --on host --cpus 1 --repeats 1 --mode off --quiet --out {} {more}",
            out.0.display()
        )
    };
    let failing = stale("--units 10 --set nonsense=1; echo code $?");
    let Some(said) = with_switch(&format!("{failing}; {SHOW}")) else { return };
    assert!(
        !said.stdout.contains("code 0") && said.stdout.ends_with("now idle\n"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    let endless = format!(
        "{BINARY} lab run munmap --on host --cpus 1 --units 100000000 --mode full --quiet --out {} & sleep 2; \
         echo during $(cat /sys/kernel/mm/abis/mode); kill -INT $!; wait $!; echo code $?",
        out.0.display()
    );
    let said = with_switch(&format!("{endless}; {SHOW}")).expect("as before");
    assert_eq!(said.stdout, "during full\ncode 130\nnow idle\n", "{}", said.stderr);
}

#[test]
fn a_kernel_without_abis_and_a_user_without_rights_are_told_so() {
    let out = Scratch::new("switch-refused");
    let args = format!("lab run munmap --on host --cpus 1 --mode idle --quiet --out {}", out.0.display());
    if !Path::new("/sys/kernel/mm/abis/mode").exists() {
        let words: Vec<&str> = args.split(' ').collect();
        refused(&mut ceasefire(&words), 4, "has no mechanism to set to");
    }
    let read_only = format!("mount -o remount,ro /sys/kernel/mm; exec {BINARY} {args}");
    let Some(said) = with_switch(&read_only) else { return };
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("cannot be set to idle by this user"), "{}", said.stderr);
    assert!(said.stderr.contains("remedy: run it as root"), "{}", said.stderr);
}

/// Runs the tool itself in a guest, where the kernel it runs on has ABIS.
fn host_run_in_guest(kernel: &str, command: &str) -> Said {
    let whole =
        format!("ceasefire {command} --workloads-program /bin/workloads --quiet --json --out /tmp/out");
    let mut args = vec!["lab", "shell", "--kernel", kernel, "--cpus", "2", "--with", BINARY];
    args.extend(["--tlb", "hardware,speculation-us=0", "--command", &whole]);
    run(&mut ceasefire(&args))
}

/// The JSON among what the guest says.
fn json_of(said: &Said) -> Value {
    let start =
        said.stdout.find('{').unwrap_or_else(|| panic!("no results: {}\n{}", said.stdout, said.stderr));
    let mut stream = serde_json::Deserializer::from_str(&said.stdout[start..]).into_iter::<Value>();
    stream.next().expect("a value").expect("JSON")
}

/// Written, synced and unmapped: the one other CPU is interrupted with `off`, nobody with `idle`.
#[test]
fn a_running_abis_kernel_is_measured_in_both_modes() {
    let said = host_run_in_guest(
        "abis",
        "lab run msync-munmap exactly-n --on host --cpus 2 --repeats 2 --units 400 --mode off,idle",
    );
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let file = json_of(&said);
    assert_eq!(file["environment"]["place"], "host");
    assert_eq!(file["environment"]["kernels"][0]["counters"], "ceasefire");
    let find = |workload: &str, mode: &str| {
        let rows = file["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["workload"] == workload && row["mode"] == mode).expect("a row").clone()
    };
    let (off, idle) = (find("msync-munmap", "off"), find("msync-munmap", "idle"));
    let median =
        |row: &Value, name: &str| row[name]["median"].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    // A thread of the kernel may have the other CPU for a moment.
    assert!(close(median(&off, "received_per_unit"), 1.0, 0.02), "{off}");
    assert_eq!(median(&idle, "received_per_unit"), 0.0, "{idle}");
    let elided = |row: &Value| row["elided"]["pages"]["median"].as_f64().expect("counted");
    assert!(elided(&off) == 0.0 && close(elided(&idle), 1.0, 0.02), "{idle}");
    assert!(median(&idle, "ns_per_unit") > 0.0);
    assert!(close(median(&find("exactly-n", "idle"), "received_per_unit"), 1.0, 0.01));
}

#[test]
fn a_mode_that_the_running_kernel_has_not_is_refused() {
    let said = host_run_in_guest("abis", "lab run munmap --on host --cpus 1 --mode off,fast");
    let text = said.stdout + &said.stderr;
    assert_ne!(said.code, 0);
    assert!(text.contains("the running kernel's ABIS has no mode 'fast'"), "{text}");
}

/// What the machine is told to do about accessed bits is what the program finds out.
#[test]
fn a_processors_habits_are_found_out() {
    for (habit, miss_and_hit, dirty) in [("denied", 1.0, 1.0), ("dirty", 0.0, 1.0), ("ideal", 0.0, 0.0)] {
        let out = Scratch::new("promises");
        let tlb = format!("plain,access-bit={habit}");
        let file =
            lab_run(&out, &["promises", "--cpus", "2", "--repeats", "1", "--units", "30", "--tlb", &tlb]);
        let extra = row(&file, "promises", 2)["extra"].clone();
        let share = |name: &str| extra[format!("{name}_share")].as_f64().expect("a share");
        assert_eq!(share("denied_miss_marked"), miss_and_hit, "{habit}: {extra}");
        assert_eq!(share("denied_hit_marked"), miss_and_hit, "{habit}: {extra}");
        assert_eq!(share("dirty_marked"), dirty, "{habit}: {extra}");
        assert_eq!((share("hit_unmarked"), share("untouched_marked")), (1.0, 0.0), "{habit}: {extra}");
        assert_eq!(extra["one_huge_page"], 1.0, "{extra}");
    }
}

#[test]
fn a_report_says_what_the_machine_is_and_not_whose() {
    let out = Scratch::new("hardware-report");
    let archive = out.0.join("report.tar.gz");
    let said = succeed(Command::new(root().join("kernel/hardware-report")).arg(&archive).current_dir(&out.0));
    assert!(said.stdout.contains("report.tar.gz"), "{}", said.stdout);
    let list = succeed(Command::new("tar").arg("-tzf").arg(&archive)).stdout;
    for name in ["kernel.txt", "cpu.txt", "abis.txt"] {
        assert!(list.contains(name), "{list}");
    }
    succeed(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&out.0));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_string();
    let words =
        succeed(Command::new("sh").arg("-c").arg(format!("cat {}/hardware-report/*", out.0.display())))
            .stdout;
    assert!(words.contains("model name"), "{words}");
    // A short name may be part of any word.
    assert!(host.len() < 6 || !words.contains(&host), "the report names this machine");
}

#[test]
fn packages_are_refused_before_anything_is_built() {
    let out = Scratch::new("kernel-deb");
    let dir = out.0.join("out").display().to_string();
    let arm = out.file("arm", b"CONFIG_ARM64=y\nCONFIG_SMP=y\n").display().to_string();
    let one = out.file("one", b"CONFIG_X86_64=y\n# CONFIG_SMP is not set\n").display().to_string();
    let empty = out.file("empty", b"no configuration\n").display().to_string();
    let with = |more: &[&str]| {
        let mut args = vec!["lab", "kernel-deb", "--out", &dir];
        args.extend(more);
        ceasefire(&args)
    };
    refused(&mut with(&["--config", "/no/such/config"]), 2, "cannot use /no/such/config");
    refused(&mut with(&["--config", &arm]), 2, "configuration of another machine");
    refused(&mut with(&["--config", &one]), 2, "for one CPU");
    refused(&mut with(&["--config", &empty]), 2, "no kernel configuration");
    refused(&mut with(&["--kernel", "vanilla"]), 2, "has no mechanism");
    refused(&mut with(&["--kernel", "vanila"]), 2, "no kernel named");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let own = PathBuf::from(format!("/boot/config-{}", release.trim()));
    if !own.exists() && !Path::new("/proc/config.gz").exists() {
        refused(&mut with(&[]), 4, "the running kernel's configuration is not there");
    }
}

/// Longer than a minute: a whole kernel, packed, looked into, and booted.
#[test]
#[ignore]
fn kernel_deb_makes_packages_that_boot() {
    let out = Scratch::new("kernel-deb-whole");
    let dir = out.0.join("out");
    let dir_text = dir.display().to_string();
    // The guest's own configuration, so that what comes out can boot there; with a few lines of a distribution's.
    let said = succeed(&mut ceasefire(&["lab", "build", "vanilla"]));
    let image = said.stdout.lines().find_map(|line| line.strip_prefix("kernel vanilla: ")).expect("built");
    let base = fs::read_to_string(Path::new(image).with_file_name("config")).expect("its configuration");
    let distribution = "CONFIG_MODULES=y\nCONFIG_BLK_DEV_NULL_BLK=m\nCONFIG_CRC7=m\nCONFIG_MODULE_SIG=y\n\
                        CONFIG_MODULE_SIG_KEY=\"\"\nCONFIG_SYSTEM_TRUSTED_KEYRING=y\nCONFIG_DEBUG_INFO_DWARF5=y\n\
                        CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/none.pem\"\n# CONFIG_DEBUG_INFO_NONE is not set\n";
    let config = out.file("config", format!("{base}\n{distribution}").as_bytes()).display().to_string();
    let said = succeed(&mut ceasefire(&["lab", "kernel-deb", "--config", &config, "--out", &dir_text]));
    let find = |start: &str, end: &str| {
        let line = said.stdout.lines().find(|line| {
            let name = Path::new(line).file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(start) && name.ends_with(end)
        });
        PathBuf::from(line.unwrap_or_else(|| panic!("no {start}: {}", said.stdout)))
    };
    let (image, headers) = (find("linux-image-", ".deb"), find("linux-headers-", ".deb"));
    let about = |deb: &Path, field: &str| {
        succeed(Command::new("dpkg-deb").arg("-f").arg(deb).arg(field)).stdout.trim().to_string()
    };
    let name = about(&image, "Package");
    let release = name.strip_prefix("linux-image-").expect("its name").to_string();
    assert!(release.starts_with("6.12.") && release.contains("-ceasefire-"), "{release}");
    assert_eq!(about(&headers, "Package"), format!("linux-headers-{release}"));
    assert!(about(&image, "Version").contains("~ceasefire."), "{}", about(&image, "Version"));
    assert_eq!(about(&image, "Architecture"), "amd64");

    let listed = succeed(Command::new("dpkg-deb").arg("-c").arg(&image)).stdout;
    for file in [
        format!("./boot/vmlinuz-{release}"),
        format!("./boot/config-{release}"),
        format!("./boot/System.map-{release}"),
        format!("./lib/modules/{release}/modules.dep"),
        format!("./lib/modules/{release}/kernel/drivers/block/null_blk/null_blk.ko"),
    ] {
        assert!(listed.lines().any(|line| line.ends_with(&file)), "no {file}: {listed}");
    }
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let listed = succeed(Command::new("dpkg-deb").arg("-c").arg(&headers)).stdout;
    for file in ["Module.symvers", "include/linux/abis.h", "scripts/mod/modpost", "Makefile"] {
        let file = format!("./usr/src/linux-headers-{release}/{file}");
        assert!(listed.lines().any(|line| line.ends_with(&file)), "no {file}");
    }

    let unpacked = out.0.join("unpacked");
    succeed(Command::new("dpkg-deb").arg("-R").arg(&image).arg(&unpacked));
    let config =
        fs::read_to_string(unpacked.join(format!("boot/config-{release}"))).expect("its configuration");
    for line in [
        "CONFIG_ABIS=y",
        "CONFIG_CEASEFIRE_COUNTERS=y",
        "CONFIG_MODULE_SIG_ALL=y",
        "CONFIG_DEBUG_INFO_NONE=y",
        "CONFIG_ABIS_FULL=y",
        "# CONFIG_ABIS_INSERT_MACHINE is not set",
    ] {
        assert!(config.lines().any(|have| have == line), "{line} is not in it");
    }
    succeed(Command::new("sh").arg("-c").arg("md5sum --quiet -c DEBIAN/md5sums").current_dir(&unpacked));
    let script = fs::read_to_string(unpacked.join("DEBIAN/postinst")).expect("a script");
    assert!(script.contains(&release) && script.contains("/etc/kernel/postinst.d"), "{script}");
    let module = unpacked.join(format!("lib/modules/{release}/kernel/lib/crc7.ko"));
    let bytes = fs::read(&module).expect("a module");
    assert!(bytes.ends_with(b"~Module signature appended~\n"), "the module is not signed");

    let vmlinuz = unpacked.join(format!("boot/vmlinuz-{release}")).display().to_string();
    let boot = |command: &str| {
        let mut args = vec!["lab", "shell", "--kernel-image", &vmlinuz, "--cpus", "2"];
        args.extend(["--kernel-args", "abis=idle", "--command", command]);
        succeed(&mut ceasefire(&args)).stdout
    };
    assert_eq!(
        boot("cat /sys/kernel/mm/abis/mode /proc/sys/kernel/osrelease").trim(),
        format!("idle\n{release}")
    );

    // Again: nothing is compiled, the same files come out.
    let before = fs::read(&image).expect("a package");
    fs::remove_file(&image).expect("removed");
    let config = out.0.join("config").display().to_string();
    let said = succeed(&mut ceasefire(&["lab", "kernel-deb", "--config", &config, "--out", &dir_text]));
    assert!(!said.stderr.contains("compile"), "{}", said.stderr);
    assert_eq!(fs::read(&image).expect("a package"), before);
}
