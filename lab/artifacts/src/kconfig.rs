// SPDX-License-Identifier: GPL-2.0-only
//! Kernel configuration: what the fragments ask for, and whether the kernel's own answer has it.

use std::collections::BTreeMap;

/// Symbol (without CONFIG_) → (value, fragment that asks for it last).
pub type Wishes = BTreeMap<String, (String, String)>;

/// Adds what a fragment asks for; later fragments win.
pub fn add_fragment(wishes: &mut Wishes, name: &str, text: &str) {
    for (symbol, value) in settings(text) {
        wishes.insert(symbol, (value, name.to_string()));
    }
}

/// "CONFIG_X=v" and "# CONFIG_X is not set".
pub fn settings(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.lines().filter_map(|line| {
        let line = line.trim();
        if let Some(off) = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set")) {
            return Some((off.to_string(), "n".to_string()));
        }
        let (symbol, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        Some((symbol.to_string(), value.trim().to_string()))
    })
}

/// A setting, and why it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub symbol: String,
    pub value: String,
    pub why: String,
}

impl Setting {
    /// As .config has it.
    pub fn line(&self) -> String {
        match self.value.as_str() {
            "n" => format!("# CONFIG_{} is not set", self.symbol),
            value => format!("CONFIG_{}={value}", self.symbol),
        }
    }
}

/// Every setting of a fragment with its reason: the comment just above it, or the last one before.
pub fn reasoned(text: &str) -> Vec<Setting> {
    let mut why = String::new();
    let mut was_comment = false;
    let mut list = Vec::new();
    for line in text.lines() {
        match (settings(line).next(), line.trim().strip_prefix('#')) {
            (Some((symbol, value)), _) => {
                list.push(Setting { symbol, value, why: why.clone() });
                was_comment = false;
            }
            (None, Some(comment)) if was_comment => why = format!("{why} {}", comment.trim()),
            (None, Some(comment)) if !comment.contains("SPDX-License-Identifier") => {
                why = comment.trim().to_string();
                was_comment = true;
            }
            (None, _) => was_comment = false,
        }
    }
    list
}

/// One wish the kernel did not grant.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub symbol: String,
    pub wanted: String,
    pub got: String,
    pub fragment: String,
}

/// The wishes that the final .config does not have.
pub fn refusals(wishes: &Wishes, config: &str) -> Vec<Refusal> {
    let have: BTreeMap<String, String> = settings(config).collect();
    let mut refused = Vec::new();
    for (symbol, (wanted, fragment)) in wishes {
        let got = have.get(symbol).map_or("n", String::as_str);
        if got != wanted {
            refused.push(Refusal {
                symbol: symbol.clone(),
                wanted: wanted.clone(),
                got: got.to_string(),
                fragment: fragment.clone(),
            });
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_reason_above_it() {
        let text = "# SPDX-License-Identifier: x\n# Whole file.\n\n# one\n# two\nCONFIG_A=y\nCONFIG_B=n\n# three\n# CONFIG_C is not set\n";
        let said: Vec<String> =
            reasoned(text).iter().map(|r| format!("{}={} {}", r.symbol, r.value, r.why)).collect();
        assert_eq!(said, ["A=y one two", "B=n one two", "C=n three"]);
    }

    #[test]
    fn what_did_not_stick_is_named_with_its_fragment() {
        let mut wishes = Wishes::new();
        add_fragment(
            &mut wishes,
            "boot",
            "# why\nCONFIG_SMP=y\nCONFIG_NR_CPUS=64\nCONFIG_KVM=y\nCONFIG_GONE=n\n",
        );
        add_fragment(&mut wishes, "mm", "# CONFIG_KVM is not set\nCONFIG_ZRAM=y\nCONFIG_NAME=\"a b\"\n");
        let config = "CONFIG_SMP=y\nCONFIG_NR_CPUS=8\n# CONFIG_KVM is not set\nCONFIG_NAME=\"a b\"\n";
        let refused = refusals(&wishes, config);
        let short: Vec<(&str, &str, &str, &str)> = refused
            .iter()
            .map(|r| (r.symbol.as_str(), r.wanted.as_str(), r.got.as_str(), r.fragment.as_str()))
            .collect();
        assert_eq!(short, [("NR_CPUS", "64", "8", "boot"), ("ZRAM", "y", "n", "mm")]);
    }
}
