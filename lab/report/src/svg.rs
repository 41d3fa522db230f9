// SPDX-License-Identifier: GPL-2.0-only
//! The few SVG elements the pictures need. Ours, because a plotting crate brings fonts, colours and a canvas of its own, and
//! these pictures take theirs from the page around them; maud escapes every text.

use maud::{html, Markup};

/// One picture: a view box, a label for those who cannot see it, and its elements.
pub(crate) struct Svg {
    size: (f64, f64),
    label: String,
    parts: Vec<Markup>,
}

#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A tenth of a pixel is enough.
fn at(value: f64) -> String {
    format!("{value:.1}")
}

impl Svg {
    pub fn new(width: f64, height: f64, label: &str) -> Svg {
        Svg { size: (width, height), label: label.into(), parts: Vec::new() }
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.parts.push(html! { line class=(class) x1=(at(x1)) y1=(at(y1)) x2=(at(x2)) y2=(at(y2)) {} });
    }

    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.parts.push(html! { polyline class=(class) points=(points.join(" ")) {} });
    }

    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.parts.push(html! {
            rect class=(class) x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height)) rx="2" {}
        });
    }

    /// A point whose shape, not only its colour, tells the series.
    pub fn mark(&mut self, class: &str, shape: usize, (x, y): (f64, f64), title: &str) {
        let r = 3.6;
        let path = |points: &[(f64, f64)]| {
            let corners: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy)).collect();
            format!("M{}Z", corners.join("L"))
        };
        self.parts.push(html! {
            g class=(class) {
                title { (title) }
                @match shape % 4 {
                    0 => circle cx=(at(x)) cy=(at(y)) r=(r) {},
                    1 => path d=(path(&[(-r, -r), (r, -r), (r, r), (-r, r)])) {},
                    2 => path d=(path(&[(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)])) {},
                    _ => path d=(path(&[(0.0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)])) {},
                }
            }
        });
    }

    pub fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.parts.push(html! { text class=(class) text-anchor=(anchor) x=(at(x)) y=(at(y)) { (text) } });
    }

    pub fn finish(self) -> Markup {
        let (width, height) = self.size;
        html! {
            svg viewBox=(format!("0 0 {width:.0} {height:.0}")) role="img" aria-label=(self.label) {
                @for part in &self.parts { (part) }
            }
        }
    }

    /// A file of its own, with its own colours.
    pub fn file(self, style: &str) -> String {
        let (width, height) = self.size;
        let picture = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width:.0} {height:.0}")) width=(width) height=(height)
                role="img" aria-label=(self.label) {
                style { (style) }
                @for part in &self.parts { "\n" (part) }
            }
        };
        picture.into_string() + "\n"
    }

    /// For what the text beside it says.
    pub fn silent(self) -> Markup {
        let (width, height) = self.size;
        html! {
            svg viewBox=(format!("0 0 {width:.0} {height:.0}")) aria-hidden="true" {
                @for part in &self.parts { (part) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_log_becomes_markup() {
        let mut svg = Svg::new(10.0, 10.0, "\"><script>");
        svg.text("t", Anchor::End, (0.0, 0.0), "<b>");
        svg.mark("s0", 1, (0.0, 0.0), "</title><script>");
        let text = svg.finish().into_string();
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    }
}
