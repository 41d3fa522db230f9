// SPDX-License-Identifier: GPL-2.0-only
//! Debian's order of versions (deb-version(7)): [epoch:]upstream[-revision]. Ours, since the crate for it panics at
//! numbers of more than 31 bits, as in the date 20261125120000.

use std::cmp::Ordering;

/// Which is newer?
pub fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, rest_a) = epoch(a);
    let (epoch_b, rest_b) = epoch(b);
    let (upstream_a, revision_a) = revision(rest_a);
    let (upstream_b, revision_b) = revision(rest_b);
    epoch_a
        .cmp(&epoch_b)
        .then_with(|| part(upstream_a, upstream_b))
        .then_with(|| part(revision_a, revision_b))
}

/// Without epoch and Debian revision: "1:7.2+dfsg-7+deb12u18" is "7.2+dfsg".
pub fn upstream(version: &str) -> &str {
    revision(epoch(version).1).0
}

/// Is it a version of this upstream series, as 6.12.117 is of 6.12?
pub fn is_of_series(version: &str, series: &str) -> bool {
    match upstream(version).strip_prefix(series) {
        Some(rest) => rest.chars().next().map_or(true, |c| !c.is_ascii_digit()),
        None => false,
    }
}

fn epoch(version: &str) -> (u64, &str) {
    match version.split_once(':') {
        Some((number, rest)) => (number.parse().unwrap_or(0), rest),
        None => (0, version),
    }
}

fn revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// Alternately a run of non-digits by the modified alphabet and a number.
fn part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let words = word(&mut a).cmp(&word(&mut b));
        let order = words.then_with(|| number(&mut a).cmp(&number(&mut b)));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Ranks of the leading non-digits: ~ before the end, the end before letters, letters before the rest.
fn word(text: &mut &str) -> Vec<u32> {
    let end = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (head, tail) = text.split_at(end);
    *text = tail;
    let rank = |c: char| match c {
        '~' => 0,
        c if c.is_ascii_alphabetic() => 2 + c as u32,
        c => 1000 + c as u32,
    };
    head.chars().map(rank).chain([1]).collect()
}

/// The leading number without zeros in front, as (digits, text): compares like a number of any length.
fn number<'a>(text: &mut &'a str) -> (usize, &'a str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (head, tail) = text.split_at(end);
    *text = tail;
    let digits = head.trim_start_matches('0');
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_debians() {
        // Ascending; each pair is compared both ways.
        let ascending = [
            "~~",
            "~~a",
            "~",
            "",
            "0.9",
            "1.0~rc1-1",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1.1",
            "1.0-2",
            "1.0+dfsg-1",
            "1.0.1-1",
            "1.2-1",
            "1.10-1",
            "1.10a-1",
            "6.12.9-1~deb12u1",
            "6.12.107-1~deb12u1",
            "6.12.117-1~deb12u1",
            "6.12.117-1",
            "1:0.1-1",
            "1:7.2+dfsg-7+deb12u9",
            "1:7.2+dfsg-7+deb12u18",
            "2:0-0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("1.007-1", "1.7-1"), Ordering::Equal);
    }

    #[test]
    fn series_are_told_apart() {
        for (version, series, expected) in [
            ("6.12.117-1~deb12u1", "6.12", true),
            ("6.12-1", "6.12", true),
            ("6.120.1-1", "6.12", false),
            ("6.1.12-1", "6.12", false),
            ("1:7.2+dfsg-7+deb12u18", "7.2", true),
            ("1:8.2.2+ds-1", "7.2", false),
        ] {
            assert_eq!(is_of_series(version, series), expected, "{version} {series}");
        }
    }
}
