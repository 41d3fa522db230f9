// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation as one HTML file that needs nothing else: each figure of the paper, ours beside it, and what differs.

use super::found;
use crate::chart::{self, Across, Bar, Series};
use crate::numbers::{figure as number, prose_percent as percent, with_range, ABSENT};
use crate::page::{self as report, controls, notes, open_table, section, tables};
use crate::svg::escape;
use ceasefire_base::text::count;
use ceasefire_base::Result;
use ceasefire_results::paper::figures::{self, Axis, Figure, Quantity, FIGURES};
use ceasefire_results::paper::{is_off, left, with_others, Compared, Loss, Measured, Paper};
use ceasefire_results::schema::{self, Row};
use ceasefire_results::stats::Spread;

const TITLE: &str = "The ABIS paper's evaluation, again";
/// More than this many rises are folded away: the worst stand above.
const LOSSES_SHOWN: usize = 8;

/// Refuses, in one sentence, if a control failed.
pub fn html(paper: &Paper) -> Result<String> {
    for measured in &paper.figures {
        paper.results(measured).reportable()?;
    }
    let mut page = String::with_capacity(128 * 1024);
    head(paper, &mut page);
    summary(paper, &mut page);
    for figure in FIGURES {
        one(paper, figure, &mut page);
    }
    let mut whole = schema::Results::new(paper.environment.clone());
    whole.controls = paper.controls.clone();
    controls::controls(&whole, &mut page);
    notes::environment(&whole, &mut page);
    notes::definitions(&whole, &mut page);
    notes::reproduce(&whole, &mut page);
    page.push_str(&format!(
        "<footer>Written by ceasefire {} in the form {}. This page loads nothing and runs no script.</footer>\n</main>\n</body>\n</html>\n",
        escape(&paper.environment.ceasefire),
        escape(&paper.schema)
    ));
    Ok(page)
}

fn head(paper: &Paper, page: &mut String) {
    report::open(TITLE, page);
    page.push_str(&format!("<p class=\"eyebrow\">Ceasefire lab</p>\n<h1>{}</h1>\n", escape(TITLE)));
    for sentence in super::words::sentences(paper) {
        let sentence = escape(&sentence).replace(" -", " \u{2212}");
        page.push_str(&format!("<p class=\"finding\">{sentence}</p>\n"));
    }
    let mut facts = vec![report::readable_date(&paper.environment.date)];
    facts.push(format!("{} of {} figures", paper.figures.len(), FIGURES.len()));
    facts.push(count(u64::from(paper.repeats), "repeat") + " each");
    facts.push(paper.kernels.join(", "));
    facts.retain(|fact| !fact.is_empty());
    let items: Vec<String> = facts.iter().map(|fact| format!("<li>{}</li>", escape(fact))).collect();
    page.push_str(&format!("<ul class=\"facts\">{}</ul>\n", items.join("")));
    page.push_str(
        "<p class=\"note\">The paper is N. Amit, \u{201c}Optimizing the TLB Shootdown Algorithm with Page Access Tracking\u{201d} (USENIX \
         ATC 2017). What differs in every figure:</p>\n",
    );
    items_of(figures::DIFFERS.iter().map(|words| words.to_string()), page);
}

fn items_of(items: impl Iterator<Item = String>, page: &mut String) {
    page.push_str("<ul class=\"plain\">\n");
    for item in items {
        page.push_str(&format!("<li>{}</li>\n", escape(&item)));
    }
    page.push_str("</ul>\n");
}

fn summary(paper: &Paper, page: &mut String) {
    section(page, "The paper's figures and ours");
    page.push_str(
        "<p class=\"note\">Against the unchanged kernel. A dash means not measured, which is not zero. Figures without a claim of the \
         paper stand below alone.</p>\n",
    );
    let all: Vec<(&str, &Compared)> = paper
        .figures
        .iter()
        .flat_map(|measured| measured.compared.iter().map(|entry| (measured.section.as_str(), entry)))
        .collect();
    table(&all, page);
    let unmeasured: Vec<&Figure> =
        FIGURES.iter().filter(|figure| paper.figure(figure.id).is_none()).collect();
    if unmeasured.is_empty() {
        return;
    }
    page.push_str("<h3 class=\"doubt\">Not measured in this file</h3>\n<ul class=\"plain\">\n");
    for figure in unmeasured {
        page.push_str(&format!(
            "<li>{}: <code>ceasefire lab paper --only {}</code></li>\n",
            escape(&format!("{} ({})", figure.title, figure.section)),
            escape(figure.id)
        ));
    }
    page.push_str("</ul>\n");
}

fn table(entries: &[(&str, &Compared)], page: &mut String) {
    if entries.is_empty() {
        return;
    }
    open_table(page, "The paper's figures and ours");
    page.push_str(
        "<thead><tr><th class=\"text\" scope=\"col\">what</th><th class=\"text\" scope=\"col\">the paper</th>\
         <th scope=\"col\">here</th><th scope=\"col\">unchanged</th><th scope=\"col\">changed</th>\
         <th class=\"text\" scope=\"col\">condition</th></tr></thead>\n<tbody>\n",
    );
    for (section, entry) in entries {
        let (class, verdict) = match (entry.is_reached(), entry.percent) {
            (Some(true), _) => ("good", "reached".to_string()),
            (Some(false), Some(found)) => {
                let word = if entry.paper_percent > 0.0 { "over" } else { "short" };
                ("bad", format!("{word} by {:.1} points", found - entry.paper_percent))
            }
            _ if entry.is_aside => ("doubt", "beside it, not judged".to_string()),
            _ => ("doubt", String::new()),
        };
        let spread = |spread: Option<Spread>| spread.map_or_else(|| ABSENT.into(), with_range);
        let elided = entry.elided.filter(|pages| pages.max > 0.0).map_or_else(String::new, |pages| {
            format!("<small>{} pages elided</small>", escape(&number(pages.median)))
        });
        let is_ratio = entry.unit.is_empty() || entry.quantity == Quantity::Targets.words();
        let per = if is_ratio { String::new() } else { format!(" per {}", entry.unit) };
        let mut condition = String::new();
        if entry.repeats > 0 {
            condition = count(u64::from(entry.vcpus), "vCPU");
            // How many repeats is said above, once for all.
            if entry.threads != entry.vcpus {
                condition += &format!(", {}", count(u64::from(entry.threads), "thread"));
            }
        }
        page.push_str(&format!(
            "<tr><th class=\"text\" scope=\"row\">{}<small>{}</small></th><td class=\"text\">{}<small>{}</small></td><td>{}\
             <small class=\"{class}\">{}</small></td><td>{}</td><td>{}{elided}</td>\
             <td class=\"text\">{}<small>{}</small></td></tr>\n",
            escape(&entry.workload),
            escape(&format!("{}{per}", entry.quantity)),
            escape(&percent(entry.paper_percent)),
            escape(&format!("{}; {section}", entry.paper_words)),
            escape(&found(entry).replace('-', "\u{2212}")),
            escape(&verdict),
            escape(&spread(entry.baseline)),
            escape(&spread(entry.here)),
            escape(&entry.kernel),
            escape(&condition),
        ));
    }
    page.push_str("</tbody></table></div>\n");
}

fn one(paper: &Paper, figure: &Figure, page: &mut String) {
    section(page, figure.title);
    page.push_str(&format!(
        "<p class=\"note\">In the paper: section {}. {}</p>\n",
        escape(figure.section),
        escape(figure.shows)
    ));
    let Some(measured) = paper.figure(figure.id) else {
        page.push_str(&format!(
            "<p class=\"doubt\">Not measured in this file: <code>ceasefire lab paper --only {}</code></p>\n",
            escape(figure.id)
        ));
        return;
    };
    pictures(paper, figure, measured, page);
    let entries: Vec<(&str, &Compared)> =
        measured.compared.iter().map(|entry| (measured.section.as_str(), entry)).collect();
    table(&entries, page);
    losses(&measured.losses, page);
    missing(measured, page);
    page.push_str("<h3>What differs</h3>\n");
    let unanswered = std::iter::once(figure.unanswered);
    items_of(figure.differs.iter().copied().chain(unanswered).map(String::from), page);
    let results = paper.results(measured);
    page.push_str(&format!(
        "<details><summary>{} and {}</summary>\n",
        count(measured.rows.len() as u64, "row"),
        count(measured.commands.len() as u64, "command")
    ));
    let mut inner = String::new();
    tables::counts(&results, &mut inner);
    tables::cost(&results, &mut inner);
    // Below this figure's heading.
    page.push_str(&inner.replace("<h2>", "<h3>").replace("</h2>", "</h3>"));
    page.push_str("<h3>Each boot alone</h3>\n<pre tabindex=\"0\"><code>");
    for command in &measured.commands {
        page.push_str(&escape(command));
        page.push('\n');
    }
    page.push_str("</code></pre>\n</details>\n");
}

fn missing(measured: &Measured, page: &mut String) {
    for (class, word, list) in [("doubt", "Skipped", &measured.skipped), ("bad", "Failed", &measured.failed)]
    {
        if list.is_empty() {
            continue;
        }
        page.push_str(&format!("<h3 class=\"{class}\">{word} ({})</h3>\n", list.len()));
        items_of(list.iter().map(crate::table::missing_sentence), page);
    }
}

/// Beside every gain what it cost, or moved to.
fn losses(losses: &[Loss], page: &mut String) {
    page.push_str("<h3>What rose</h3>\n");
    if losses.is_empty() {
        page.push_str(
            "<p class=\"note\">Nothing beyond the spread of the repeats: not other IPIs, full flushes, walks, faults or cost.</p>\n",
        );
        return;
    }
    let mut worst: Vec<&Loss> = losses.iter().collect();
    worst.sort_by(|a, b| b.percent.unwrap_or(f64::INFINITY).total_cmp(&a.percent.unwrap_or(f64::INFINITY)));
    let (shown, folded) = worst.split_at(worst.len().min(LOSSES_SHOWN));
    loss_table(shown, page);
    if !folded.is_empty() {
        page.push_str(&format!("<details><summary>{} more</summary>\n", folded.len()));
        loss_table(folded, page);
        page.push_str("</details>\n");
    }
}

fn loss_table(losses: &[&Loss], page: &mut String) {
    open_table(page, "What rose");
    page.push_str(
        "<thead><tr><th class=\"text\" scope=\"col\">row</th><th class=\"text\" scope=\"col\">what, per unit</th>\
         <th scope=\"col\">change</th><th scope=\"col\">unchanged</th><th scope=\"col\">changed</th>\
         <th class=\"text\" scope=\"col\">on</th></tr></thead>\n<tbody>\n",
    );
    for loss in losses {
        let title = schema::counter(&loss.figure).map_or(loss.figure.as_str(), |known| known.title);
        let change = loss.percent.map_or_else(|| "from zero".into(), percent);
        let at = loss.at.as_ref().map_or_else(String::new, |at| format!(", {at}"));
        page.push_str(&format!(
            "<tr><th class=\"text\" scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"text\">{}</td></tr>\n",
            escape(&format!("{}{at}", loss.workload)),
            escape(&format!("{title} per {}", loss.unit)),
            escape(&change),
            escape(&with_range(loss.baseline)),
            escape(&with_range(loss.here)),
            escape(&format!("{}, {}", loss.kernel, count(u64::from(loss.threads), "thread"))),
        ));
    }
    page.push_str("</tbody></table></div>\n");
}

fn pictures(paper: &Paper, figure: &Figure, measured: &Measured, page: &mut String) {
    match figure.axis {
        Axis::Workloads => side_by_side(paper, figure, measured, page),
        Axis::Vcpus => curves(paper, figure, measured, ("vCPUs", "vCPU"), |row| row.vcpus, page),
        Axis::Threads => curves(paper, figure, measured, ("threads", "thread"), |row| row.threads, page),
        Axis::Points(title) => shares(paper, figure, measured, title, page),
    }
}

fn caption(title: &str, what: &str) -> String {
    format!("<figcaption><b>{}</b>{}</figcaption>", escape(title), escape(what))
}

/// One picture a workload: its kernels' bars, the paper's word in the caption.
fn side_by_side(paper: &Paper, figure: &Figure, measured: &Measured, page: &mut String) {
    page.push_str("<div class=\"grid\">\n");
    for name in figure.works.iter().flat_map(|work| work.workloads) {
        for quantity in figure.plots {
            let bars: Vec<Bar> = with_others(&paper.kernels, &measured.rows)
                .iter()
                .enumerate()
                .filter_map(|(colour, label)| {
                    let of_it = |row: &&Row| row.workload == *name && row.kernel_label() == *label;
                    let row = measured.rows.iter().filter(of_it).find(|row| quantity.get(row).is_some())?;
                    Some(Bar { label: label.clone(), colour, value: quantity.get(row)? })
                })
                .collect();
            // A workload that sends nothing is there for its cost, and one of shootdowns has none.
            if bars.is_empty() {
                continue;
            }
            let row = measured.rows.iter().find(|row| row.workload == *name && quantity.get(row).is_some());
            let unit = row.map_or("unit", |row| row.unit.as_str());
            let threads = row.map_or(0, |row| row.threads);
            let what = format!("{} per {unit}, at {}", quantity.words(), count(u64::from(threads), "thread"));
            let claim = measured
                .compared
                .iter()
                .find(|entry| entry.workload == *name && entry.quantity == quantity.words())
                .map_or_else(String::new, |entry| {
                    format!(
                        "; the paper {}, here {}",
                        percent(entry.paper_percent),
                        found(entry).replace('-', "\u{2212}")
                    )
                });
            page.push_str(&format!(
                "<figure>{}{}</figure>\n",
                caption(name, &(what.clone() + &claim)),
                chart::bars(name, &what, &bars)
            ));
        }
    }
    page.push_str("</div>\n");
}

/// A curve for each kernel; cost has one point alone, and so bars.
fn curves(
    paper: &Paper,
    figure: &Figure,
    measured: &Measured,
    (title, noun): (&str, &str),
    place: fn(&Row) -> u32,
    page: &mut String,
) {
    page.push_str("<div class=\"grid wide\">\n");
    for quantity in figure.plots {
        let series: Vec<Series> = paper
            .kernels
            .iter()
            .map(|label| {
                let rows = measured.rows.iter().filter(|row| row.kernel_label() == *label);
                let mut points: Vec<(u32, Spread)> =
                    rows.filter_map(|row| Some((place(row), quantity.get(row)?))).collect();
                points.sort_by_key(|point| point.0);
                Series { label: label.clone(), points }
            })
            .collect();
        let unit = measured.rows.first().map_or("unit", |row| row.unit.as_str());
        let what = match quantity {
            Quantity::Targets => quantity.words().to_string(),
            _ => format!("{} per {unit}", quantity.words()),
        };
        let name = measured.rows.first().map_or("", |row| row.workload.as_str());
        let most = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        let picture = match most {
            0 => continue,
            1 => {
                let bar = |(colour, series): (usize, &Series)| {
                    let (_, value) = series.points.first()?;
                    Some(Bar { label: series.label.clone(), colour, value: *value })
                };
                let bars: Vec<Bar> = series.iter().enumerate().filter_map(bar).collect();
                chart::bars(name, &what, &bars)
            }
            _ => {
                let across = Across { title, noun, is_even: true, is_named: true, y_least: 0.0 };
                chart::lines_over(name, &what, &across, &series)
            }
        };
        let at = if most == 1 { ", at 1 vCPU" } else { "" };
        page.push_str(&format!("<figure>{}{picture}</figure>\n", caption(name, &format!("{what}{at}"))));
    }
    page.push_str("</div>\n");
}

/// What is left of the baseline's count, in per cent: a picture a kernel, a curve a workload.
fn shares(paper: &Paper, figure: &Figure, measured: &Measured, title: &str, page: &mut String) {
    let Some((baseline, others)) = paper.kernels.split_first() else { return };
    page.push_str("<div class=\"grid wide\">\n");
    for kernel in others.iter().filter(|label| !is_off(label)) {
        for quantity in figure.plots {
            let series: Vec<Series> = left(figure, measured, *quantity, (baseline, kernel))
                .into_iter()
                .map(|(name, points)| Series { label: name.into(), points })
                .collect();
            if series.iter().all(|series| series.points.is_empty()) {
                continue;
            }
            let what = format!("{}, % of the unchanged kernel's; lower is better", quantity.words());
            let across = Across { title, noun: "", is_even: true, is_named: true, y_least: 100.0 };
            page.push_str(&format!(
                "<figure>{}{}</figure>\n",
                caption(kernel, &what),
                chart::lines_over(kernel, &what, &across, &series)
            ));
        }
    }
    page.push_str("</div>\n");
}
