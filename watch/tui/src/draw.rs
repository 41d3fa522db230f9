// SPDX-License-Identifier: GPL-2.0-only
//! The picture of an [`App`]. Pure: the same app and the same size give the same screen.

use crate::app::{App, Over, View};
use crate::detail::{self, Ink, Lines};
use crate::rows::{per_second, Column, Row, Table};
use crate::{flow, footer, help};
use ceasefire_watch_model::{Class, Snapshot};
use ceasefire_watch_views::numbers::{count, ratio, time};
use ceasefire_watch_views::table::pad;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::Frame;
use unicode_width::UnicodeWidthStr;

pub const WIDTH_MIN: u16 = 40;
pub const HEIGHT_MIN: u16 = 12;

/// The selected row's mark, so that it is seen without any attribute.
const MARK: &str = "> ";
/// A name is not squeezed below this while less important columns stand.
const NAME_MIN: usize = 15;
const NAME_MAX: usize = 40;

pub fn draw(frame: &mut Frame, app: &App) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        return too_small(frame, area);
    }
    let width = area.width as usize;
    let look = app.settings.look;
    let total = &app.windows.total;

    let mut top = vec![Line::styled(headline(app, width), look.title())];
    top.extend(rates(&app.windows.last, total, width).into_iter().map(Line::raw));
    let mut bottom: Vec<Line> = status(app, width).into_iter().collect();
    bottom.extend(footer::lines(total, width).into_iter().map(|line| {
        let is_bad = line.contains("lost ") && !line.contains("lost nothing");
        Line::styled(line, if is_bad { look.warning() } else { Style::new() })
    }));
    bottom.push(Line::styled(keys(app, width), look.quiet()));

    let middle_height = (area.height as usize).saturating_sub(top.len() + bottom.len());
    let middle = match &app.over {
        Over::Help { scroll } => {
            scrolled("help", help::lines(total, width), *scroll, middle_height, width, app)
        }
        Over::Detail { key, scroll } => {
            let title = detail::title(key, &app.windows);
            scrolled(&title, app.detail(key), *scroll, middle_height, width, app)
        }
        Over::Nothing | Over::Filter { .. } => table(app, middle_height, width),
    };
    let mut lines = top;
    lines.extend(middle.into_iter().take(middle_height));
    lines.resize(area.height as usize - bottom.len().min(area.height as usize), Line::raw(""));
    lines.extend(bottom);
    for (row, line) in (area.y..area.bottom()).zip(&lines) {
        frame.buffer_mut().set_line(area.x, row, line, area.width);
    }
}

fn too_small(frame: &mut Frame, area: Rect) {
    let text = format!(
        "ceasefire watch top needs {WIDTH_MIN} x {HEIGHT_MIN} characters, this terminal has {} x {}: enlarge it; q quits",
        area.width, area.height
    );
    for (row, line) in (area.y..area.bottom()).zip(flow::wrapped(&text, area.width as usize)) {
        frame.buffer_mut().set_string(area.x, row, line, Style::new());
    }
}

fn headline(app: &App, width: usize) -> String {
    let total = &app.windows.total;
    let state = if app.is_paused { "PAUSED".to_string() } else { String::new() };
    let interval = u64::try_from(app.settings.interval.as_nanos()).unwrap_or(u64::MAX);
    let parts = [
        "ceasefire watch top".to_string(),
        state,
        format!("for {}", time(total.window_ns)),
        format!("every {}", time(interval)),
        format!("{} CPUs", total.cpus),
        format!("Linux {}", total.kernel),
    ];
    flow::fitting(&parts, "  ", width)
}

fn rates(last: &Snapshot, total: &Snapshot, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for class in [Class::User, Class::KernelRange] {
        let Some(recent) = last.coverage.class(class) else { continue };
        let queued = total.coverage.class(class).map_or(0, |class| class.queued);
        if class == Class::KernelRange && queued == 0 {
            continue;
        }
        let rate = |n: u64| count(per_second(n, last.window_ns));
        let each = match recent.shootdowns {
            0 => String::new(),
            sent => format!("{} targets each", ratio(recent.queued, sent)),
        };
        let requests = recent.requests.map_or(String::new(), |n| format!("{} requested/s", rate(n)));
        let parts = [
            class.name().to_string() + ":",
            format!("{} sent/s", rate(recent.shootdowns)),
            format!("{} received/s", rate(recent.queued)),
            each,
            requests,
        ];
        lines.push(flow::fitting(&parts, " ", width));
    }
    lines
}

/// The filter, while it is typed and while it holds.
fn status(app: &App, width: usize) -> Option<Line<'static>> {
    let look = app.settings.look;
    if let Over::Filter { text } = &app.over {
        let hint = "(Enter keeps it, Esc does not)".to_string();
        let line = flow::fitting(&[format!("filter: {text}_"), hint], "  ", width);
        return Some(Line::styled(line, look.warning()));
    }
    if app.filter.is_empty() {
        return None;
    }
    let left_out = match app.over {
        Over::Nothing => format!("{} rows left out", count(app.table().left_out as u64)),
        _ => String::new(),
    };
    Some(Line::styled(
        flow::fitting(&[format!("filter: {}", app.filter), left_out], ", ", width),
        look.warning(),
    ))
}

fn keys(app: &App, width: usize) -> String {
    let keys: &[&str] = match app.over {
        Over::Nothing => &[
            "q quit",
            "? help",
            "Enter more",
            "f filter",
            "s sort",
            "p pause",
            "r reset",
            "j k move",
            "Tab view",
        ],
        Over::Help { .. } | Over::Detail { .. } => &["Esc back", "j k scroll", "p pause", "r reset"],
        Over::Filter { .. } => &["Enter keep", "Esc cancel"],
    };
    let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
    flow::fitting(&keys, if width < 60 { " " } else { "  " }, width)
}

fn tabs(app: &App, sorted_by: &str, width: usize) -> Line<'static> {
    let look = app.settings.look;
    let mut spans = Vec::new();
    let mut used = 0;
    for (place, view) in View::ALL.into_iter().enumerate() {
        let name = match view == app.view {
            true => format!("[{} {}]", place + 1, view.name()),
            false => format!(
                " {}{}",
                place + 1,
                if width < 60 { String::new() } else { format!(" {} ", view.name()) }
            ),
        };
        used += name.width();
        spans.push(Span::styled(name, if view == app.view { look.head() } else { Style::new() }));
    }
    let sort = format!("by {sorted_by}");
    let gap = width.saturating_sub(used + sort.width());
    if gap > 0 {
        spans.push(Span::raw(format!("{}{sort}", " ".repeat(gap))));
    }
    Line::from(spans)
}

fn scrolled(
    title: &str,
    lines: Lines,
    scroll: usize,
    height: usize,
    width: usize,
    app: &App,
) -> Vec<Line<'static>> {
    let look = app.settings.look;
    let body = height.saturating_sub(1);
    let first = scroll.min(lines.len().saturating_sub(body));
    let shown = (first + body).min(lines.len());
    let place =
        if lines.len() > body { format!("{} of {} lines", shown, lines.len()) } else { String::new() };
    let room = width.saturating_sub(place.width() + 2);
    let title = look.cut(title, room);
    let gap = width.saturating_sub(title.width() + place.width());
    let mut all = vec![Line::styled(format!("{title}{}{place}", " ".repeat(gap)), look.head())];
    all.extend(lines.into_iter().skip(first).take(body).map(|(ink, text)| {
        Line::styled(look.cut(&text, width), if ink == Ink::Head { look.head() } else { Style::new() })
    }));
    all
}

fn table(app: &App, height: usize, width: usize) -> Vec<Line<'static>> {
    let look = app.settings.look;
    let table = app.table();
    let sorted_by = table.columns.get(table.sorted_by).map_or("", |column| column.title.as_str());
    let mut lines = vec![tabs(app, sorted_by, width)];
    if table.rows.is_empty() {
        lines.push(Line::raw(""));
        lines.extend(flow::wrapped(&nothing(app, &table), width).into_iter().map(Line::raw));
        return lines;
    }
    let cursor = app.cursor(&table);
    let body = height.saturating_sub(2).max(1);
    let first = (cursor + 1).saturating_sub(body);
    let columns = choose(&table, width.saturating_sub(MARK.len()));
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    let head = line(app, &table.columns, &columns, |column| titles[column]);
    lines.push(Line::styled(format!("  {head}"), look.head()));
    for (place, row) in table.rows.iter().enumerate().skip(first).take(body) {
        let text = line(app, &table.columns, &columns, |column| row_text(row, column));
        lines.push(match place == cursor {
            true => Line::styled(pad(&format!("{MARK}{text}"), width, true), look.selected()),
            false => Line::raw(format!("  {text}")),
        });
    }
    lines
}

fn nothing(app: &App, table: &Table) -> String {
    let total = &app.windows.total;
    if table.left_out > 0 {
        return format!(
            "none of {} rows has '{}' in its words: f changes it, Esc drops it",
            table.left_out, app.filter
        );
    }
    match app.view {
        View::Victims | View::Matrix if !total.has_latencies => {
            "only the sending side is watched: no victims, no times".to_string()
        }
        _ => format!("no shootdowns for {}", time(total.window_ns)),
    }
}

fn row_text(row: &Row, column: usize) -> &str {
    row.cells.get(column).map_or("", |cell| cell.text.as_str())
}

/// Columns that fit, in their order, with their widths. The name is cut first, then the least important columns go; what
/// is sorted by stays.
fn choose(table: &Table, width: usize) -> Vec<(usize, usize)> {
    let widest = |column: usize| {
        let cells = table.rows.iter().map(|row| row_text(row, column).width());
        cells.chain([table.columns[column].title.width()]).max().unwrap_or(0)
    };
    let name = widest(0).min(NAME_MAX);
    let mut used = name.min(NAME_MIN);
    let mut order: Vec<usize> = (1..table.columns.len()).collect();
    order.sort_by_key(|column| {
        let is_sorted_by = *column == table.sorted_by;
        (std::cmp::Reverse(is_sorted_by), std::cmp::Reverse(table.columns[*column].keep), *column)
    });
    let mut chosen = vec![0];
    for column in order {
        // Of the matrix's two sums, the one that is not sorted by.
        if table.columns[column].keep == 0 {
            continue;
        }
        let needs = widest(column).min(NAME_MAX) + 1;
        if used + needs > width {
            break;
        }
        used += needs;
        chosen.push(column);
    }
    chosen.sort_unstable();
    let name = (width - used + name.min(NAME_MIN)).min(name);
    chosen
        .into_iter()
        .map(|column| (column, if column == 0 { name } else { widest(column).min(NAME_MAX) }))
        .collect()
}

fn line<'a>(
    app: &App,
    columns: &[Column],
    chosen: &[(usize, usize)],
    text: impl Fn(usize) -> &'a str,
) -> String {
    let look = app.settings.look;
    let cells = chosen
        .iter()
        .map(|(column, width)| pad(&look.cut(text(*column), *width), *width, columns[*column].is_text));
    cells.collect::<Vec<_>>().join(" ")
}
