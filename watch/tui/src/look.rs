// SPDX-License-Identifier: GPL-2.0-only
//! What this terminal can show.

use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub color: bool,
    /// Otherwise ASCII alone.
    pub unicode: bool,
}

impl Look {
    /// By the user's environment: NO_COLOR with any content, and the first locale variable that is set.
    pub fn of(variable: impl Fn(&str) -> Option<String>, wants_color: bool) -> Look {
        let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find(|name| is_set(name));
        let locale = locale.and_then(|name| variable(name)).unwrap_or_default().to_lowercase();
        Look {
            color: wants_color && !is_set(&"NO_COLOR"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    fn colored(self, color: Color) -> Style {
        match self.color {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    pub fn title(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn warning(self) -> Style {
        self.colored(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub fn quiet(self) -> Style {
        self.colored(Color::DarkGray)
    }

    /// Cut to so many columns, with a mark where something is missing.
    pub fn cut(self, text: &str, width: usize) -> String {
        if text.width() <= width {
            return text.to_string();
        }
        let mark = if self.unicode { '…' } else { '~' };
        let ends = text.char_indices().map(|(end, _)| end).rev();
        let kept = ends.map(|end| &text[..end]).find(|kept| kept.width() < width);
        kept.map_or_else(String::new, |kept| format!("{kept}{mark}"))
    }

    /// One character a value, the greatest being full height.
    pub fn bars(self, values: &[u64]) -> String {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
        let steps = if self.unicode { BLOCKS } else { ASCII };
        let most = u128::from(values.iter().copied().max().unwrap_or(0).max(1));
        let step = |value: &u64| (u128::from(*value) * 8).div_ceil(most) as usize;
        values.iter().map(|value| steps[step(value).min(8)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(set: &[(&str, &str)], wants_color: bool) -> Look {
        let find = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.to_string());
        Look::of(find, wants_color)
    }

    #[test]
    fn the_environment_decides() {
        assert_eq!(look(&[("LANG", "C.UTF-8")], true), Look { color: true, unicode: true });
        assert_eq!(look(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")], true), Look { color: true, unicode: false });
        assert!(!look(&[("NO_COLOR", "1")], true).color);
        assert!(look(&[("NO_COLOR", "")], true).color, "no-color.org: an empty one means nothing");
        assert!(!look(&[], false).color);
    }

    #[test]
    fn without_color_no_style_has_one() {
        let plain = Look { color: false, unicode: false };
        for style in [plain.title(), plain.head(), plain.selected(), plain.warning(), plain.quiet()] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }

    #[test]
    fn bars_and_cuts_keep_their_width() {
        let ascii = Look { color: false, unicode: false };
        assert_eq!(ascii.bars(&[0, 1, 8]), " .@");
        assert_eq!(ascii.bars(&[0, 0]), "  ");
        assert_eq!(ascii.bars(&[u64::MAX]), "@");
        assert_eq!(ascii.cut("madvise", 7), "madvise");
        assert_eq!(ascii.cut("madvise", 4), "mad~");
        assert_eq!(ascii.cut("madvise", 0), "");
        assert_eq!(ascii.cut("長い名前", 6), "長い~");
    }
}
