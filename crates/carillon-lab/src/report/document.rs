//! Self-contained HTML document: a heading, an introduction, sections with a list of contents, and the style.

use std::fmt::Write as _;

use crate::plot::escape;

/// An HTML document under construction.
#[derive(Debug)]
pub(super) struct Document {
    title: String,
    introduction: String,
    contents: String,
    body: String,
}

impl Document {
    /// A document without sections.
    pub(super) fn new(title: &str, introduction: &str) -> Self {
        Document {
            title: escape(title),
            introduction: escape(introduction),
            contents: String::new(),
            body: String::new(),
        }
    }

    /// Adds a section with an entry in the contents. `subtitle` is the paragraph below the heading, and the text of the
    /// entry; `body` is HTML.
    pub(super) fn section(&mut self, id: &str, heading: &str, subtitle: &str, body: &str) {
        let (id, heading, subtitle) = (escape(id), escape(heading), escape(subtitle));
        let _ = writeln!(self.contents, "<li><a href=\"#{id}\">{heading}</a> {subtitle}</li>");
        let _ = writeln!(self.body, "<section id=\"{id}\">\n<h2>{heading}</h2>");
        if !subtitle.is_empty() {
            let _ = writeln!(self.body, "<p>{subtitle}</p>");
        }
        self.body.push_str(body);
        self.body.push_str("</section>\n");
    }

    /// The document. `summary` is HTML between introduction and contents.
    pub(super) fn html(&self, summary: &str) -> String {
        let Document { title, introduction, contents, body } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p>{introduction}</p>\n{summary}<details class=\"contents\">\n<summary>Contents</summary>\n<ul>\n{contents}</ul>\n</details>\n{body}</body>\n</html>\n",
        )
    }
}

/// Writes a table of texts. The first `names` cells of a row are headings of the row; texts in `strong` are emphasised.
pub(super) fn table(
    out: &mut String,
    headings: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    names: usize,
    strong: &[&str],
) {
    out.push_str("<div class=\"wide\"><table>\n<thead>\n<tr>");
    for heading in headings {
        let _ = write!(out, "<th>{}</th>", escape(heading));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (at, text) in row.iter().enumerate() {
            let cell = if at < names { "th" } else { "td" };
            let escaped = escape(text);
            let _ = match strong.contains(&text.as_str()) {
                true => write!(out, "<{cell}><b>{escaped}</b></{cell}>"),
                false => write!(out, "<{cell}>{escaped}</{cell}>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Writes remarks as a list.
pub(super) fn remarks(out: &mut String, remarks: impl IntoIterator<Item = impl AsRef<str>>) {
    out.push_str("<ul class=\"note\">\n");
    for remark in remarks {
        let _ = writeln!(out, "<li>{}</li>", escape(remark.as_ref()));
    }
    out.push_str("</ul>\n");
}

const STYLE: &str = "\
body { font: 15px/1.45 'DejaVu Sans', Verdana, sans-serif; color: #000; background: #fff; max-width: 68em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2.2em 0 0; }
p { margin: .3em 0 .8em; } .note { color: #333; font-size: .87em; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8em; font-variant-numeric: tabular-nums; }
th, td { padding: .12em .55em; text-align: right; font-weight: normal; white-space: nowrap; }
thead th { border-bottom: 1px solid #000; } .first { border-left: 1px solid #999; }
tbody tr:nth-child(even) { background: #f4f4f4; } table b { font-weight: bold; }
.facts th, .facts td { text-align: left; white-space: normal; } .facts th { white-space: nowrap; vertical-align: top; }
pre { background: #f4f4f4; padding: .6em .8em; font-size: .8em; overflow-x: auto; }
svg { max-width: 100%; height: auto; } summary { cursor: pointer; }
@media print { body { font-size: 10px; margin: 0; } section { break-inside: avoid; } .contents { display: none; } }
";
