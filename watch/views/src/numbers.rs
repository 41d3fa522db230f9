// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as a person reads them.

use ceasefire_watch_model::maximum::{Greatest, Maximum};

/// 1234567 as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds as microseconds.
pub fn us(ns: f64) -> String {
    match ns / 1000.0 {
        small if small < 10.0 => format!("{small:.2}"),
        middle if middle < 1000.0 => format!("{middle:.1}"),
        large => count(large.round() as u64),
    }
}

/// Mean of a sum of nanoseconds, in microseconds; a dash where there is nothing to divide by.
pub fn mean_us(sum_ns: u64, count: u64) -> String {
    match count {
        0 => "-".to_string(),
        count => us(sum_ns as f64 / count as f64),
    }
}

/// A window's maximum in microseconds; a dash where it is the greatest since the start and no more is known.
pub fn max_us((greatest_ns, says): Greatest) -> String {
    let greatest = us(greatest_ns as f64);
    match says {
        Maximum::Exact => greatest,
        Maximum::AtMost => format!("<={greatest}"),
        Maximum::SinceStart => "-".to_string(),
    }
}

/// Nanoseconds with the unit that fits.
pub fn time(ns: u64) -> String {
    match ns {
        0..=999 => format!("{ns} ns"),
        1_000..=999_999 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

pub fn ratio(a: u64, b: u64) -> String {
    match b {
        0 => "-".to_string(),
        b => format!("{:.2}", a as f64 / b as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(us(1_500.0), "1.50");
        assert_eq!(us(12_345_678.0), "12,346");
        assert_eq!(time(1_500_000), "1.5 ms");
        assert_eq!(mean_us(10, 0), "-");
        assert_eq!(max_us((1_500, Maximum::Exact)), "1.50");
        assert_eq!(max_us((1_500, Maximum::AtMost)), "<=1.50");
        assert_eq!(max_us((1_500, Maximum::SinceStart)), "-");
    }
}
