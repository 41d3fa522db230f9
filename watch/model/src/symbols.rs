// SPDX-License-Identifier: GPL-2.0-only
//! Names of kernel addresses, from the text of /proc/kallsyms, read once.

/// Sorted by address. Several names at one address: the first stands.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    starts: Vec<u64>,
    names: Vec<Box<str>>,
}

impl Symbols {
    /// Functions only. All-zero addresses (kptr_restrict) give an empty table.
    pub fn parse(text: &str) -> Symbols {
        let mut rows: Vec<(u64, &str)> = text.lines().filter_map(row).collect();
        rows.sort_by_key(|(address, _)| *address);
        rows.dedup_by_key(|(address, _)| *address);
        Symbols {
            starts: rows.iter().map(|(address, _)| *address).collect(),
            names: rows.iter().map(|(_, name)| (*name).into()).collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|start| *start <= address);
        self.names.get(after.checked_sub(1)?).map(AsRef::as_ref)
    }

    /// Where a function begins; compilers may have given its copy a suffix (`.isra.0`, `.constprop.0`). A `.cold` part
    /// is no beginning.
    pub fn address(&self, function: &str) -> Option<u64> {
        let at = |is_it: &dyn Fn(&str) -> bool| self.names.iter().position(|name| is_it(name));
        let is_copy = |name: &str| {
            name.strip_prefix(function).is_some_and(|rest| rest.starts_with('.') && !rest.contains(".cold"))
        };
        let found = at(&|name| name == function).or_else(|| at(&is_copy))?;
        self.starts.get(found).copied()
    }

    /// Return addresses to names: the byte before belongs to the call.
    pub fn frames(&self, addresses: &[u64]) -> Vec<String> {
        let name = |address: &u64| match self.name(address.saturating_sub(1)) {
            Some(name) => stem(name).to_string(),
            None => format!("{address:#x}"),
        };
        addresses.iter().take_while(|address| **address != 0).map(name).collect()
    }
}

fn row(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
    matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
    Some((address, words.next()?))
}

/// Without what compilers add to a copy.
pub fn stem(name: &str) -> &str {
    name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000001000 t flush_tlb_func\n0000000000001100 T flush_tlb_multi\n\
        0000000000001200 D some_data\n0000000000001300 t do_flush.isra.0\n0000000000000000 T hidden\n";

    #[test]
    fn an_address_is_named_by_the_function_it_lies_in() {
        let symbols = Symbols::parse(TEXT);
        assert_eq!(symbols.name(0x0fff), None);
        assert_eq!(symbols.name(0x1000), Some("flush_tlb_func"));
        assert_eq!(symbols.name(0x12ff), Some("flush_tlb_multi"));
        assert_eq!(symbols.address("flush_tlb_func"), Some(0x1000));
        assert_eq!(symbols.address("do_flush"), Some(0x1300));
        assert_eq!(symbols.address("flush_tlb"), None);
        // A call that ends a function returns to the next one's first byte.
        assert_eq!(symbols.frames(&[0x1100, 0x1304, 0]), ["flush_tlb_func", "do_flush"]);
    }

    #[test]
    fn hidden_addresses_give_an_empty_table() {
        assert!(Symbols::parse("0000000000000000 T a\n0000000000000000 t b\nnonsense\n").is_empty());
    }
}
