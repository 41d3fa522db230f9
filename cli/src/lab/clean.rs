// SPDX-License-Identifier: GPL-2.0-only
//! `lab clean`: what the cache holds, and making room.

use ceasefire_artifacts::Context;
use ceasefire_base::{exec::print_line, Error, Result};
use std::time::Duration;

pub fn run(ctx: &Context, older_than: Option<&str>) -> Result<()> {
    let Some(text) = older_than else { return show(ctx) };
    let age = age(text)?;
    let cleaned = ctx.cache.clean((!age.is_zero()).then_some(age), ctx.dry_run)?;
    let verb = if ctx.dry_run { "would remove" } else { "removed" };
    for entry in &cleaned.removed {
        print_line(&format!("{verb} {}/{} ({} MiB)", entry.class, entry.name, entry.bytes >> 20));
    }
    print_line(&format!("{verb} {} entries, {} MiB", cleaned.removed.len(), cleaned.bytes >> 20));
    if cleaned.kept_locked > 0 {
        print_line(&format!("kept {} that are in use now", cleaned.kept_locked));
    }
    Ok(())
}

fn show(ctx: &Context) -> Result<()> {
    let usage = ctx.cache.usage()?;
    let mut total = 0;
    for entry in &usage {
        let days = entry.used.elapsed().map_or(0, |age| age.as_secs() / 86_400);
        print_line(&format!(
            "{:>6} MiB  {}/{}  used {days} d ago",
            entry.bytes >> 20,
            entry.class,
            entry.name
        ));
        total += entry.bytes;
    }
    print_line(&format!("{:>6} MiB  in {}", total >> 20, ctx.cache.dir().display()));
    if !usage.is_empty() {
        print_line("remove with: ceasefire lab clean --older-than 30d (0d: everything)");
    }
    Ok(())
}

/// `30d`, `12h`, `90m`.
fn age(text: &str) -> Result<Duration> {
    let wrong = || {
        Error::usage(format!("'{text}' is no age")).remedy("write a number and d, h or m: --older-than 30d")
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::age;
    use std::time::Duration;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        assert_eq!(age("30d").expect("an age"), Duration::from_secs(30 * 86_400));
        assert_eq!(age("0d").expect("an age"), Duration::ZERO);
        assert_eq!(age("12h").expect("an age"), Duration::from_secs(43_200));
        for wrong in
            ["", "d", "banana", "-1d", "1.5d", "99999999999999999999d", "9999999999999999d", "3", "3é"]
        {
            age(wrong).expect_err(wrong);
        }
    }
}
