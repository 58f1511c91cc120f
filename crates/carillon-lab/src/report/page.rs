//! Self-contained HTML page: tables beside published numbers, figures, deviations, studies.

use std::fmt::Write as _;

use crate::plot::{escape, svg};
use crate::reproduce::{Check, Comparison, Experiment, HEADINGS, Outcome, Sheet, Study};

/// A page in the making.
#[derive(Debug)]
pub struct Page {
    title: String,
    contents: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), contents: String::new(), body: String::new() }
    }

    /// Adds what an experiment gave.
    pub fn add(&mut self, experiment: &Experiment, outcome: &Outcome) {
        let (id, title) = (escape(experiment.id), escape(experiment.title));
        let _ = writeln!(self.contents, "<li><a href=\"#{id}\">{id}</a> {title}</li>");
        let _ = writeln!(self.body, "<section id=\"{id}\">\n<h2>{id}</h2>\n<p>{title}</p>");
        match outcome {
            Outcome::Table(comparison) => table(&mut self.body, comparison),
            Outcome::Figure(figure) => self.body.push_str(&svg(figure)),
            Outcome::Study(found) => study(&mut self.body, found),
        }
        self.body.push_str("</section>\n");
    }

    /// The page.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p>{INTRODUCTION}</p>\n<details>\n<summary>Contents</summary>\n<ul>\n{}</ul>\n</details>\n{}</body>\n</html>\n",
            self.contents, self.body
        )
    }
}

fn table(out: &mut String, comparison: &Comparison) {
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
    out.push_str("</tbody>\n</table></div>\n<ul class=\"note\">\n");
    for remark in comparison.remarks() {
        let _ = writeln!(out, "<li>{}</li>", escape(&remark));
    }
    out.push_str("</ul>\n");
}

fn study(out: &mut String, study: &Study) {
    study.sheets.iter().for_each(|found| sheet(out, found));
    checks(out, &study.checks);
    out.push_str("<ul class=\"note\">\n");
    for remark in &study.remarks {
        let _ = writeln!(out, "<li>{}</li>", escape(remark));
    }
    out.push_str("</ul>\n");
    study.figures.iter().for_each(|figure| out.push_str(&svg(figure)));
}

fn checks(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    out.push_str("<div class=\"wide\"><table>\n<thead>\n<tr>");
    for heading in HEADINGS {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for check in checks {
        out.push_str("<tr>");
        for text in check.texts() {
            let text = escape(&text);
            let fails = text == "does not hold";
            let _ =
                if fails { write!(out, "<td><b>{text}</b></td>") } else { write!(out, "<td>{text}</td>") };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn sheet(out: &mut String, sheet: &Sheet) {
    let _ = write!(
        out,
        "<p class=\"note\">{}</p>\n<div class=\"wide\"><table>\n<thead>\n<tr>",
        escape(&sheet.title)
    );
    if !sheet.labels.is_empty() {
        out.push_str("<th></th>");
    }
    for column in &sheet.columns {
        let _ = write!(out, "<th>{}</th>", escape(&column.label));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for (at, row) in sheet.rows.iter().enumerate() {
        out.push_str("<tr>");
        if let Some(label) = sheet.labels.get(at) {
            let _ = write!(out, "<th>{}</th>", escape(label));
        }
        for (at, number) in row.iter().enumerate() {
            let _ = write!(out, "<td>{}</td>", escape(&sheet.text(at, *number)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn first(at: usize) -> &'static str {
    if at == 0 { " class=\"first\"" } else { "" }
}

const INTRODUCTION: &str = "Means are simulated; “published” is the source's mean, “diff” the relative difference, \
“within” what it amounts to: within three standard errors of the published run (3 s.e.), within the accepted relative \
difference (%), outside and known to be (NO, known), or outside (NO). UBRT, UBAT and LBL are the theoretical bounds. \
Extremes are those of more packets than the source sent, so they lie further out. Studies answer questions that a \
source left open, without published numbers; “±” is half the width of the 95 % confidence interval of a mean.";

const STYLE: &str = "\
body { font: 15px/1.45 'DejaVu Sans', Verdana, sans-serif; color: #000; background: #fff; max-width: 68em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2.2em 0 0; }
p { margin: .3em 0 .8em; } .note { color: #333; font-size: .87em; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8em; font-variant-numeric: tabular-nums; }
th, td { padding: .12em .55em; text-align: right; font-weight: normal; white-space: nowrap; }
thead th { border-bottom: 1px solid #000; } .first { border-left: 1px solid #999; }
tbody tr:nth-child(even) { background: #f4f4f4; } table b { font-weight: bold; }
svg { max-width: 100%; height: auto; } summary { cursor: pointer; }
@media print { body { font-size: 10px; margin: 0; } section { break-inside: avoid; } details { display: none; } }
";
