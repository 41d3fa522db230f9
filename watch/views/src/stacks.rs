// SPDX-License-Identifier: GPL-2.0-only
//! Where shootdowns come from, by pages and by stolen time; or folded, for flame graphs.

use crate::numbers::{count, ratio, time};
use crate::{honesty, stat};
use ceasefire_watch_model::{Class, Counts, Sender, Site, Snapshot};

/// More user stacks of one place are only counted.
const USER_STACKS: usize = 3;

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
        stat::classed(site.cause.to_string(), site.class),
        count(site.tally.shootdowns),
        count(site.tally.targets),
        time(site.handler_ns)
    );
    let frames = site.kernel_stack.and_then(|id| window.stacks.kernel.get(&id));
    for frame in frames.into_iter().flatten() {
        text.push_str(&format!("      {frame}\n"));
    }
    text.push_str(&user_stacks(window, site));
    text
}

/// What of the program asked for it; the same place in the kernel is reached from several.
fn user_stacks(window: &Snapshot, site: &Site) -> String {
    // By name: two calls in one function look alike.
    let mine = window.senders.iter().filter(|sender| sender.site_key() == site.key());
    let frames = |id: u32| window.stacks.user.get(&id);
    let sums = mine.filter_map(|sender| Some((sender.user_stack.and_then(frames)?, sender.tally.targets)));
    let sums = sums.collect::<Counts<_>>().largest(usize::MAX);
    let mut text = String::new();
    for (frames, targets) in sums.iter().take(USER_STACKS) {
        text.push_str(&format!("    user stack, {} received:\n", count(*targets)));
        for frame in *frames {
            text.push_str(&format!("      {frame}\n"));
        }
    }
    match sums.len().saturating_sub(USER_STACKS) {
        0 => {}
        more => text.push_str(&format!("    and {} more user stacks\n", count(more as u64))),
    }
    text
}

/// `comm;outermost;…;innermost COUNT`, one line a stack, counting targets; a class other than `user` is the root. A `;` of
/// a name is a `:` here.
pub fn folded(window: &Snapshot) -> String {
    let senders = window.senders.iter().filter(|sender| sender.class != Class::Own);
    let sums: Counts<_> = senders.map(|sender| (fold(window, sender), sender.tally.targets)).collect();
    sums.iter().map(|(stack, targets)| format!("{stack} {targets}\n")).collect()
}

fn fold(window: &Snapshot, sender: &Sender) -> String {
    let kernel = sender.kernel_stack.and_then(|id| window.stacks.kernel.get(&id));
    let user = sender.user_stack.and_then(|id| window.stacks.user.get(&id));
    let class = (sender.class != Class::User).then(|| sender.class.name().to_string());
    let mut frames: Vec<String> = class.into_iter().collect();
    frames.push(sender.task.comm.replace([';', ' '], "_"));
    frames.extend(user.into_iter().flatten().rev().map(|frame| frame.replace(';', ":")));
    frames.extend(kernel.into_iter().flatten().rev().cloned());
    frames.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair_of_classes, sender, site};
    use ceasefire_watch_model::{Cause, Stacks};

    #[test]
    fn folded_stacks_of_two_classes_stay_apart() {
        assert_eq!(folded(&pair_of_classes()), "kernel-range;sender 5\nsender 3\n");
    }

    #[test]
    fn user_stacks_stand_below_the_kernels() {
        let mut place = site(Class::User, Cause::Munmap, 10);
        place.kernel_stack = Some(1);
        let from = |user_stack: u32, targets: u64| {
            let mut sender = sender(Class::User, user_stack, Cause::Munmap, targets);
            (sender.kernel_stack, sender.user_stack) = (Some(1), Some(user_stack));
            sender
        };
        let mut elsewhere = from(7, 9);
        elsewhere.kernel_stack = Some(2);
        let frames = |id: u32| (id, vec![format!("app+0x{id}"), "libc.so.6+0x1".to_string()]);
        let window = Snapshot {
            sites: vec![place],
            senders: vec![from(1, 1), from(2, 4), from(3, 3), from(4, 2), elsewhere],
            stacks: Stacks {
                kernel: [(1, vec!["zap_page_range".to_string()])].into(),
                user: [1, 2, 3, 4, 7].map(frames).into(),
            },
            ..Snapshot::default()
        };
        let text = render(&window, 5);
        let wanted =
            "      zap_page_range\n    user stack, 4 received:\n      app+0x2\n      libc.so.6+0x1\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("    and 1 more user stacks\n"), "{text}");
        assert!(!text.contains("app+0x7"), "{text}");
    }
}
