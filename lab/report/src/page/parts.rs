// SPDX-License-Identifier: GPL-2.0-only
//! What every page is put together from. Texts come from logs and users: maud escapes each of them.

use maud::{html, Markup, PreEscaped, DOCTYPE};

const STYLE: &str = include_str!("style.css");

/// A whole file that needs nothing else: no script, no network.
pub(crate) fn document(title: &str, body: &Markup, written: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (body)
                    footer { (written) " This page loads nothing and runs no script." }
                }
            }
        }
    };
    // Escape codes of a log are no markup, and no text either.
    let is_stray = |c: char| c.is_control() && c != '\n';
    page.into_string().chars().map(|c| if is_stray(c) { '\u{fffd}' } else { c }).collect()
}

/// Headings of a section, and of one inside a folded part.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Section,
    Inner,
}

impl Level {
    pub fn heading(self, title: &str) -> Markup {
        html! {
            @match self {
                Level::Section => h2 { (title) },
                Level::Inner => h3 { (title) },
            }
        }
    }
}

pub(crate) fn section(title: &str) -> Markup {
    Level::Section.heading(title)
}

pub(crate) fn note(text: &str) -> Markup {
    html! { p.note { (text) } }
}

/// A table that scrolls sideways by itself on a narrow screen.
pub(crate) fn table(label: &str, inner: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(label) { table { (inner) } } "\n" }
}

/// A column's head; `true` for words, which stand left.
pub(crate) fn head(columns: &[(&str, bool)]) -> Markup {
    html! {
        thead { tr {
            @for (name, is_text) in columns {
                th.text[*is_text] scope="col" { (name) }
            }
        } }
    }
}

pub(crate) fn figure(caption: &Markup, picture: &Markup) -> Markup {
    html! { figure { (caption) (picture) } "\n" }
}

pub(crate) fn items(list: impl Iterator<Item = String>) -> Markup {
    html! { ul.plain { @for item in list { li { (item) } } } }
}
