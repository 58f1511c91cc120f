//! Sections of experiments: a table beside published numbers, a figure, or a study.

use std::fmt::Write as _;

use super::document;
use crate::plot::{escape, svg};
use crate::reproduce::{Check, Comparison, HEADINGS, Outcome, Sheet, Study};

/// Body of the section of an experiment.
pub(super) fn body(outcome: &Outcome) -> String {
    let mut body = String::new();
    match outcome {
        Outcome::Table(comparison) => table(&mut body, comparison),
        Outcome::Figure(figure) => body.push_str(&svg(figure)),
        Outcome::Study(found) => study(&mut body, found),
    }
    body
}

/// Writes a table beside its published numbers.
pub(super) fn table(out: &mut String, comparison: &Comparison) {
    let headings: Vec<Vec<&str>> = (0..comparison.rows.first().map_or(0, |row| row.cells.len()))
        .map(|quantity| comparison.headings(quantity))
        .collect();
    let _ = writeln!(
        out,
        "<p class=\"note\">{}</p>\n<div class=\"wide\"><table>\n<thead>\n<tr>",
        comparison.published
    );
    for key in &comparison.keys {
        let _ = write!(out, "<th rowspan=\"2\">{}</th>", escape(key));
    }
    for (at, headings) in headings.iter().enumerate() {
        let label = escape(comparison.rows[0].cells[at].label);
        let _ = write!(out, "<th class=\"first\" colspan=\"{}\">{label}</th>", headings.len());
    }
    out.push_str("</tr>\n<tr>");
    for heading in headings.iter().flat_map(|headings| headings.iter().enumerate()) {
        let _ = write!(out, "<th{}>{}</th>", first(heading.0), escape(heading.1));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in &comparison.rows {
        out.push_str("<tr>");
        for key in &row.keys {
            let _ = write!(out, "<th>{}</th>", escape(key));
        }
        for (cell, headings) in row.cells.iter().zip(&headings) {
            for (at, heading) in headings.iter().enumerate() {
                let text = cell.text(heading);
                let strong = if text.starts_with("NO") { format!("<b>{text}</b>") } else { escape(&text) };
                let _ = write!(out, "<td{}>{strong}</td>", first(at));
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    document::remarks(out, comparison.remarks());
}

fn study(out: &mut String, study: &Study) {
    study.sheets.iter().for_each(|found| sheet(out, found));
    checks(out, &study.checks);
    document::remarks(out, &study.remarks);
    study.figures.iter().for_each(|figure| out.push_str(&svg(figure)));
}

fn checks(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let rows = checks.iter().map(|check| check.texts().to_vec());
    document::table(out, &HEADINGS, rows, 0, &["does not hold"]);
}

fn sheet(out: &mut String, sheet: &Sheet) {
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&sheet.title));
    let labels = (!sheet.labels.is_empty()).then_some("");
    let headings: Vec<&str> =
        labels.into_iter().chain(sheet.columns.iter().map(|column| column.label.as_str())).collect();
    let rows = sheet.rows.iter().enumerate().map(|(at, row)| {
        let numbers = row.iter().enumerate().map(|(at, number)| sheet.text(at, *number));
        sheet.labels.get(at).cloned().into_iter().chain(numbers).collect()
    });
    document::table(out, &headings, rows, usize::from(labels.is_some()), &[]);
}

fn first(at: usize) -> &'static str {
    if at == 0 { " class=\"first\"" } else { "" }
}
