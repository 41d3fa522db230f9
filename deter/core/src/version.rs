// SPDX-License-Identifier: GPL-2.0-only
//! Versions as numbers between dots; what follows them is not compared.

/// `2.36-9+deb12` is `[2, 36]`; None without a number.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let numbers: Vec<u32> =
        text[..end].split('.').filter(|part| !part.is_empty()).map_while(|part| part.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// Is `version` this one or newer? What cannot be read is not.
pub fn is_at_least(version: &str, least: &str) -> bool {
    parse(version).zip(parse(least)).is_some_and(|(version, least)| version >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_not_letters() {
        assert!(is_at_least("2.36", "2.26") && is_at_least("2.26", "2.26") && is_at_least("3.10", "3.6"));
        assert!(!is_at_least("2.4", "2.26") && !is_at_least("", "1") && !is_at_least("x", "1"));
        assert!(is_at_least("6.18.44-fc-v657", "6.15"));
        assert_eq!(parse("2.36-9+deb12"), Some(vec![2, 36]));
    }
}
