// SPDX-License-Identifier: GPL-2.0-only
//! The configuration of a machine that exists: read, judged, and what is changed in it, each with its reason.

use crate::kconfig::{self, Setting};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A configuration is some 300 KB; this is none.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Source, image and headers; and, estimated, each symbol's objects without and with debug information.
const SPACE_BASE_MIB: u64 = 3000;
const SPACE_SYMBOL_KIB: u64 = 900;
const SPACE_SYMBOL_DEBUG_KIB: u64 = 4000;
const SIGNING_KEY: &str = "\"certs/signing_key.pem\"";

/// The configuration to start from.
pub(super) struct Configuration {
    pub name: String,
    pub text: String,
    pub values: BTreeMap<String, String>,
}

impl Configuration {
    pub fn read(path: Option<&Path>) -> Result<Configuration> {
        match path {
            Some(path) => Self::of_file(path),
            None => Self::of_running_kernel(),
        }
    }

    fn of_file(path: &Path) -> Result<Configuration> {
        let name = path.display().to_string();
        let remedy = "give a kernel's .config, for example CONFIG=/boot/config-$(uname -r)";
        let unusable = |why: &str| Error::usage(format!("cannot use {name}: {why}")).remedy(remedy);
        let meta = fs::metadata(path).map_err(|error| unusable(&disk::reason(&error)))?;
        if !meta.is_file() || meta.len() > CONFIG_BYTES_MAX {
            return Err(unusable("it is not a file of a configuration's size"));
        }
        let text = fs::read_to_string(path).map_err(|error| unusable(&disk::reason(&error)))?;
        Self::check(name, text).map_err(|error| error.remedy(remedy))
    }

    /// Where distributions leave it, or what the kernel itself tells.
    fn of_running_kernel() -> Result<Configuration> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let path = PathBuf::from(format!("/boot/config-{}", release.trim()));
        if path.is_file() {
            return Self::of_file(&path);
        }
        let own = Path::new("/proc/config.gz");
        if own.is_file() {
            let text = exec::read(&Command::new("gzip").arg("-dc").arg(own))?;
            return Self::check(own.display().to_string(), text);
        }
        Err(Error::skip(format!(
            "the running kernel's configuration is not there: neither {} nor {}",
            path.display(),
            own.display()
        ))
        .remedy("name one: make kernel-deb CONFIG=FILE"))
    }

    fn check(name: String, text: String) -> Result<Configuration> {
        let values: BTreeMap<String, String> = kconfig::settings(&text).collect();
        let is_on = |symbol: &str| values.get(symbol).is_some_and(|value| value == "y");
        if values.is_empty() {
            return Err(Error::usage(format!(
                "{name} is no kernel configuration: no line sets a CONFIG_ symbol"
            ))
            .remedy("give a kernel's .config"));
        }
        if !is_on("X86_64") {
            return Err(Error::usage(format!(
                "{name} is the configuration of another machine: it has no CONFIG_X86_64=y"
            ))
            .remedy("give one of an x86-64 kernel"));
        }
        if !is_on("SMP") {
            return Err(Error::usage(format!("{name} is for one CPU: it has no CONFIG_SMP=y"))
                .remedy("give one with CONFIG_SMP=y: one CPU has nobody to interrupt"));
        }
        Ok(Configuration { name, text, values })
    }
}

/// What a distribution's configuration names and this source has not, and what the packages do without.
pub(super) fn adjustments(config: &BTreeMap<String, String>, has_pahole: bool, local: &str) -> Vec<Setting> {
    let mut list = Vec::new();
    let mut set = |symbol: &str, value: &str, why: &str| {
        list.push(Setting { symbol: symbol.into(), value: value.into(), why: why.into() })
    };
    let get = |symbol: &str| config.get(symbol).map(String::as_str).unwrap_or("n");
    set(
        "LOCALVERSION",
        &format!("\"{local}\""),
        "the kernel's name says what it is, and stands beside the distribution's",
    );
    set("LOCALVERSION_AUTO", "n", "and nothing else");
    for symbol in ["SYSTEM_TRUSTED_KEYS", "SYSTEM_REVOCATION_KEYS", "SYSTEM_BLACKLIST_HASH_LIST"] {
        if !["n", "\"\""].contains(&get(symbol)) {
            set(symbol, "\"\"", "the distribution's certificates are not in this source");
        }
    }
    if get("MODULE_SIG") == "y" {
        if get("MODULE_SIG_KEY") != SIGNING_KEY {
            set(
                "MODULE_SIG_KEY",
                SIGNING_KEY,
                "the distribution's key is its own: one is made for this build, and goes with it",
            );
        }
        if get("MODULE_SIG_ALL") != "y" {
            set(
                "MODULE_SIG_ALL",
                "y",
                "modules are signed as they are installed, since nobody signs them later",
            );
        }
    }
    if has_debug_info(config, has_pahole) {
        return list;
    }
    if get("DEBUG_INFO_BTF") == "y" {
        set(
            "DEBUG_INFO_BTF",
            "n",
            "pahole is not installed (package dwarves): no type information, so no `ceasefire watch` there",
        );
    }
    const CHOICES: [&str; 3] =
        ["DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "DEBUG_INFO_DWARF4", "DEBUG_INFO_DWARF5"];
    for symbol in CHOICES.into_iter().filter(|symbol| get(symbol) == "y") {
        set(symbol, "n", "no debug packages are made, and without it the build takes a quarter of the space");
    }
    if get("DEBUG_INFO_NONE") != "y" {
        set("DEBUG_INFO_NONE", "y", "likewise");
    }
    list
}

/// Kept where type information (BTF) is made of it.
fn has_debug_info(config: &BTreeMap<String, String>, has_pahole: bool) -> bool {
    has_pahole && config.get("DEBUG_INFO_BTF").is_some_and(|value| value == "y")
}

/// Estimated by the number of symbols that are on.
pub(super) fn space_mib(config: &BTreeMap<String, String>, has_pahole: bool) -> u64 {
    let symbols = config.values().filter(|value| ["y", "m"].contains(&value.as_str())).count() as u64;
    let each = if has_debug_info(config, has_pahole) { SPACE_SYMBOL_DEBUG_KIB } else { SPACE_SYMBOL_KIB };
    SPACE_BASE_MIB + symbols * each / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    fn values(text: &str) -> BTreeMap<String, String> {
        kconfig::settings(text).collect()
    }

    fn lines(config: &str, has_pahole: bool) -> Vec<String> {
        let list = adjustments(&values(config), has_pahole, "-ceasefire-0123abc");
        assert!(list.iter().all(|setting| !setting.why.is_empty()));
        list.iter().map(Setting::line).collect()
    }

    const NAME: [&str; 2] =
        ["CONFIG_LOCALVERSION=\"-ceasefire-0123abc\"", "# CONFIG_LOCALVERSION_AUTO is not set"];

    #[test]
    fn a_small_configuration_is_left_alone_but_for_its_name() {
        assert_eq!(
            lines("CONFIG_X86_64=y\nCONFIG_DEBUG_INFO_NONE=y\nCONFIG_SYSTEM_TRUSTED_KEYS=\"\"\n", true),
            NAME
        );
        assert_eq!(lines("CONFIG_DEBUG_INFO_NONE=y\nCONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_ALL=y\nCONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\n", false), NAME);
    }

    /// Debian 12 and Ubuntu 24.04, as their configurations have these lines.
    #[test]
    fn keys_of_a_distribution_are_not_asked_for() {
        let debian = "CONFIG_MODULE_SIG=y\n# CONFIG_MODULE_SIG_ALL is not set\nCONFIG_MODULE_SIG_KEY=\"\"\n\
                      CONFIG_SYSTEM_TRUSTED_KEYS=\"\"\nCONFIG_DEBUG_INFO_NONE=y\n";
        let said = lines(debian, true);
        assert_eq!(said[2..], ["CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"", "CONFIG_MODULE_SIG_ALL=y"]);
        let ubuntu =
            "CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_ALL=y\nCONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\n\
                      CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/canonical-certs.pem\"\nCONFIG_DEBUG_INFO_NONE=y\n\
                      CONFIG_SYSTEM_REVOCATION_KEYS=\"debian/canonical-revoked-certs.pem\"\n";
        let said = lines(ubuntu, true);
        assert_eq!(said[2..], ["CONFIG_SYSTEM_TRUSTED_KEYS=\"\"", "CONFIG_SYSTEM_REVOCATION_KEYS=\"\""]);
    }

    #[test]
    fn debug_information_stays_where_type_information_is_made_of_it() {
        let with_types = "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y\nCONFIG_DEBUG_INFO_BTF=y\n";
        assert_eq!(lines(with_types, true), NAME);
        assert_eq!(
            lines(with_types, false)[2..],
            [
                "# CONFIG_DEBUG_INFO_BTF is not set",
                "# CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT is not set",
                "CONFIG_DEBUG_INFO_NONE=y"
            ]
        );
        let without = "CONFIG_DEBUG_INFO_DWARF5=y\n# CONFIG_DEBUG_INFO_BTF is not set\n";
        assert_eq!(
            lines(without, true)[2..],
            ["# CONFIG_DEBUG_INFO_DWARF5 is not set", "CONFIG_DEBUG_INFO_NONE=y"]
        );
    }

    #[test]
    fn what_is_no_configuration_of_such_a_machine_is_refused() {
        let refused = |text: &str| Configuration::check("file".into(), text.into()).err().expect("refused");
        for (text, fragment) in [
            ("hello\n", "no kernel configuration"),
            ("CONFIG_ARM64=y\nCONFIG_SMP=y\n", "another machine"),
            ("# CONFIG_X86_64 is not set\nCONFIG_X86_32=y\n", "another machine"),
            ("CONFIG_X86_64=y\n# CONFIG_SMP is not set\n", "for one CPU"),
        ] {
            let error = refused(text);
            assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
            assert_eq!(error.kind, Kind::Usage);
        }
        assert!(Configuration::check("file".into(), "CONFIG_X86_64=y\nCONFIG_SMP=y\n".into()).is_ok());
        for path in ["/no/such/config", "/", "/dev/zero"] {
            let error = Configuration::read(Some(Path::new(path))).err().expect("refused");
            assert!(error.kind == Kind::Usage && error.remedy.is_some(), "{error:?}");
        }
    }

    #[test]
    fn space_follows_the_configuration() {
        let small = values("CONFIG_A=y\nCONFIG_KERNEL_ZSTD=y\n# CONFIG_IKHEADERS is not set\n");
        let many: String = (0..8000).map(|n| format!("CONFIG_S{n}=m\n")).collect();
        let typed = values(&format!("{many}CONFIG_DEBUG_INFO_BTF=y\n"));
        assert_eq!(space_mib(&small, true), SPACE_BASE_MIB + 1);
        assert!(space_mib(&typed, false) > 9000 && space_mib(&typed, true) > 30_000);
    }
}
