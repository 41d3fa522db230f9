// SPDX-License-Identifier: GPL-2.0-only
//! What the emulated TLBs are like: `--tlb SPEC`, a preset, settings, or a preset and settings.

use ceasefire_base::{Error, Result};
use ceasefire_results::schema;
use std::fmt;

/// The emulator takes more; no processor has them.
const ENTRIES_MAX: u64 = 65_536;
const WAYS_MAX: u64 = 64;
const PSC_MAX: u64 = 1024;
/// The emulator's own choice for the paging-structure cache.
const PSC_WAYS: u32 = 4;
/// A second: more would be no speculation at all.
const SPECULATION_US_MAX: u64 = 1_000_000;
const SEED_MAX: u64 = u32::MAX as u64;
const BROADCAST_PAGES_MAX: u64 = 64;

const PRESETS: &str = "stock, plain, hardware, adversary";
const KEYS: &str =
    "access-bit=ideal|dirty|denied, entries=N, ways=N, psc=N, speculation-us=N, seed=N, insert=on|off, \
     broadcast=off|early|late, broadcast-pages=N";

/// What `denied` was called until there was `dirty`.
const OLD_DENIED: &str = "intel";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// As QEMU is without our patches: no PCID, apart for user and kernel.
    Stock,
    /// PCID, and one translation for both modes; nothing that decides differently from one run to the next.
    Plain,
    /// What processors were seen to do, or are documented to do.
    Hardware,
    /// What the manuals leave open beside that, and no processor is known to do.
    Adversary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessBit {
    /// Set by the walk that fills the TLB.
    Ideal,
    /// And again with the dirty bit.
    Dirty,
    /// And by a walk that ends in a protection fault.
    Denied,
}

/// When an INVLPGB is done, which AMD's processors have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broadcast {
    /// There is none.
    Off,
    /// As soon as each vCPU can.
    Early,
    /// Not before TLBSYNC.
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlb {
    pub preset: Preset,
    pub access_bit: AccessBit,
    /// 0: so many that hardly any is ever evicted.
    pub entries: u32,
    pub ways: u32,
    /// Entries of the paging-structure cache; 0: there is none.
    pub psc: u32,
    /// Mean time between speculative walks of a vCPU; 0: it makes none.
    pub speculation_us: u32,
    pub seed: u32,
    /// The guest may put translations into the TLB without using them; no processor lets it.
    pub insert: bool,
    pub broadcast: Broadcast,
    /// How many pages one INVLPGB may name.
    pub broadcast_pages: u32,
}

impl Preset {
    fn parse(word: &str) -> Option<Preset> {
        let all = [Preset::Stock, Preset::Plain, Preset::Hardware, Preset::Adversary];
        all.into_iter().find(|preset| preset.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Stock => "stock",
            Preset::Plain => "plain",
            Preset::Hardware => "hardware",
            Preset::Adversary => "adversary",
        }
    }
}

impl AccessBit {
    const ALL: [AccessBit; 3] = [AccessBit::Ideal, AccessBit::Dirty, AccessBit::Denied];

    pub fn as_str(self) -> &'static str {
        match self {
            AccessBit::Ideal => "ideal",
            AccessBit::Dirty => "dirty",
            AccessBit::Denied => "denied",
        }
    }
}

impl Broadcast {
    const ALL: [Broadcast; 3] = [Broadcast::Off, Broadcast::Early, Broadcast::Late];

    pub fn as_str(self) -> &'static str {
        match self {
            Broadcast::Off => "off",
            Broadcast::Early => "early",
            Broadcast::Late => "late",
        }
    }
}

impl From<Preset> for Tlb {
    fn from(preset: Preset) -> Tlb {
        let plain = Tlb {
            preset,
            access_bit: AccessBit::Ideal,
            entries: 0,
            ways: 8,
            psc: 0,
            speculation_us: 0,
            seed: 1,
            insert: false,
            broadcast: Broadcast::Off,
            broadcast_pages: 8,
        };
        match preset {
            Preset::Stock | Preset::Plain => plain,
            // 1,536 entries of 12 ways: the second-level TLB of Intel's Skylake and its successors.
            Preset::Hardware => Tlb {
                access_bit: AccessBit::Dirty,
                entries: 1536,
                ways: 12,
                psc: 64,
                speculation_us: 100,
                ..plain
            },
            Preset::Adversary => Tlb { preset, access_bit: AccessBit::Denied, ..Preset::Hardware.into() },
        }
    }
}

impl Default for Tlb {
    fn default() -> Tlb {
        Preset::Plain.into()
    }
}

impl Tlb {
    /// `[PRESET][,KEY=VALUE…]`; settings without a preset change `plain`.
    pub fn parse(spec: &str) -> Result<Tlb> {
        let mut words = spec.split(',').peekable();
        let mut tlb = Tlb::default();
        if let Some(first) = words.next_if(|word| !word.contains('=')) {
            tlb = Preset::parse(first).map(Tlb::from).ok_or_else(|| {
                Error::usage(format!("--tlb has no preset '{first}'"))
                    .remedy(format!("presets: {PRESETS}; settings: {KEYS}"))
            })?;
        }
        let mut seen: Vec<&str> = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                Error::usage(format!("'{word}' is no setting of --tlb"))
                    .remedy(format!("write the preset first, then settings: {KEYS}"))
            })?;
            if tlb.preset == Preset::Stock {
                return Err(Error::usage(format!("--tlb stock has no TLB that {key} could change")).remedy(
                    "write --tlb plain, hardware or adversary before the settings, or leave them out",
                ));
            }
            if seen.contains(&key) {
                return Err(Error::usage(format!("--tlb sets {key} twice")).remedy("keep one of the two"));
            }
            tlb.set(key, value)?;
            seen.push(key);
        }
        tlb.check()?;
        Ok(tlb)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "access-bit" if value == OLD_DENIED => {
                return Err(Error::usage(format!("--tlb {key}={value} is called {key}=denied now")).remedy(
                    format!("choose {key}=denied, or {key}=dirty as on the processors that were asked"),
                ))
            }
            "access-bit" => {
                self.access_bit = word(key, value, &AccessBit::ALL.map(|bit| (bit.as_str(), bit)))?
            }
            "entries" => self.entries = number(key, value, 0, ENTRIES_MAX)?,
            "ways" => self.ways = number(key, value, 1, WAYS_MAX)?,
            "psc" => self.psc = number(key, value, 0, PSC_MAX)?,
            "speculation-us" => self.speculation_us = number(key, value, 0, SPECULATION_US_MAX)?,
            "seed" => self.seed = number(key, value, 0, SEED_MAX)?,
            "insert" => self.insert = word(key, value, &[("on", true), ("off", false)])?,
            "broadcast" => {
                self.broadcast = word(key, value, &Broadcast::ALL.map(|when| (when.as_str(), when)))?
            }
            "broadcast-pages" => self.broadcast_pages = number(key, value, 1, BROADCAST_PAGES_MAX)?,
            _ => {
                return Err(
                    Error::usage(format!("--tlb has no setting '{key}'")).remedy(format!("settings: {KEYS}"))
                )
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let has_sets = |entries: u32, ways: u32| entries % ways == 0 && (entries / ways).is_power_of_two();
        if self.entries != 0 && !has_sets(self.entries, self.ways) {
            return Err(Error::usage(format!(
                "a TLB of {} entries in sets of {} ways has no power of two of sets",
                self.entries, self.ways
            ))
            .remedy("for example entries=64,ways=4, or entries=0 for a TLB that hardly ever evicts"));
        }
        if self.psc != 0 && !has_sets(self.psc, self.psc.min(PSC_WAYS)) {
            return Err(Error::usage(format!("a paging-structure cache cannot have {} entries", self.psc))
                .remedy(format!("choose psc as 1 to {PSC_WAYS}, or {PSC_WAYS} times a power of two")));
        }
        Ok(())
    }

    /// What follows the CPU's name in `-cpu`. The oracle is on wherever there is a model to ask.
    pub fn cpu_flags(&self) -> String {
        if !self.is_modelled() {
            return "-pcid,-invpcid,tlb-model=off".into();
        }
        let mut text = format!("tlb-model=on,tlb-oracle=on,tlb-access-bit={}", self.access_bit.as_str());
        if self.entries > 0 {
            text += &format!(",tlb-entries={},tlb-ways={}", self.entries, self.ways);
        }
        if self.psc > 0 {
            text += &format!(",tlb-psc={}", self.psc);
        }
        if self.speculation_us > 0 {
            text += &format!(",tlb-speculation-us={},tlb-seed={}", self.speculation_us, self.seed);
        }
        if self.insert {
            text += ",tlb-insert=on";
        }
        if self.has_broadcast() {
            text += &format!(
                ",invlpgb=on,tlb-broadcast={},tlb-broadcast-pages={}",
                self.broadcast.as_str(),
                self.broadcast_pages
            );
        }
        text
    }

    /// There is something that counts.
    pub fn is_modelled(&self) -> bool {
        self.preset != Preset::Stock
    }

    /// The CPU announces INVLPGB.
    fn has_broadcast(&self) -> bool {
        self.broadcast != Broadcast::Off
    }

    /// The same for a results file.
    pub fn record(&self) -> schema::Tlb {
        let is_modelled = self.is_modelled();
        let is_bounded = is_modelled && self.entries > 0;
        schema::Tlb {
            spec: self.to_string(),
            model: is_modelled,
            oracle: is_modelled,
            access_bit: is_modelled.then(|| self.access_bit.as_str().to_string()),
            entries: is_modelled.then_some(self.entries),
            ways: is_bounded.then_some(self.ways),
            psc: is_modelled.then_some(self.psc),
            speculation_us: is_modelled.then_some(self.speculation_us),
            seed: (self.speculation_us > 0).then_some(self.seed),
            insert: is_modelled.then_some(self.insert),
            broadcast: self.has_broadcast().then(|| self.broadcast.as_str().to_string()),
            broadcast_pages: self.has_broadcast().then_some(self.broadcast_pages),
        }
    }
}

/// As it would be typed: the preset, and what differs from it.
impl fmt::Display for Tlb {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let preset = Tlb::from(self.preset);
        write!(formatter, "{}", self.preset.as_str())?;
        if self.access_bit != preset.access_bit {
            write!(formatter, ",access-bit={}", self.access_bit.as_str())?;
        }
        for (key, mine, usual) in [
            ("entries", self.entries, preset.entries),
            ("ways", self.ways, preset.ways),
            ("psc", self.psc, preset.psc),
            ("speculation-us", self.speculation_us, preset.speculation_us),
            ("seed", self.seed, preset.seed),
        ] {
            if mine != usual {
                write!(formatter, ",{key}={mine}")?;
            }
        }
        if self.insert != preset.insert {
            write!(formatter, ",insert={}", if self.insert { "on" } else { "off" })?;
        }
        if self.broadcast != preset.broadcast {
            write!(formatter, ",broadcast={}", self.broadcast.as_str())?;
        }
        if self.broadcast_pages != preset.broadcast_pages {
            write!(formatter, ",broadcast-pages={}", self.broadcast_pages)?;
        }
        Ok(())
    }
}

fn word<T: Copy>(key: &str, value: &str, of: &[(&str, T)]) -> Result<T> {
    of.iter().find(|(name, _)| *name == value).map(|(_, found)| *found).ok_or_else(|| {
        let all: Vec<String> = of.iter().map(|(name, _)| format!("{key}={name}")).collect();
        Error::usage(format!("--tlb {key} cannot be '{value}'"))
            .remedy(format!("choose {}", all.join(" or ")))
    })
}

fn number(key: &str, value: &str, least: u64, most: u64) -> Result<u32> {
    // Not `parse` alone: it takes "+5".
    let is_digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<u64>().ok().filter(|number| is_digits && (least..=most).contains(number));
    number.and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
        Error::usage(format!("--tlb {key} cannot be '{value}'"))
            .remedy(format!("choose {key} between {least} and {most}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    #[test]
    fn presets_and_settings_reach_the_cpu() {
        for (spec, flags) in [
            ("stock", "-pcid,-invpcid,tlb-model=off"),
            ("plain", "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal"),
            (
                "hardware",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=dirty,tlb-entries=1536,tlb-ways=12,tlb-psc=64,\
                 tlb-speculation-us=100,tlb-seed=1",
            ),
            (
                "hardware,speculation-us=0,entries=64,ways=4",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=dirty,tlb-entries=64,tlb-ways=4,tlb-psc=64",
            ),
            (
                "adversary",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=denied,tlb-entries=1536,tlb-ways=12,tlb-psc=64,\
                 tlb-speculation-us=100,tlb-seed=1",
            ),
            (
                "adversary,speculation-us=0",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=denied,tlb-entries=1536,tlb-ways=12,tlb-psc=64",
            ),
            ("psc=16", "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,tlb-psc=16"),
            ("plain,access-bit=dirty", "tlb-model=on,tlb-oracle=on,tlb-access-bit=dirty"),
            ("plain,access-bit=denied", "tlb-model=on,tlb-oracle=on,tlb-access-bit=denied"),
            ("insert=on", "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,tlb-insert=on"),
            ("insert=off", "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal"),
            (
                "hardware,insert=on,speculation-us=0",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=dirty,tlb-entries=1536,tlb-ways=12,tlb-psc=64,\
                 tlb-insert=on",
            ),
            (
                "broadcast=early",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,invlpgb=on,tlb-broadcast=early,\
                 tlb-broadcast-pages=8",
            ),
            (
                "insert=on,broadcast=late,broadcast-pages=64",
                "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,tlb-insert=on,invlpgb=on,tlb-broadcast=late,\
                 tlb-broadcast-pages=64",
            ),
            ("broadcast=off,broadcast-pages=4", "tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal"),
        ] {
            assert_eq!(Tlb::parse(spec).expect(spec).cpu_flags(), flags, "{spec}");
        }
        assert_eq!(Tlb::parse("plain").expect("plain"), Tlb::default());
    }

    #[test]
    fn a_spec_is_written_as_it_would_be_typed() {
        for (spec, written) in [
            ("plain", "plain"),
            ("entries=0", "plain"),
            ("hardware,seed=7", "hardware,seed=7"),
            ("insert=on,seed=7", "plain,seed=7,insert=on"),
            ("hardware,insert=off", "hardware"),
            ("broadcast=early", "plain,broadcast=early"),
            ("hardware,broadcast-pages=8,broadcast=late,insert=on", "hardware,insert=on,broadcast=late"),
            ("broadcast-pages=1,broadcast=late", "plain,broadcast=late,broadcast-pages=1"),
            ("adversary,broadcast=off", "adversary"),
            ("hardware,ways=12,psc=0,access-bit=ideal", "hardware,access-bit=ideal,psc=0"),
            ("hardware,access-bit=dirty", "hardware"),
            ("adversary,speculation-us=0", "adversary,speculation-us=0"),
            ("adversary,access-bit=denied,seed=1", "adversary"),
        ] {
            let tlb = Tlb::parse(spec).expect(spec);
            assert_eq!(tlb.to_string(), written, "{spec}");
            assert_eq!(Tlb::parse(written).expect(written), tlb, "{written} means the same");
        }
    }

    #[test]
    fn bad_specs_are_usage_errors_with_a_remedy() {
        for spec in [
            "",
            ",",
            "plain,",
            "fast",
            "Plain",
            "plain,hardware",
            "psc=1,plain",
            "stock,psc=1",
            "access-bit=amd",
            "access-bit=intel",
            "adversary,access-bit=intel",
            "plain,adversary",
            "access-bit=",
            "entries",
            "entries=",
            "entries=-1",
            "entries=+8",
            "entries=1.5",
            "entries=65537",
            "entries=99999999999999999999",
            "ways=0",
            "ways=65",
            "entries=100,ways=12",
            "entries=36,ways=12",
            "psc=24",
            "hardware,ways=7",
            "psc=1025",
            "speculation-us=1000001",
            "seed=4294967296",
            "psc=1,psc=2",
            "insert",
            "insert=",
            "insert=1",
            "insert=On",
            "insert=on,insert=on",
            "stock,insert=on",
            "broadcast",
            "broadcast=",
            "broadcast=on",
            "broadcast=Late",
            "broadcast=early,broadcast=late",
            "broadcast-pages=0",
            "broadcast-pages=65",
            "stock,broadcast=early",
            "colour=red",
            "entries=8 ",
        ] {
            let error = Tlb::parse(spec).expect_err(spec);
            assert_eq!(error.kind, Kind::Usage, "{spec}");
            assert!(error.remedy.is_some(), "{spec}: no remedy");
        }
    }

    #[test]
    fn the_old_name_of_denied_is_refused_in_one_sentence_that_names_the_new_one() {
        let error = Tlb::parse("plain,access-bit=intel").expect_err("an old name");
        assert_eq!(error.message, "--tlb access-bit=intel is called access-bit=denied now");
    }

    #[test]
    fn results_say_what_a_tlb_has_and_leave_out_what_it_lacks() {
        let stock = Tlb::from(Preset::Stock).record();
        assert!(!stock.model && !stock.oracle && stock.access_bit.is_none() && stock.entries.is_none());
        assert_eq!(stock.insert, None);
        let plain = Tlb::default().record();
        assert!(plain.model && plain.oracle && plain.ways.is_none() && plain.seed.is_none());
        assert_eq!((plain.entries, plain.psc, plain.speculation_us), (Some(0), Some(0), Some(0)));
        let hardware = Tlb::from(Preset::Hardware).record();
        assert_eq!((hardware.entries, hardware.ways, hardware.seed), (Some(1536), Some(12), Some(1)));
        assert_eq!((hardware.access_bit.as_deref(), hardware.insert), (Some("dirty"), Some(false)));
        let adversary = Tlb::from(Preset::Adversary).record();
        assert_eq!((adversary.spec.as_str(), adversary.access_bit.as_deref()), ("adversary", Some("denied")));
        let but_for_names =
            schema::Tlb { spec: hardware.spec.clone(), access_bit: hardware.access_bit.clone(), ..adversary };
        assert_eq!(but_for_names, hardware);
        assert_eq!(Tlb::parse("insert=on").expect("a setting").record().insert, Some(true));
        assert_eq!((&plain.broadcast, plain.broadcast_pages), (&None, None));
        let late = Tlb::parse("broadcast=late,broadcast-pages=4").expect("settings").record();
        assert_eq!((late.broadcast.as_deref(), late.broadcast_pages), (Some("late"), Some(4)));
        assert_eq!(Tlb::parse("broadcast-pages=4").expect("a setting").record().broadcast_pages, None);
    }
}
