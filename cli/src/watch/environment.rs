// SPDX-License-Identifier: GPL-2.0-only
//! What a record says about the machine and its processes: settings that cause shootdowns, allocators in use.

use ceasefire_watch_model::ranges;
use ceasefire_watch_record::{Environment, Process};
use std::collections::BTreeMap;
use std::fs;

/// Kernel settings that decide about shootdowns.
const SETTINGS: [&str; 15] = [
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/compaction_proactiveness",
    "/proc/sys/vm/dirty_expire_centisecs",
    "/proc/sys/vm/dirty_writeback_centisecs",
    "/proc/sys/vm/swappiness",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
];

/// Parts of file names by which allocators and runtimes are known.
const LIBRARIES: [&str; 12] = [
    "libc.so",
    "libc-2",
    "ld-musl",
    "jemalloc",
    "tcmalloc",
    "mimalloc",
    "libjvm",
    "libcoreclr",
    "libjulia",
    "libgomp",
    "node",
    "libpython",
];

/// Beginnings of variables that set up allocators and runtimes.
const VARIABLES: [&str; 16] = [
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "PYTHONMALLOC",
    "LD_PRELOAD",
    "TCMALLOC_",
    "MIMALLOC_",
    "GODEBUG",
    "GOGC",
    "GOMEMLIMIT",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "DOTNET_",
];

/// Of a command, and of each list; servers in Java are started with dozens.
const WORDS_MAX: usize = 128;
/// As much as a reader keeps.
const WORD_BYTES_MAX: usize = 512;

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next().unwrap_or_default().to_string())
}

fn field(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| line.strip_prefix(name)?.trim_start().strip_prefix(':').map(str::to_string);
    text.lines().find_map(value).map(|value| value.trim().to_string())
}

pub fn here() -> Environment {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
    let online = |what: &str| first_line(&format!("/sys/devices/system/{what}/online"));
    let count = |what: &str| online(what).map_or(1, |list| ranges::parse(&list).len().max(1) as u32);
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let settings: BTreeMap<String, String> =
        SETTINGS.into_iter().filter_map(|path| Some((path.to_string(), first_line(path)?))).collect();
    Environment {
        ceasefire: env!("CARGO_PKG_VERSION").to_string(),
        kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        machine: std::env::consts::ARCH.to_string(),
        cpu_model: field(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), "model name")
            .unwrap_or_default(),
        // Those online, whatever this process may use.
        cpus: count("cpu"),
        nodes: count("node"),
        memory_kib: memory_kib.unwrap_or(0),
        started_s: started.map_or(0, |since| since.as_secs()),
        settings,
        ..Environment::default()
    }
}

/// None where it has ended.
pub fn process(tgid: u32, comm: &str) -> Option<Process> {
    let read = |name: &str| fs::read(format!("/proc/{tgid}/{name}"));
    let status = String::from_utf8_lossy(&read("status").ok()?).into_owned();
    let maps = String::from_utf8_lossy(&read("maps").unwrap_or_default()).into_owned();
    let words = |bytes: Vec<u8>| -> Vec<String> {
        let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        words
            .map(|word| String::from_utf8_lossy(&word[..word.len().min(WORD_BYTES_MAX)]).into_owned())
            .collect()
    };
    let mut files: Vec<&str> =
        maps.lines().filter_map(|line| line.splitn(6, ' ').nth(5)).map(str::trim).collect();
    files.retain(|path| path.starts_with('/'));
    files.sort_unstable();
    files.dedup();
    let mut libraries: Vec<String> = files
        .iter()
        .filter_map(|path| path.rsplit('/').next())
        .filter(|name| LIBRARIES.iter().any(|part| name.contains(part)))
        .map(str::to_string)
        .collect();
    libraries.sort();
    libraries.dedup();
    let mut variables = words(read("environ").unwrap_or_default());
    variables.retain(|variable| VARIABLES.iter().any(|name| variable.starts_with(name)));
    let mut command = words(read("cmdline").unwrap_or_default());
    for list in [&mut command, &mut libraries, &mut variables] {
        list.truncate(WORDS_MAX);
    }
    let built_with = super::program::built_with(tgid);
    let runtimes = super::runtimes::of(
        tgid,
        &super::runtimes::Seen {
            files: &files,
            arguments: command.get(1..).unwrap_or_default(),
            variables: &variables,
            built_with: &built_with,
        },
    );
    Some(Process {
        tgid,
        comm: comm.to_string(),
        command,
        threads: field(&status, "Threads").and_then(|text| text.parse().ok()).unwrap_or(0),
        cpus_allowed: field(&status, "Cpus_allowed_list").unwrap_or_default(),
        libraries,
        variables,
        built_with,
        runtimes,
        memory_limit: super::limit::memory_limit(tgid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_this_process_are_described() {
        let here = here();
        assert!(!here.kernel.is_empty() && here.memory_kib > 0 && here.nodes > 0);
        let own = process(std::process::id(), "test").expect("runs");
        assert!(own.threads > 0 && !own.command.is_empty() && !own.cpus_allowed.is_empty());
        assert_eq!(process(4_194_304, "nobody"), None);
    }
}
