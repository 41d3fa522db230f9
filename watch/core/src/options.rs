// SPDX-License-Identifier: GPL-2.0-only
//! What is asked of the observer.

/// Which senders are described; all are counted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub comm: Option<String>,
    /// The initiator waited at least this long.
    pub wait_ns_min: u64,
    pub tgid: Option<u32>,
    pub tid: Option<u32>,
    pub cpu: Option<u32>,
    pub cgroup: Option<Cgroup>,
}

/// One of the unified hierarchy, and what is below it.
#[derive(Debug, Clone, Copy)]
pub struct Cgroup {
    pub id: u64,
    /// Steps from the root.
    pub level: u32,
}

/// Shootdowns are sent one by one.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventOptions {
    /// Only those in which one victim lost at least this much.
    pub handler_ns_min: u64,
}

/// What is looked at; each costs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The receiving side: delivery, handler, wait, victims.
    pub latencies: bool,
    pub senders: bool,
    pub kernel_stacks: bool,
    pub user_stacks: bool,
    /// With what the compiler made inline, from debug information.
    pub inlined: bool,
    pub histograms: bool,
    pub pairs: bool,
    /// Flush requests of processes with threads, by cause, whether anybody else is asked or not.
    pub requests: bool,
    /// Other functions than flushes that CPUs have each other run.
    pub calls: bool,
    /// How long the system calls took that sent; costs every system call on the machine.
    pub whole_calls: bool,
    pub events: Option<EventOptions>,
    pub filter: Filter,
    /// Let the kernel time the probes, part of the time.
    pub timing: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            latencies: true,
            senders: true,
            kernel_stacks: true,
            user_stacks: false,
            inlined: false,
            histograms: true,
            pairs: true,
            requests: false,
            calls: true,
            whole_calls: false,
            events: None,
            filter: Filter::default(),
            timing: true,
        }
    }
}
