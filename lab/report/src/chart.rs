// SPDX-License-Identifier: GPL-2.0-only
//! Two kinds of picture: a line per kernel over threads, and bars side by side. Axes are linear and start at zero.

use crate::numbers::{figure, grouped, with_range};
use crate::svg::{Anchor, Svg};
use ceasefire_results::stats::Spread;
use maud::Markup;

/// Classes in report.css; more series than this repeat colours, the shapes repeat after four.
const SERIES_COLOURS: usize = 6;

pub(crate) struct Series {
    pub label: String,
    /// Threads and the figure, in order of threads.
    pub points: Vec<(u32, Spread)>,
}

pub(crate) struct Bar {
    pub label: String,
    /// Which series' colour.
    pub colour: usize,
    pub value: Spread,
}

pub(crate) fn colour_class(index: usize) -> String {
    format!("s{}", index % SERIES_COLOURS)
}

/// Round numbers from zero to at least `max`, in at most five steps.
pub(crate) fn ticks(max: f64) -> Vec<f64> {
    if max <= 0.0 || !max.is_finite() {
        return vec![0.0, 1.0];
    }
    let power = 10f64.powf((max / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|lead| lead * power)
        .find(|step| max / step <= 5.0 + 1e-9)
        .unwrap_or(10.0 * power);
    let steps = (max / step - 1e-9).ceil().max(1.0) as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

fn tick_label(value: f64, step: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value >= 1e9 {
        format!("{value:.0e}")
    } else if value >= 1e6 {
        format!("{}M", trim(value / 1e6))
    } else if value >= 1e4 {
        format!("{}k", trim(value / 1e3))
    } else if step >= 1.0 {
        grouped(value)
    } else {
        let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        format!("{value:.decimals$}")
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 186.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 34.0;
/// Two labels nearer than this would touch.
const LABEL_GAP: f64 = 15.0;

/// What runs along a picture of lines.
pub(crate) struct Across<'a> {
    pub title: &'a str,
    /// `thread` in `at 8 threads`; empty where the title says it.
    pub noun: &'a str,
    /// Points stand at equal distances, whatever lies between them.
    pub is_even: bool,
    /// Names stand at the ends of the curves, in a wider picture, and not in a legend.
    pub is_named: bool,
    /// The axis reaches this value at least.
    pub y_least: f64,
}

impl Across<'_> {
    fn at(&self, place: u32) -> String {
        match self.noun {
            "" => format!("{place} {}", self.title),
            noun => ceasefire_base::text::count(u64::from(place), noun),
        }
    }
}

const THREADS: Across =
    Across { title: "threads", noun: "thread", is_even: false, is_named: false, y_least: 0.0 };

/// Room for a name of [`NAME_CHARS`].
const NAMED_WIDTH: f64 = 460.0;
const NAMED_HEIGHT: f64 = 232.0;
const NAMED_RIGHT: f64 = 112.0;
const NAME_CHARS: usize = 17;
const NAME_GAP: f64 = 13.0;

/// `what` is the figure with its unit, for the labels.
pub(crate) fn lines(name: &str, what: &str, series: &[Series]) -> Markup {
    lines_over(name, what, &THREADS, series)
}

pub(crate) fn lines_over(name: &str, what: &str, across: &Across, series: &[Series]) -> Markup {
    let points = || series.iter().flat_map(|series| &series.points);
    let (width, height, right) = match across.is_named {
        true => (NAMED_WIDTH, NAMED_HEIGHT, NAMED_RIGHT),
        false => (WIDTH, HEIGHT, RIGHT),
    };
    let mut places: Vec<u32> = points().map(|point| point.0).collect();
    places.sort_unstable();
    places.dedup();
    let x_max = places.last().copied().unwrap_or(1).max(1);
    let y_ticks = ticks(points().map(|point| point.1.max).fold(across.y_least, f64::max));
    let y_step = y_ticks.get(1).copied().unwrap_or(1.0);
    let y_max = y_ticks.last().copied().unwrap_or(1.0);
    let x = |place: u32| {
        let share = if across.is_even {
            let index = places.iter().position(|known| *known == place).unwrap_or(0);
            (index as f64 + 0.5) / places.len().max(1) as f64
        } else {
            f64::from(place) / f64::from(x_max)
        };
        LEFT + (width - LEFT - right) * share
    };
    let y = |value: f64| height - BOTTOM - (height - TOP - BOTTOM) * value / y_max;

    let mut svg = Svg::new(width, height, &spoken(name, what, across, series));
    for &tick in &y_ticks {
        svg.line(if tick == 0.0 { "axis" } else { "grid" }, (LEFT, y(tick)), (width - right, y(tick)));
        svg.text("tick", Anchor::End, (LEFT - 6.0, y(tick) + 3.8), &tick_label(tick, y_step));
    }
    // From the right: the largest is the one that must be readable.
    let mut free_until = f64::INFINITY;
    for &place in places.iter().rev() {
        svg.line("axis", (x(place), y(0.0)), (x(place), y(0.0) + 4.0));
        if x(place) + LABEL_GAP <= free_until {
            svg.text("tick", Anchor::Middle, (x(place), y(0.0) + 15.0), &place.to_string());
            free_until = x(place);
        }
    }
    svg.text("tick", Anchor::Middle, ((LEFT + width - right) / 2.0, height - 4.0), across.title);

    for (index, series) in series.iter().enumerate() {
        let class = colour_class(index);
        let path: Vec<(f64, f64)> =
            series.points.iter().map(|(place, value)| (x(*place), y(value.median))).collect();
        svg.polyline(&format!("curve {class}"), &path);
        for (place, value) in &series.points {
            if value.max > value.min {
                svg.line(&format!("spread {class}"), (x(*place), y(value.min)), (x(*place), y(value.max)));
                for end in [value.min, value.max] {
                    svg.line(
                        &format!("spread {class}"),
                        (x(*place) - 3.0, y(end)),
                        (x(*place) + 3.0, y(end)),
                    );
                }
            }
            let title = format!("{}, {}: {}", series.label, across.at(*place), with_range(*value));
            svg.mark(&class, index, (x(*place), y(value.median)), &title);
        }
    }
    if across.is_named {
        names(&mut svg, width - right + 8.0, (TOP, height - BOTTOM), series, y);
        return svg.finish();
    }
    // A touch screen shows no titles: with one curve, its last value stands beside it.
    if let ([only], Some(&(place, value))) = (series, series.first().and_then(|series| series.points.last()))
    {
        if only.points.len() > 1 {
            svg.text("value", Anchor::End, (x(place) + 4.0, y(value.max) - 6.0), &figure(value.median));
        }
    }
    svg.finish()
}

/// Beside the last point of each curve, or as near as another name lets it: never over one.
fn names(svg: &mut Svg, x: f64, (top, bottom): (f64, f64), series: &[Series], y: impl Fn(f64) -> f64) {
    let mut ends: Vec<(f64, usize)> = series
        .iter()
        .enumerate()
        .filter_map(|(index, series)| Some((y(series.points.last()?.1.median) + 3.8, index)))
        .collect();
    ends.sort_by(|a, b| b.0.total_cmp(&a.0));
    // From below upwards; those that would leave at the top push the others down again.
    let mut floor = bottom + 3.8;
    for end in &mut ends {
        end.0 = end.0.min(floor);
        floor = end.0 - NAME_GAP;
    }
    let mut ceiling = top;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.max(ceiling);
        ceiling = end.0 + NAME_GAP;
    }
    for (at, index) in ends {
        let mut label: String = series[index].label.chars().take(NAME_CHARS).collect();
        if label.len() < series[index].label.len() {
            label.pop();
            label.push('…');
        }
        svg.text(&format!("name {}", colour_class(index)), Anchor::Start, (x, at), &label);
    }
}

/// What a screen reader says in the picture's place.
fn spoken(name: &str, what: &str, across: &Across, series: &[Series]) -> String {
    let curves: Vec<String> = series
        .iter()
        .map(|series| {
            let points: Vec<String> = series
                .points
                .iter()
                .map(|(place, value)| format!("{} at {}", figure(value.median), across.at(*place)))
                .collect();
            format!("{}: {}", series.label, points.join(", "))
        })
        .collect();
    format!("{name}, {what}. {}.", curves.join(". "))
}

const BAR_PITCH: f64 = 36.0;
const BAR_HEIGHT: f64 = 12.0;
/// About what fits beside a number in the picture's width.
const BAR_LABEL_CHARS: usize = 36;

/// Bars of one picture share a scale; pictures do not.
pub(crate) fn bars(name: &str, what: &str, bars: &[Bar]) -> Markup {
    let max = bars.iter().map(|bar| bar.value.max).fold(0.0, f64::max);
    let scale = if max > 0.0 { (WIDTH - 8.0) / max } else { 0.0 };
    let spoken: Vec<String> =
        bars.iter().map(|bar| format!("{} {}", bar.label, with_range(bar.value))).collect();
    let height = BAR_PITCH * bars.len() as f64 + 2.0;
    let mut svg = Svg::new(WIDTH, height, &format!("{name}, {what}. {}.", spoken.join(". ")));
    for (index, bar) in bars.iter().enumerate() {
        let top = BAR_PITCH * index as f64;
        let class = colour_class(bar.colour);
        let mut label: String = bar.label.chars().take(BAR_LABEL_CHARS).collect();
        if label.len() < bar.label.len() {
            label.push('…');
        }
        svg.text("tick", Anchor::Start, (1.0, top + 12.0), &label);
        svg.text("value", Anchor::End, (WIDTH - 2.0, top + 12.0), &figure(bar.value.median));
        let middle = top + 18.0 + BAR_HEIGHT / 2.0;
        svg.line("grid", (1.0, top + 18.0), (1.0, top + 18.0 + BAR_HEIGHT));
        svg.rect(&format!("bar {class}"), (1.0, top + 18.0), (bar.value.median * scale, BAR_HEIGHT));
        if bar.value.max > bar.value.min {
            let (low, high) = (1.0 + bar.value.min * scale, 1.0 + bar.value.max * scale);
            svg.line("whisker", (low, middle), (high, middle));
            for end in [low, high] {
                svg.line("whisker", (end, middle - 3.5), (end, middle + 3.5));
            }
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_cover_the_data_in_few_round_steps() {
        for (max, expected) in
            [(0.0, 1.0), (7.0, 8.0), (1.0, 1.0), (0.05, 0.05), (15.0, 15.0), (61_234.0, 80_000.0)]
        {
            let ticks = ticks(max);
            let last = ticks.last().copied().expect("ticks");
            assert!((last - expected).abs() < 1e-9 * expected.max(1.0), "{max}: {ticks:?}");
        }
        for exponent in -9..18 {
            for lead in [1.0, 1.01, 3.3, 5.0, 7.7, 9.99] {
                let max = lead * 10f64.powi(exponent);
                let ticks = ticks(max);
                let last = ticks.last().copied().expect("ticks");
                assert!((2..=6).contains(&ticks.len()), "{max}: {ticks:?}");
                assert!(last >= max * (1.0 - 1e-9) && last <= max * 2.01, "{max}: {ticks:?}");
            }
        }
    }

    #[test]
    fn tick_labels_are_short_and_exact() {
        for (value, step, text) in [
            (0.05, 0.01, "0.05"),
            (2.0, 1.0, "2"),
            (20_000.0, 20_000.0, "20k"),
            (1.5e6, 5e5, "1.5M"),
            (2_000.0, 500.0, "2,000"),
        ] {
            assert_eq!(tick_label(value, step), text);
        }
    }

    #[test]
    fn pictures_speak_their_values() {
        let value = Spread { median: 7.0, min: 7.0, max: 7.0 };
        let series = [Series { label: "vanilla".into(), points: vec![(1, value), (8, value)] }];
        let text = lines("munmap", "received per call", &series).into_string();
        assert!(text.contains(
            "aria-label=\"munmap, received per call. vanilla: 7.00 at 1 thread, 7.00 at 8 threads.\""
        ));
        assert!(text.contains("role=\"img\""));
    }
}
