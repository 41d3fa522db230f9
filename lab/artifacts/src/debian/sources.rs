// SPDX-License-Identifier: GPL-2.0-only
//! The machine's own package sources, read in both of apt's forms, and a private list made from them that has
//! source packages too. Only Debian's own suites are taken: other vendors have nothing we want. Ours: the few
//! fields that we need.

/// One entry: what deb822 calls a stanza.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// Signed-By and its like, under their deb822 names; values may have several lines.
    pub options: Vec<(String, String)>,
}

/// One-line options and their deb822 names.
const OPTIONS: [(&str, &str); 10] = [
    ("arch", "Architectures"),
    ("signed-by", "Signed-By"),
    ("trusted", "Trusted"),
    ("allow-insecure", "Allow-Insecure"),
    ("allow-weak", "Allow-Weak"),
    ("check-valid-until", "Check-Valid-Until"),
    ("valid-until-max", "Valid-Until-Max"),
    ("check-date", "Check-Date"),
    ("by-hash", "By-Hash"),
    ("inrelease-path", "InRelease-Path"),
];

const SUITES_ANY_RELEASE: [&str; 6] = ["stable", "oldstable", "oldoldstable", "testing", "unstable", "sid"];

/// The `deb` entries of a one-line file (*.list).
pub fn parse_list(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let rest =
        line.strip_prefix("deb").filter(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '['))?;
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_string);
    let uri = words.next().filter(|uri| uri.contains(':'))?;
    let suite = words.next()?;
    let mut source =
        Source { uris: vec![uri], suites: vec![suite], components: words.collect(), ..Source::default() };
    for option in options.split_whitespace() {
        let Some((name, value)) = option.split_once('=') else { continue };
        let known = OPTIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
        if let Some((_, long)) = known {
            // Several values are joined by commas here and by spaces there.
            source.options.push((long.to_string(), value.trim_matches('"').replace(',', " ")));
        }
    }
    Some(source)
}

/// The enabled `deb` stanzas of a deb822 file (*.sources).
pub fn parse_deb822(text: &str) -> Vec<Source> {
    let mut stanzas: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines() {
        let Some(fields) = stanzas.last_mut() else { break };
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_string(), value.trim().to_string()));
        }
    }
    stanzas.iter().filter_map(|fields| stanza(fields)).collect()
}

fn stanza(fields: &[(String, String)]) -> Option<Source> {
    let find = |name: &str| {
        fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let words = |name: &str| -> Vec<String> {
        find(name).map(|value| value.split_whitespace().map(str::to_string).collect()).unwrap_or_default()
    };
    let is_off = find("Enabled")
        .is_some_and(|value| ["no", "false", "off", "0"].contains(&value.to_lowercase().as_str()));
    let source = Source {
        uris: words("URIs"),
        suites: words("Suites"),
        components: words("Components"),
        options: OPTIONS
            .iter()
            .filter_map(|(_, long)| find(long).map(|value| (long.to_string(), value.clone())))
            .collect(),
    };
    let is_usable = words("Types").iter().any(|kind| kind == "deb")
        && !is_off
        && !source.uris.is_empty()
        && !source.suites.is_empty();
    is_usable.then_some(source)
}

/// Only what Debian itself publishes: its suites, component main, not from a CD.
pub fn debians_own(sources: &[Source], codename: &str) -> Vec<Source> {
    let is_ours = |suite: &String| {
        let base = suite.split(['-', '/']).next().unwrap_or_default();
        (!codename.is_empty() && base == codename) || SUITES_ANY_RELEASE.contains(&base)
    };
    let mut kept: Vec<Source> = Vec::new();
    for source in sources {
        let source = Source {
            uris: source.uris.iter().filter(|uri| !uri.starts_with("cdrom:")).cloned().collect(),
            suites: source.suites.iter().filter(|suite| is_ours(suite)).cloned().collect(),
            components: source.components.iter().filter(|component| *component == "main").cloned().collect(),
            options: source.options.clone(),
        };
        let is_empty = source.uris.is_empty() || source.suites.is_empty() || source.components.is_empty();
        if !is_empty && !kept.contains(&source) {
            kept.push(source);
        }
    }
    kept
}

/// Another suite of Debian, from where this release's main suite comes. Its keyring has to know that suite's key.
pub fn of_suite(own: &[Source], suite: &str) -> Vec<Source> {
    // Security updates come from a place of their own, which has no other suites.
    let is_main = |source: &&Source| source.suites.iter().any(|own| !own.contains(['-', '/']));
    let main = own.iter().filter(is_main).take(1);
    main.map(|source| Source { suites: vec![suite.to_string()], ..source.clone() }).collect()
}

/// The private list: the same sources, binary and source packages.
pub fn render(sources: &[Source]) -> String {
    let mut text = String::new();
    for source in sources {
        text += "Types: deb deb-src\n";
        text += &format!("URIs: {}\n", source.uris.join(" "));
        text += &format!("Suites: {}\n", source.suites.join(" "));
        text += &format!("Components: {}\n", source.components.join(" "));
        for (name, value) in &source.options {
            text += &format!("{name}: {value}\n");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
