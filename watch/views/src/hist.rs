// SPDX-License-Identifier: GPL-2.0-only
//! Distributions: the three times apart, pages, and the wait by the number of targets.

use crate::honesty;
use crate::numbers::{count, time};
use ceasefire_watch_model::{Class, Histogram, Site, Snapshot};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    All,
    Cause,
    Targets,
}

const BAR: usize = 40;

pub fn render(window: &Snapshot, by: By) -> String {
    let mut text = String::new();
    for class in [Class::User, Class::KernelRange] {
        let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
        if sites.is_empty() {
            continue;
        }
        match by {
            By::All => text.push_str(&times(&format!("{} shootdowns", class.name()), &sites)),
            By::Cause => {
                let mut causes: BTreeMap<String, Vec<&Site>> = BTreeMap::new();
                for site in sites {
                    causes.entry(site.cause.to_string()).or_default().push(site);
                }
                for (cause, sites) in causes {
                    text.push_str(&times(&cause, &sites));
                }
            }
            By::Targets => {
                for row in window.by_targets.iter().filter(|row| row.class == class) {
                    let range = match row.targets_min == row.targets_max {
                        true => row.targets_min.to_string(),
                        false => format!("{} to {}", row.targets_min, row.targets_max),
                    };
                    let title = format!("{} shootdowns with {range} targets: initiator's wait", class.name());
                    text.push_str(&chart(&title, "ns", &row.wait));
                }
            }
        }
    }
    if text.is_empty() {
        text.push_str("no shootdowns\n");
    }
    text.push_str(&honesty::block(&window.coverage));
    text
}

fn times(what: &str, sites: &[&Site]) -> String {
    type Part = fn(&Site) -> &Histogram;
    let parts: [(&str, &str, Part); 4] = [
        ("delivery, per target", "ns", |site| &site.delivery),
        ("handler, per target", "ns", |site| &site.handler),
        ("initiator's wait, per shootdown", "ns", |site| &site.wait),
        ("pages, per ranged shootdown", "pages", |site| &site.pages),
    ];
    let mut text = String::new();
    for (name, unit, part) in parts {
        let mut sum = Histogram::default();
        sites.iter().for_each(|site| sum.merge(part(site)));
        if sum.count() > 0 {
            text.push_str(&chart(&format!("{what}: {name}"), unit, &sum));
        }
    }
    text
}

/// As bcc's tools print it, empty ends left out.
pub fn chart(title: &str, unit: &str, histogram: &Histogram) -> String {
    let mut text = format!("\n{title}\n{:>23} : {:<12} |distribution\n", unit, "count");
    let most = histogram.buckets.iter().copied().max().unwrap_or(0).max(1);
    let first = histogram.buckets.iter().position(|count| *count > 0).unwrap_or(0);
    for (bucket, seen) in histogram.buckets.iter().enumerate().skip(first) {
        let (least, greatest) = Histogram::bounds(bucket);
        let greatest = if greatest == u64::MAX { "more".to_string() } else { greatest.to_string() };
        let stars = ((*seen as u128 * BAR as u128).div_ceil(most as u128)) as usize;
        text.push_str(&format!(
            "{least:>10} -> {greatest:<9} : {:<12} |{:<BAR$}|\n",
            count(*seen),
            "*".repeat(stars)
        ));
    }
    if unit == "ns" {
        let quantile = |share: f64| histogram.quantile(share).map_or("-".into(), time);
        text.push_str(&format!(
            "  p50 < {}, p99 < {}, p99.9 < {}\n",
            quantile(0.5),
            quantile(0.99),
            quantile(0.999)
        ));
    }
    text
}
