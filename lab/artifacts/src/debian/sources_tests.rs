// SPDX-License-Identifier: GPL-2.0-only
//! Are the machine's package sources understood in every form apt allows?

use super::*;

fn source(uri: &str, suites: &[&str], components: &[&str], options: &[(&str, &str)]) -> Source {
    let own = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    Source {
        uris: vec![uri.to_string()],
        suites: own(suites),
        components: own(components),
        options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    }
}

#[test]
fn one_line_entries() {
    let uri = "http://mirror.example/debian";
    let plain = Some(source(uri, &["bookworm"], &["main"], &[]));
    let table = [
        ("deb http://mirror.example/debian bookworm main", plain.clone()),
        ("  deb\thttp://mirror.example/debian   bookworm\tmain  # comment", plain.clone()),
        ("deb [] http://mirror.example/debian bookworm main", plain),
        (
            "deb [ arch=amd64,i386 signed-by=/usr/share/keyrings/k.gpg ] http://mirror.example/debian bookworm main contrib",
            Some(source(uri, &["bookworm"], &["main", "contrib"], &[("Architectures", "amd64 i386"), ("Signed-By", "/usr/share/keyrings/k.gpg")])),
        ),
        (
            "deb [trusted=yes lang=none] http://mirror.example/debian bookworm main",
            Some(source(uri, &["bookworm"], &["main"], &[("Trusted", "yes")])),
        ),
        ("deb http://mirror.example/flat ./", Some(source("http://mirror.example/flat", &["./"], &[], &[]))),
        ("deb-src http://mirror.example/debian bookworm main", None),
        ("# deb http://mirror.example/debian bookworm main", None),
        ("debs http://mirror.example/debian bookworm main", None),
        ("deb [signed-by=/k http://mirror.example/debian bookworm main", None),
        ("deb http://mirror.example/debian", None),
        ("deb bookworm main", None),
        ("deb", None),
        ("", None),
        ("]deb[", None),
        ("rpm http://mirror.example/debian bookworm main", None),
    ];
    for (line, expected) in table {
        assert_eq!(parse_list(line), expected.into_iter().collect::<Vec<_>>(), "{line:?}");
    }
}

#[test]
fn deb822_stanzas() {
    let text = "\
# a comment
Types: deb
# one inside
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg


types: deb deb-src
uris: http://mirror.example/debian-security
suites: bookworm-security
components: main
 non-free-firmware
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/off
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Types: deb
Suites: bookworm

continued nothing
 here";
    let sources = parse_deb822(text);
    assert_eq!(sources.len(), 2, "{sources:?}");
    assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
    assert_eq!(sources[1].components, ["main", "non-free-firmware"]);
    let key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----";
    assert_eq!(sources[1].options, [("Signed-By".to_string(), key.to_string())]);
    assert!(parse_deb822("").is_empty());
}

#[test]
fn what_is_written_reads_back_with_sources_added() {
    let sources = parse_list("deb [signed-by=/k.gpg] http://mirror.example/debian bookworm main\n");
    let text = render(&sources);
    assert!(text.starts_with("Types: deb deb-src\n"));
    assert_eq!(parse_deb822(&text), sources);
    let with_key =
        [source("http://m.example/d", &["sid"], &["main"], &[("Signed-By", "\n BEGIN\n .\n END")])];
    assert_eq!(parse_deb822(&render(&with_key)), with_key);
}

#[test]
fn other_vendors_and_cds_are_left_out() {
    let text = "\
deb http://mirror.example/debian bookworm main contrib
deb http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
deb http://mirror.example/debian-security bookworm/updates main
deb http://mirror.example/debian stable-updates main
deb cdrom:[Debian]/ bookworm main
deb https://vendor.example/apt cloud-sdk-bookworm main
deb https://vendor.example/node nodistro main
deb https://vendor.example/debian bookworm stable
deb https://vendor.example/flat ./";
    let kept = debians_own(&parse_list(text), "bookworm");
    let suites: Vec<&str> = kept.iter().map(|source| source.suites[0].as_str()).collect();
    assert_eq!(suites, ["bookworm", "bookworm-security", "bookworm/updates", "stable-updates"]);
    assert!(kept.iter().all(|source| source.components == ["main"]));
    assert!(debians_own(&parse_list("deb http://mirror.example/x -x main"), "").is_empty());
}

/// Nothing in a list file may bring the lab down: every prefix and every one-byte change of real forms is read.
#[test]
fn broken_files_are_survived() {
    let forms = [
        "deb [arch=amd64 signed-by=/k] http://m.example/debian bookworm main\n",
        "Types: deb\nURIs: http://m.example/d\nSuites: bookworm\nComponents: main\nSigned-By:\n k\n .\n",
    ];
    for form in forms {
        for at in 0..form.len() {
            parse_list(&form[..at]);
            parse_deb822(&form[..at]);
            for byte in ["[", "]", "=", "#", "\n", " ", ":", "\0", "é"] {
                let text = format!("{}{byte}{}", &form[..at], &form[at + 1..]);
                let mut sources = parse_list(&text);
                sources.extend(parse_deb822(&text));
                let text = render(&debians_own(&sources, "bookworm"));
                assert!(parse_deb822(&text).len() <= 1, "{text}");
            }
        }
    }
}

#[test]
fn another_suite_comes_from_where_the_release_does() {
    let own = debians_own(
        &parse_list(
            "deb http://security.example/debian-security bookworm-security main\n\
             deb [signed-by=/k.gpg] http://m.example/debian bookworm bookworm-updates main contrib\n\
             deb http://other.example/debian bookworm main\n",
        ),
        "bookworm",
    );
    let suite = of_suite(&own, "trixie-backports");
    assert_eq!(
        render(&suite),
        "Types: deb deb-src\nURIs: http://m.example/debian\nSuites: trixie-backports\nComponents: main\n\
         Signed-By: /k.gpg\n\n"
    );
    assert!(of_suite(&[], "trixie-backports").is_empty());
}
