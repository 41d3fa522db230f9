// SPDX-License-Identifier: GPL-2.0-only
//! A remedy in the form in which somebody sets it: ready to paste, with how to undo it.

use crate::remedy::{Merge, Sets, Variable};
use crate::Remedy;
use ceasefire_base::exec::quote;
use ceasefire_base::{Error, Result};
use std::ffi::OsStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Shell,
    Systemd,
    Docker,
    Kubernetes,
}

/// Stands for what only the user knows.
const COMMAND: &str = "COMMAND";
const HEAP: &str = "HEAP";

/// Lines; those that begin with `#` explain.
pub fn show(remedy: &Remedy, form: Form) -> Result<Vec<String>> {
    let sets = &remedy.sets;
    if remedy.is_host() {
        return host(remedy, form);
    }
    let mut lines = Vec::new();
    if needs_us(sets) && form != Form::Shell {
        lines.push("# no variable does this: `ceasefire deter run` starts the program".to_string());
    }
    match form {
        _ if remedy.is_change_only() => lines.push("# no setting of the command itself".to_string()),
        Form::Shell => lines.push(shell(remedy)),
        Form::Systemd => lines.extend(systemd(remedy)),
        Form::Docker => lines.extend(docker(remedy)),
        Form::Kubernetes => lines.extend(kubernetes(remedy)),
    }
    for change in &sets.change {
        let or = if remedy.is_change_only() { "" } else { "or, " };
        lines.push(format!("# {or}in {}, this line:", change.r#where));
        lines.push(format!("#     {}", change.text));
    }
    for preload in &sets.preload {
        lines.push(format!("# {} is in Debian's package {}", preload.file, preload.package));
    }
    if sets.environment.iter().any(|variable| variable.value.contains("{heap}")) {
        lines.push(format!("# {HEAP} is the largest heap, such as 4g"));
    }
    // `deter run` joins them itself.
    let is_joined = |variable: &&Variable| variable.merge != Merge::Replace && !needs_us(sets);
    for variable in sets.environment.iter().filter(is_joined) {
        let between = match variable.merge {
            Merge::ColonPairs => "a colon",
            Merge::CommaPairs | Merge::CommaColonPairs => "a comma",
            Merge::Words | Merge::Replace => "a blank",
        };
        lines
            .push(format!("# where {} has a value already, put {between} and this behind it", variable.name));
    }
    if !sets.preload.is_empty() {
        lines.push("# where LD_PRELOAD has a value already, put a colon and that value behind this".into());
    }
    lines.push(format!("# undo: {}", remedy.undo));
    Ok(lines)
}

/// What no variable and no argument can do.
fn needs_us(sets: &Sets) -> bool {
    !sets.answer.is_empty() || !sets.intercept.is_empty()
}

fn values(remedy: &Remedy) -> Vec<(String, String)> {
    let set = remedy.sets.environment.iter();
    let mut all: Vec<(String, String)> =
        set.map(|variable| (variable.name.clone(), variable.value.replace("{heap}", HEAP))).collect();
    if let Some(preload) = remedy.sets.preload.first() {
        all.push(("LD_PRELOAD".into(), preload.file.clone()));
    }
    all
}

fn run(remedy: &Remedy) -> String {
    let loose = if remedy.is_loose { "--loose " } else { "" };
    format!("ceasefire deter run --with {} {loose}-- {COMMAND}", remedy.name)
}

fn shell(remedy: &Remedy) -> String {
    if needs_us(&remedy.sets) {
        return run(remedy);
    }
    let mut words: Vec<String> = values(remedy)
        .into_iter()
        .map(|(name, value)| format!("{name}={}", quote(OsStr::new(&value))))
        .collect();
    if remedy.sets.cpus.is_some() {
        words.push("taskset -c 0".into());
    }
    words.push(COMMAND.into());
    words.extend(remedy.sets.arguments.iter().map(|word| quote(OsStr::new(word))));
    words.join(" ")
}

fn systemd(remedy: &Remedy) -> Vec<String> {
    let mut lines =
        vec!["# /etc/systemd/system/NAME.service.d/ceasefire.conf".to_string(), "[Service]".to_string()];
    if needs_us(&remedy.sets) {
        if !remedy.sets.intercept.is_empty() {
            // Its user may have no home. A directory of the service's own: another user must not own what others map.
            lines.push("CacheDirectory=ceasefire/%N".into());
            lines.push("Environment=XDG_CACHE_HOME=%C/ceasefire/%N".into());
        }
        lines.extend(["ExecStart=".to_string(), format!("ExecStart=/usr/local/bin/{}", run(remedy))]);
    } else {
        // `%` begins a specifier.
        let quoted = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
        lines.extend(
            values(remedy).iter().map(|(name, value)| format!("Environment=\"{name}={}\"", quoted(value))),
        );
        if remedy.sets.cpus.is_some() {
            lines.push("CPUAffinity=0".into());
        }
        lines.extend(arguments(remedy));
    }
    lines.push("# then: systemctl daemon-reload && systemctl restart NAME".into());
    lines
}

fn docker(remedy: &Remedy) -> Vec<String> {
    if needs_us(&remedy.sets) {
        let words: Vec<String> =
            run(remedy).split(' ').filter(|word| *word != COMMAND).map(|w| format!("{w:?}")).collect();
        return vec![
            "COPY ceasefire /usr/local/bin/ceasefire".into(),
            format!("ENTRYPOINT [{}]", words.join(", ")),
            format!("# {COMMAND}: the image's own entry point and command; the line above clears them"),
            format!("CMD [{COMMAND:?}]"),
        ];
    }
    let mut lines: Vec<String> = Vec::new();
    for preload in &remedy.sets.preload {
        lines.push(format!(
            "RUN apt-get update && apt-get install -y --no-install-recommends {}",
            preload.package
        ));
    }
    let quoted = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$");
    lines.extend(values(remedy).iter().map(|(name, value)| format!("ENV {name}=\"{}\"", quoted(value))));
    if remedy.sets.cpus.is_some() {
        lines.push("# docker run --cpuset-cpus 0 IMAGE".into());
    }
    lines.extend(arguments(remedy));
    lines
}

fn kubernetes(remedy: &Remedy) -> Vec<String> {
    let mut lines = vec!["# in the container of the pod's template".to_string()];
    if needs_us(&remedy.sets) {
        lines.push("command:".into());
        let words = run(remedy);
        lines.extend(words.split(' ').filter(|word| *word != COMMAND).map(|word| format!("- {word:?}")));
        lines.push(format!("# {COMMAND}: the image's own entry point and command; `command` clears them"));
        lines.push(format!("args: [{COMMAND:?}]"));
        lines.push("# and its image needs /usr/local/bin/ceasefire".into());
        return lines;
    }
    let values = values(remedy);
    if !values.is_empty() {
        lines.push("env:".into());
    }
    for (name, value) in &values {
        lines.push(format!("- name: {name}"));
        // A string of JSON is one of YAML.
        lines.push(format!("  value: {}", serde_json::Value::from(value.as_str())));
    }
    if remedy.sets.cpus.is_some() {
        lines.push("# resources.limits.cpu: \"1\" and a memory limit, so that the pod is Guaranteed;".into());
        lines.push("# and kubelet's --cpu-manager-policy=static".into());
    }
    lines.extend(arguments(remedy));
    lines
}

fn arguments(remedy: &Remedy) -> Option<String> {
    let words: Vec<String> = remedy.sets.arguments.iter().map(|word| quote(OsStr::new(word))).collect();
    (!words.is_empty()).then(|| format!("# add these arguments: {}", words.join(" ")))
}

fn host(remedy: &Remedy, form: Form) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    match form {
        Form::Shell => lines.push(format!("sudo ceasefire deter host on {}", remedy.name)),
        Form::Systemd => {
            for setting in &remedy.sets.host {
                match setting.path.strip_prefix("/proc/sys/") {
                    Some(name) => {
                        lines.push("# /etc/sysctl.d/90-ceasefire.conf".into());
                        lines.push(format!("{} = {}", name.replace('/', "."), setting.value));
                    }
                    None => {
                        lines.push("# /etc/tmpfiles.d/ceasefire.conf".into());
                        lines.push(format!("w {} - - - - {}", setting.path, setting.value));
                    }
                }
            }
            lines.push("# undo: take the line out and restart the machine, or set the old value".into());
            return Ok(lines);
        }
        Form::Docker | Form::Kubernetes => {
            return Err(Error::usage(format!("{} is a setting of the host, not of a container", remedy.name))
                .remedy(format!("on the node: ceasefire deter show {} --as systemd", remedy.name)))
        }
    }
    lines.push(format!("# undo: {}", remedy.undo));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::{all, named};

    fn shown(name: &str, form: Form) -> String {
        show(named(name).expect(name), form).expect(name).join("\n")
    }

    #[test]
    fn every_remedy_has_every_form_or_says_why_not() {
        for remedy in all() {
            for form in [Form::Shell, Form::Systemd, Form::Docker, Form::Kubernetes] {
                match show(remedy, form) {
                    Ok(lines) => {
                        assert!(lines.iter().any(|line| line.starts_with("# undo: ")), "{}", remedy.name)
                    }
                    Err(error) => assert!(remedy.is_host() && error.remedy.is_some(), "{error:?}"),
                }
            }
        }
    }

    /// A line that is no comment belongs into the file that the form is for.
    #[test]
    fn what_is_for_another_file_is_a_comment() {
        const FORMS: [Form; 4] = [Form::Shell, Form::Systemd, Form::Docker, Form::Kubernetes];
        for remedy in all().iter().filter(|remedy| !remedy.is_host()) {
            for form in FORMS {
                let lines = show(remedy, form).expect("every form");
                for change in &remedy.sets.change {
                    assert!(lines.contains(&format!("#     {}", change.text)), "{lines:?}");
                    assert!(!lines.contains(&change.text), "{lines:?}");
                }
                let is_all_comments = lines.iter().all(|line| line.starts_with('#'));
                assert!(is_all_comments || !remedy.is_change_only(), "{lines:?}");
                let text = lines.join("\n");
                assert!(!(needs_us(&remedy.sets) && text.contains("has a value already")), "{text}");
                assert_eq!(text.contains("where LD_PRELOAD has"), !remedy.sets.preload.is_empty(), "{text}");
            }
        }
        assert!(!shown("google-tcmalloc-keep", Form::Systemd).contains("or, "));
    }

    #[test]
    fn what_starts_the_program_has_its_command() {
        let docker = shown("go-keep", Form::Docker);
        assert!(
            docker.contains("\"--\"]\n# COMMAND: ") && docker.contains("\nCMD [\"COMMAND\"]"),
            "{docker}"
        );
        let pod = shown("go-keep", Form::Kubernetes);
        assert!(pod.contains("- \"--\"\n# COMMAND: ") && pod.contains("\nargs: [\"COMMAND\"]"), "{pod}");
        let unit = shown("malloc-trim-off", Form::Systemd);
        assert!(unit.contains("CacheDirectory=ceasefire/%N\nEnvironment=XDG_CACHE_HOME=%C/ceasefire/%N\n"));
        assert!(!shown("go-keep", Form::Systemd).contains("CacheDirectory"), "it keeps no file");
        assert!(shown("one-cpu", Form::Kubernetes).contains("Guaranteed"));
    }

    #[test]
    fn the_forms_can_be_pasted() {
        assert!(shown("python-malloc-keep", Form::Shell)
            .starts_with("PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc."));
        assert!(shown("jvm-fixed-heap", Form::Shell)
            .starts_with("JAVA_TOOL_OPTIONS='-XmsHEAP -XmxHEAP -XX:+AlwaysPreTouch' COMMAND"));
        assert!(shown("apache-mmap-off", Form::Shell).starts_with("COMMAND -c 'EnableMMAP Off'"));
        assert!(shown("go-keep", Form::Shell).starts_with("ceasefire deter run --with go-keep -- COMMAND"));
        assert!(shown("zero-instead", Form::Shell).contains("--loose"));
        let unit = shown("jemalloc", Form::Systemd);
        assert!(unit.contains("[Service]\nEnvironment=\"MALLOC_CONF=dirty_decay_ms:-1"), "{unit}");
        assert!(unit.contains("Environment=\"LD_PRELOAD=libjemalloc.so.2\""), "{unit}");
        assert!(shown("jemalloc", Form::Docker).contains("install -y --no-install-recommends libjemalloc2"));
        assert!(
            shown("jemalloc", Form::Kubernetes).contains("- name: LD_PRELOAD\n  value: \"libjemalloc.so.2\"")
        );
        assert!(shown("host-ksm", Form::Systemd).contains("w /sys/kernel/mm/ksm/run - - - - 0"));
        assert!(shown("host-compaction", Form::Systemd).contains("vm.compaction_proactiveness = 0"));
        assert!(shown("one-cpu", Form::Shell).starts_with("taskset -c 0 COMMAND"));
    }
}
