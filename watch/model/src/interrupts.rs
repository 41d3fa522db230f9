// SPDX-License-Identifier: GPL-2.0-only
//! Rows of /proc/interrupts: the kernel's own count, which ours must meet.

/// Sum over the CPUs of a row such as `TLB`.
pub fn row(text: &str, name: &str) -> Option<u64> {
    Some(columns(text, name)?.fold(0, u64::saturating_add))
}

/// The same over some of the CPUs; who is offline has no column.
pub fn row_of(text: &str, name: &str, cpus: &[u32]) -> Option<u64> {
    let head = text.lines().next()?.split_whitespace();
    let numbers = head.map_while(|word| word.strip_prefix("CPU")?.parse::<u32>().ok());
    let theirs = numbers.zip(columns(text, name)?).filter(|(cpu, _)| cpus.contains(cpu));
    Some(theirs.map(|(_, count)| count).fold(0, u64::saturating_add))
}

fn columns<'a>(text: &'a str, name: &str) -> Option<impl Iterator<Item = u64> + 'a> {
    let line = text
        .lines()
        .find(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    let (_, rest) = line.split_once(':')?;
    Some(rest.split_whitespace().map_while(|word| word.parse::<u64>().ok()))
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

    #[test]
    fn a_column_belongs_to_the_cpu_of_its_head() {
        let text = "           CPU0       CPU2       CPU3\n TLB:  5 6 7   TLB shootdowns\n";
        assert_eq!(row_of(text, "TLB", &[2, 3]), Some(13));
        assert_eq!(row_of(text, "TLB", &[1]), Some(0));
        assert_eq!(row_of(text, "CAL", &[1]), None);
    }
}
