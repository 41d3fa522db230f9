// SPDX-License-Identifier: GPL-2.0-only
//! Rows of /proc/interrupts: the kernel's own count, which ours must meet.

/// Sum over the CPUs of a row such as `TLB`.
pub fn row(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    let (_, rest) = line.split_once(':')?;
    let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    Some(counts.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_summed_over_its_cpus() {
        let text = "           CPU0       CPU1\n CAL:  5 6   Function call interrupts\n TLB:       6593       7095   TLB shootdowns\n";
        assert_eq!(row(text, "TLB"), Some(13_688));
        assert_eq!(row(text, "CAL"), Some(11));
        assert_eq!(row(text, "CPU0"), None);
        assert_eq!(row("TLB", "TLB"), None);
    }
}
