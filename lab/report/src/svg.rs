// SPDX-License-Identifier: GPL-2.0-only
//! The few SVG elements the plots need. Every text goes through [`escape`]. Ours: few, and the same
//! bytes each time.

use ceasefire_base::text::clean;

/// For element content and for double-quoted attributes, in HTML and in SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// One picture: a view box, a label for those who cannot see it, and its elements.
pub(crate) struct Svg {
    body: String,
}

#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64, label: &str) -> Svg {
        let body = format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escape(label)
        );
        Svg { body }
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.body.push_str(&format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.body.push_str(&format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")));
    }

    pub fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        self.body.push_str(&format!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
            at.0, at.1, size.0, size.1
        ));
    }

    /// A point whose shape, not only its colour, tells the series.
    pub fn mark(&mut self, class: &str, shape: usize, at: (f64, f64), title: &str) {
        let (x, y) = at;
        let r = 3.6;
        let path = match shape % 4 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>"),
            1 => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{w:.1}\"/>",
                x - r,
                y - r,
                w = 2.0 * r
            ),
            2 => format!(
                "<path d=\"M{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}Z\"/>",
                y - 1.3 * r,
                x + 1.3 * r,
                y + 1.3 * r,
                x - 1.3 * r
            ),
            _ => format!(
                "<path d=\"M{x:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
                y - 1.2 * r,
                x + 1.2 * r,
                y + r,
                x - 1.2 * r,
                y + r
            ),
        };
        self.body.push_str(&format!("<g class=\"{class}\"><title>{}</title>{path}</g>", escape(title)));
    }

    pub fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.body.push_str(&format!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        ));
    }

    pub fn finish(mut self) -> String {
        self.body.push_str("</svg>");
        self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_log_becomes_markup() {
        assert_eq!(escape("<script>\"&'\u{1b}"), "&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
        let mut svg = Svg::new(10.0, 10.0, "\"><script>");
        svg.text("t", Anchor::End, (0.0, 0.0), "<b>");
        svg.mark("s0", 1, (0.0, 0.0), "</title><script>");
        let text = svg.finish();
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    }
}
