// SPDX-License-Identifier: GPL-2.0-only
//! How a number is written, the same in the terminal and in the report.

use ceasefire_results::stats::Spread;

/// Not measured; never zero.
pub const ABSENT: &str = "-";

/// Three significant digits below 1,000, whole numbers with separators above: never more than ten characters.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".into()
    } else if !value.is_finite() {
        ABSENT.into()
    } else if size < 0.0005 {
        if value < 0.0 { "-<0.001" } else { "<0.001" }.into()
    } else if size < 0.9995 {
        format!("{value:.3}")
    } else if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else if size < 9_999_999.5 {
        grouped(value)
    } else {
        format!("{value:.2e}")
    }
}

pub fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(|| ABSENT.into(), |spread| figure(spread.median))
}

/// `1.02 (0.99 to 1.10)`, or the median alone where every repeat gave the same.
pub fn with_range(spread: Spread) -> String {
    let (low, high) = (figure(spread.min), figure(spread.max));
    if low == high {
        figure(spread.median)
    } else {
        format!("{} ({low} to {high})", figure(spread.median))
    }
}

/// The same for the cell of a published table: `7.00 [6.00, 8.00]`.
pub(crate) fn in_cell(spread: Spread) -> String {
    let (low, high) = (figure(spread.min), figure(spread.max));
    match low == high {
        true => figure(spread.median),
        false => format!("{} [{low}, {high}]", figure(spread.median)),
    }
}

/// A whole number with thousands separators.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" {
        text.insert(0, '-');
    }
    text
}

/// `+12.3 %`; an infinite rise from zero is said in words by the caller.
pub fn percent(value: f64) -> String {
    if value.abs() < 0.05 {
        return "0.0 %".into();
    }
    if value.abs() >= 9_999.5 {
        return format!("{}{} %", if value > 0.0 { "+" } else { "" }, grouped(value));
    }
    format!("{value:+.1} %")
}

/// The same with a true minus sign, for a page.
pub fn prose_percent(value: f64) -> String {
    percent(value).replace('-', "\u{2212}")
}

/// Of a whole: `97.5 %`. All but something is not all, and nothing has no sign.
pub fn share(value: f64) -> String {
    match value {
        100.0 => "100 %".into(),
        value if value.abs() < 0.05 => "0 %".into(),
        value if (99.95..100.0).contains(&value) => "99.9 %".into(),
        value if value.abs() >= 9_999.5 => format!("{} %", grouped(value)),
        value => format!("{value:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_and_stay_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.0001, "<0.001"),
            (0.0125, "0.013"),
            (0.9994, "0.999"),
            (0.9996, "1.00"),
            (7.0, "7.00"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (10_800.4, "10,800"),
            (999_999.0, "999,999"),
            (12_345_678.0, "1.23e7"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(figure(value), text, "{value}");
        }
        for exponent in -5..300 {
            for lead in [1.0, 4.9999, 9.9999] {
                let value = lead * 10f64.powi(exponent);
                assert!(figure(value).len() <= 10 && figure(-value).len() <= 10, "{value}");
            }
        }
    }

    #[test]
    fn percentages_carry_their_sign() {
        for (value, text) in
            [(0.01, "0.0 %"), (-92.04, "-92.0 %"), (3.0, "+3.0 %"), (123_456.0, "+123,456 %")]
        {
            assert_eq!(percent(value), text);
        }
    }

    #[test]
    fn a_share_is_all_only_if_it_is_all() {
        for (value, text) in [
            (100.0, "100 %"),
            (99.95, "99.9 %"),
            (99.999_9, "99.9 %"),
            (99.94, "99.9 %"),
            (100.04, "100.0 %"),
            (125.0, "125.0 %"),
            (0.0, "0 %"),
            (-0.01, "0 %"),
            (-50.0, "-50.0 %"),
            (-123_456.0, "-123,456 %"),
        ] {
            assert_eq!(share(value), text, "{value}");
        }
    }

    #[test]
    fn equal_repeats_show_no_range() {
        assert_eq!(with_range(Spread { median: 7.0, min: 7.0, max: 7.0 }), "7.00");
        assert_eq!(with_range(Spread { median: 7.0, min: 6.0, max: 8.0 }), "7.00 (6.00 to 8.00)");
    }
}
