// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of CPUs and nodes as the kernel writes them: `2-4,7`.

use std::collections::BTreeSet;

/// What is no such list, such as the kernel's "(null)", names none; nor does a span that ends at 65,536 or later.
pub fn parse(text: &str) -> BTreeSet<u32> {
    let span = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (last < 1 << 16).then_some(first..=last)
    };
    text.trim().split(',').filter_map(span).flatten().collect()
}

/// 2, 3, 4, 7 as `2-4,7`.
pub fn show(numbers: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => spans.push((*number, *number)),
        }
    }
    let span = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(span).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read_and_written() {
        for (text, numbers) in [("", &[][..]), ("3", &[3]), ("2-4,7,9-10", &[2, 3, 4, 7, 9, 10])] {
            assert_eq!(parse(&format!("{text}\n")).into_iter().collect::<Vec<_>>(), numbers);
            assert_eq!(show(numbers), text);
        }
        for none in ["\n", "(null)\n", "5-2", "x", "0-99999999999", "0-4000000000"] {
            assert!(parse(none).is_empty(), "{none}");
        }
    }
}
