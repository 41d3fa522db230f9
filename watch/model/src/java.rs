// SPDX-License-Identifier: GPL-2.0-only
//! What a JVM was told, from its command and its environment (java(1); JDK-8170832 for the order of variables).

/// Variables that a JVM reads options from, the earlier first; the command stands before the last of them.
pub const VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// In the order in which the JVM reads them; the last one wins. `arguments`: without the program's name.
pub fn options<'a>(variable: impl Fn(&str) -> Option<&'a str>, arguments: &[String]) -> Vec<String> {
    let of = |name: &str| -> Vec<String> {
        variable(name).unwrap_or_default().split_whitespace().map(str::to_string).collect()
    };
    let [tool, launcher, last] = VARIABLES;
    [of(tool), of(launcher), own(arguments), of(last)].concat()
}

/// What follows the class, the module or the jar is the application's.
fn own(arguments: &[String]) -> Vec<String> {
    let mut own = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with(['-', '@'])) {
        match word.as_str() {
            "-m" | "--module" => break,
            word if WITH_VALUE.contains(&word) => drop(words.next()),
            word => own.push(word.to_string()),
        }
    }
    own
}

/// Options of java(1) whose value is a word of its own.
const WITH_VALUE: [&str; 13] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--patch-module",
    "--enable-native-access",
];

/// The largest heap, where it is given.
pub fn heap(options: &[String]) -> Option<&str> {
    options.iter().rev().find_map(|word| word.strip_prefix("-Xmx"))
}

/// The collector that is asked for by name; None where the JVM chooses.
pub fn collector(options: &[String]) -> Option<&'static str> {
    let flags = [
        ("Serial", "Serial"),
        ("Parallel", "Parallel"),
        ("G1", "G1"),
        ("Z", "ZGC"),
        ("Shenandoah", "Shenandoah"),
    ];
    options.iter().rev().find_map(|word| {
        let flag = word.strip_prefix("-XX:+Use")?.strip_suffix("GC")?;
        flags.iter().find(|(name, _)| *name == flag).map(|(_, collector)| *collector)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_application_is_given_is_not_the_jvms() {
        let heap_of = |line: &str, last: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_string).collect();
            let options = options(|name| (name == "_JAVA_OPTIONS").then_some(last), &arguments);
            heap(&options).map(str::to_string)
        };
        assert_eq!(heap_of("-jar app.jar -Xmx9g", ""), None);
        assert_eq!(heap_of("-jar -Xmx1g app.jar -Xmx9g", ""), Some("1g".into()));
        assert_eq!(heap_of("-cp a:b -Xmx2g Main -Xmx9g", ""), Some("2g".into()));
        assert_eq!(heap_of("@options -p mods -Xmx3g -m m/Main -Xmx9g", ""), Some("3g".into()));
        assert_eq!(heap_of("-Xmx2g Main", "-Xmx4g"), Some("4g".into()), "it comes last");
    }

    #[test]
    fn the_collector_is_the_last_that_is_named() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            collector(&words)
        };
        assert_eq!(of("-XX:+UseG1GC -XX:+UseZGC -XX:+UseStringDeduplication"), Some("ZGC"));
        assert_eq!(of("-Xmx1g"), None);
    }
}
