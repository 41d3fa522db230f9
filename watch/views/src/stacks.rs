// SPDX-License-Identifier: GPL-2.0-only
//! Where shootdowns come from, by pages and by stolen time; or folded, for flame graphs.

use crate::honesty;
use crate::numbers::{count, ratio, time};
use ceasefire_watch_model::{Class, Sender, Site, Snapshot};
use std::collections::BTreeMap;

pub fn render(window: &Snapshot, top: usize) -> String {
    let mut text = String::new();
    type Order = fn(&Site) -> u64;
    let orders: [(&str, Order); 2] =
        [("pages", |site| site.tally.pages), ("stolen time", |site| site.handler_ns.max(site.tally.targets))];
    for (title, order) in orders {
        let mut sites: Vec<&Site> =
            window.sites.iter().filter(|site| site.class != Class::Own && order(site) > 0).collect();
        sites.sort_by_key(|site| std::cmp::Reverse(order(site)));
        if sites.is_empty() {
            continue;
        }
        text.push_str(&format!("\nTOP {} STACKS BY {}\n", top.min(sites.len()), title.to_uppercase()));
        for site in sites.iter().take(top) {
            text.push_str(&one(window, site));
        }
    }
    if text.is_empty() {
        text.push_str("no shootdowns\n");
    }
    text.push_str(&honesty::block(&window.coverage));
    text
}

fn one(window: &Snapshot, site: &Site) -> String {
    let asked = match site.why_full {
        Some(why) => format!("full ({})", why.name()),
        None => format!(
            "{} pages, factor {}",
            count(site.tally.pages),
            ratio(site.tally.pages, site.tally.shootdowns)
        ),
    };
    let mut text = format!(
        "\n  {}: {} sent, {} received, {asked}, stolen {}\n",
        site.cause,
        count(site.tally.shootdowns),
        count(site.tally.targets),
        time(site.handler_ns)
    );
    let frames = site.kernel_stack.and_then(|id| window.stacks.kernel.get(&id));
    for frame in frames.into_iter().flatten() {
        text.push_str(&format!("      {frame}\n"));
    }
    text
}

/// `comm;outermost;…;innermost COUNT`, one line a stack, counting targets.
pub fn folded(window: &Snapshot) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sender in window.senders.iter().filter(|sender| sender.class != Class::Own) {
        let sum = sums.entry(fold(window, sender)).or_default();
        *sum = sum.saturating_add(sender.tally.targets);
    }
    sums.iter().map(|(stack, targets)| format!("{stack} {targets}\n")).collect()
}

fn fold(window: &Snapshot, sender: &Sender) -> String {
    let kernel = sender.kernel_stack.and_then(|id| window.stacks.kernel.get(&id));
    let user = sender.user_stack.and_then(|id| window.stacks.user.get(&id));
    let mut frames = vec![sender.task.comm.replace([';', ' '], "_")];
    frames.extend(user.into_iter().flatten().rev().cloned());
    frames.extend(kernel.into_iter().flatten().rev().cloned());
    frames.join(";")
}
