//! A figure as SVG.

use std::fmt::Write as _;

use super::axis::{Scale, tick_text};
use super::figure::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Percentiles, Series};

const WIDTH: f64 = 720.0;
const PLOT_HEIGHT: f64 = 380.0;
const LEFT_MARGIN: f64 = 84.0;
const RIGHT_MARGIN: f64 = 36.0;
const LINE_HEIGHT: f64 = 18.0;

/// Characters of a line of the title and of a note, at 8.8 and 7.4 a character, which few texts in the
/// font exceed.
const TITLE_CHARACTERS: usize = 72;
const NOTE_CHARACTERS: usize = 84;

/// Colours of the series, distinguishable with colour blindness and by their lightness in print (Okabe and Ito 2008).
const COLOURS: [&str; 6] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f"];

/// A figure as SVG: one element, no references to anything outside it.
pub fn svg(figure: &Figure) -> String {
    let corners = || figure.series.iter().flat_map(|series| series.marks.extent());
    let range = |axis: &Axis| axis.range.into_iter().flat_map(|(low, high)| [low, high]).collect::<Vec<_>>();
    let x = match figure.x.categories.len() {
        0 => Scale::new(corners().map(|(x, _)| x).chain(range(&figure.x)), figure.x.log, 0.04),
        count => Scale::categories(count),
    };
    let y = Scale::new(corners().map(|(_, y)| y).chain(range(&figure.y)), figure.y.log, 0.0);
    let title = title_lines(&figure.title);
    let notes: Vec<String> = figure.notes.iter().flat_map(|note| wrap(note, NOTE_CHARACTERS)).collect();
    let top = 24.0 + LINE_HEIGHT * (title.len() + notes.len()) as f64;
    let legend = top + PLOT_HEIGHT + 62.0 + slope(&figure.x);
    let named: Vec<&Series> = figure.series.iter().filter(|series| !series.name.is_empty()).collect();
    let rows = named.len().div_ceil(2);
    let height = legend + LINE_HEIGHT * rows as f64 + 6.0;
    let frame = Frame { x, y, top };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"12\" fill=\"#000\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escape(&figure.title)
    );
    let bold = " font-size=\"14\" font-weight=\"bold\"";
    let heading =
        title.iter().map(|line| (line, bold)).chain(notes.iter().map(|line| (line, " fill=\"#444\"")));
    for (at, (line, style)) in heading.enumerate() {
        text(&mut out, LEFT_MARGIN, 24.0 + LINE_HEIGHT * at as f64, "start", style, line);
    }
    frame.axes(&mut out, figure);
    for series in &figure.series {
        frame.series(&mut out, series);
    }
    for (at, series) in named.into_iter().enumerate() {
        let x = LEFT_MARGIN + if at < rows { 0.0 } else { (WIDTH - LEFT_MARGIN - RIGHT_MARGIN) / 2.0 };
        let y = legend + LINE_HEIGHT * (at % rows.max(1)) as f64;
        key(&mut out, series, x, y - 4.0);
        text(&mut out, x + 40.0, y, "start", "", &series.name);
    }
    out.push_str("</svg>\n");
    out
}

/// Several figures as one drawing, side by side in two columns.
pub fn panels_svg(figures: &[Figure]) -> String {
    if let [only] = figures {
        return svg(only);
    }
    let drawn: Vec<(String, f64)> = figures
        .iter()
        .map(|figure| {
            let text = svg(figure);
            let height = text.split_once("height=\"").and_then(|(_, rest)| rest.split_once('"'));
            let height = height.and_then(|(height, _)| height.parse().ok()).unwrap_or(PLOT_HEIGHT);
            (text, height)
        })
        .collect();
    let (mut body, mut y) = (String::new(), 0.0);
    for row in drawn.chunks(2) {
        for (column, (text, _)) in row.iter().enumerate() {
            let place = format!("<svg x=\"{}\" y=\"{y}\"", column as f64 * WIDTH);
            body.push_str(&text.replacen("<svg xmlns=\"http://www.w3.org/2000/svg\"", &place, 1));
        }
        y += row.iter().map(|(_, height)| *height).fold(0.0, f64::max);
    }
    let width = 2.0 * WIDTH;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\" width=\"{width}\" height=\"{y}\">\n\
         <rect width=\"{width}\" height=\"{y}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Divisor of the tick labels and caption of an axis: bit rates have the prefix that fits the largest tick.
fn prefixed(axis: &Axis, ticks: &[f64]) -> (f64, String) {
    let largest = ticks.iter().fold(0.0_f64, |largest, tick| largest.max(tick.abs()));
    let prefix = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(factor, _)| largest >= *factor);
    match (axis.unit.as_deref(), prefix) {
        (Some("bit/s"), Some((factor, prefix))) if !axis.log => {
            (factor, format!("{} ({prefix}bit/s)", axis.label))
        }
        _ => (1.0, axis.caption()),
    }
}

/// Extra height for slanted category names at the horizontal axis; 0 if the names fit level.
fn slope(axis: &Axis) -> f64 {
    let longest = axis.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let room = (WIDTH - LEFT_MARGIN - RIGHT_MARGIN) / axis.categories.len().max(1) as f64;
    if longest * CHARACTER_WIDTH <= room { 0.0 } else { (longest * CHARACTER_WIDTH * 0.5).min(120.0) }
}

/// The width of a character, which few exceed.
const CHARACTER_WIDTH: f64 = 7.4;

/// The plot area and its two scales.
struct Frame {
    x: Scale,
    y: Scale,
    top: f64,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT_MARGIN + self.x.at(x) * (WIDTH - LEFT_MARGIN - RIGHT_MARGIN),
            self.top + (1.0 - self.y.at(y)) * PLOT_HEIGHT,
        )
    }

    fn axes(&self, out: &mut String, figure: &Figure) {
        let (right, bottom) = (WIDTH - RIGHT_MARGIN, self.top + PLOT_HEIGHT);
        let (factor, caption) = prefixed(&figure.y, &self.y.ticks);
        for &tick in &self.y.ticks {
            let y = bottom - self.y.at(tick) * PLOT_HEIGHT;
            line(out, (LEFT_MARGIN, y), (right, y), "stroke=\"#ddd\"");
            line(out, (LEFT_MARGIN - 5.0, y), (LEFT_MARGIN, y), "stroke=\"#000\"");
            text(out, LEFT_MARGIN - 9.0, y + 4.0, "end", "", &tick_text(tick / factor));
        }
        let slope = slope(&figure.x);
        for (at, &tick) in self.x.ticks.iter().enumerate() {
            let x = LEFT_MARGIN + self.x.at(tick) * (right - LEFT_MARGIN);
            line(out, (x, bottom), (x, bottom + 5.0), "stroke=\"#000\"");
            match figure.x.categories.get(at) {
                None => text(out, x, bottom + 19.0, "middle", "", &tick_text(tick)),
                Some(name) if slope == 0.0 => text(out, x, bottom + 19.0, "middle", "", name),
                Some(name) => {
                    let turned = format!(" transform=\"rotate(-30 {x:.2} {:.2})\"", bottom + 15.0);
                    text(out, x, bottom + 15.0, "end", &turned, name);
                }
            }
        }
        let _ = writeln!(
            out,
            "<rect x=\"{LEFT_MARGIN}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{PLOT_HEIGHT}\" fill=\"none\" stroke=\"#000\"/>",
            self.top,
            right - LEFT_MARGIN
        );
        text(out, (LEFT_MARGIN + right) / 2.0, bottom + 38.0 + slope, "middle", "", &figure.x.caption());
        let middle = self.top + PLOT_HEIGHT / 2.0;
        let turned = format!(" transform=\"rotate(-90 16 {middle:.2})\"");
        text(out, 16.0, middle, "middle", &turned, &caption);
    }

    fn series(&self, out: &mut String, series: &Series) {
        let colour = colour(series);
        match &series.marks {
            Marks::Line { points, dash, marker } => {
                self.polyline(out, points.iter().copied(), &stroke(colour, *dash));
                for &(x, y) in points {
                    if let Some(marker) = marker {
                        mark(out, self.place(x, y), *marker, colour);
                    }
                }
            }
            Marks::Points { points, marker } => {
                for &(x, y) in points {
                    mark(out, self.place(x, y), *marker, colour);
                }
            }
            Marks::Band { points } => {
                let there = points.iter().map(|&(x, _, high)| self.place(x, high));
                let back = points.iter().rev().map(|&(x, low, _)| self.place(x, low));
                let corners = list(there.chain(back));
                let _ = writeln!(out, "<polygon points=\"{corners}\" {}/>", area(colour));
            }
            Marks::Whiskers { points } => {
                points.iter().for_each(|&(x, low, high)| self.range(out, x, low, high, colour));
            }
            Marks::HiLoMean { points } => {
                for &HiLoMean { x, low, high, .. } in points {
                    self.range(out, x, low, high, colour);
                }
                let means = points.iter().map(|point| (point.x, point.mean));
                self.polyline(out, means.clone(), &stroke(colour, Dash::Solid));
                for (x, mean) in means {
                    mark(out, self.place(x, mean), Marker::Disc, colour);
                }
            }
            Marks::Boxes { points } => {
                for &Percentiles { x, min, p25, p50, p75, max } in points {
                    self.range(out, x, min, max, colour);
                    let ((x, upper), (_, lower), (_, median)) =
                        (self.place(x, p75), self.place(x, p25), self.place(x, p50));
                    boxed(out, x, upper, lower, 8.0, colour);
                    line(out, (x - 8.0, median), (x + 8.0, median), &stroke(colour, Dash::Solid));
                }
            }
        }
    }

    fn range(&self, out: &mut String, x: f64, low: f64, high: f64, colour: &str) {
        let ((x, low), (_, high)) = (self.place(x, low), self.place(x, high));
        whisker(out, x, low, high, colour);
    }

    fn polyline(&self, out: &mut String, points: impl Iterator<Item = (f64, f64)>, stroke: &str) {
        let points = list(points.map(|(x, y)| self.place(x, y)));
        let _ = writeln!(out, "<polyline points=\"{points}\" fill=\"none\" {stroke}/>");
    }
}

/// The sample of a series in the legend, 32 wide.
fn key(out: &mut String, series: &Series, x: f64, y: f64) {
    let colour = colour(series);
    let middle = x + 16.0;
    match &series.marks {
        Marks::Line { dash, marker, .. } => {
            line(out, (x, y), (x + 32.0, y), &stroke(colour, *dash));
            if let Some(marker) = marker {
                mark(out, (middle, y), *marker, colour);
            }
        }
        Marks::Points { marker, .. } => mark(out, (middle, y), *marker, colour),
        Marks::Band { .. } => {
            let _ = writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{:.2}\" width=\"32\" height=\"10\" {}/>",
                y - 5.0,
                area(colour)
            );
        }
        Marks::Whiskers { .. } => whisker(out, middle, y + 6.0, y - 6.0, colour),
        Marks::HiLoMean { .. } => {
            whisker(out, middle, y + 6.0, y - 6.0, colour);
            line(out, (x, y), (x + 32.0, y), &stroke(colour, Dash::Solid));
            mark(out, (middle, y), Marker::Disc, colour);
        }
        Marks::Boxes { .. } => {
            whisker(out, middle, y + 7.0, y - 7.0, colour);
            boxed(out, middle, y - 4.0, y + 4.0, 8.0, colour);
            line(out, (middle - 8.0, y), (middle + 8.0, y), &stroke(colour, Dash::Solid));
        }
    }
}

fn colour(series: &Series) -> &'static str {
    COLOURS[usize::from(series.colour) % COLOURS.len()]
}

fn stroke(colour: &str, dash: Dash) -> String {
    let gaps = match dash {
        Dash::Solid => "",
        Dash::Dashed => " stroke-dasharray=\"8 4\"",
        Dash::Dotted => " stroke-dasharray=\"2 3\"",
        Dash::DashDot => " stroke-dasharray=\"9 3 2 3\"",
    };
    format!("stroke=\"{colour}\" stroke-width=\"1.6\"{gaps}")
}

/// A tint with an edge: print without colour leaves little of the tint.
fn area(colour: &str) -> String {
    format!(
        "fill=\"{colour}\" fill-opacity=\"0.18\" stroke=\"{colour}\" stroke-opacity=\"0.5\" stroke-width=\"0.6\""
    )
}

fn whisker(out: &mut String, x: f64, low: f64, high: f64, colour: &str) {
    let thin = format!("stroke=\"{colour}\" stroke-width=\"1\"");
    line(out, (x, low), (x, high), &thin);
    for end in [low, high] {
        line(out, (x - 4.0, end), (x + 4.0, end), &thin);
    }
}

fn boxed(out: &mut String, x: f64, upper: f64, lower: f64, half: f64, colour: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{:.2}\" y=\"{upper:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"#d9d9d9\" stroke=\"{colour}\"/>",
        x - half,
        2.0 * half,
        lower - upper
    );
}

fn mark(out: &mut String, (x, y): (f64, f64), marker: Marker, colour: &str) {
    let corners: &[(f64, f64)] = match marker {
        Marker::Circle => {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"5.5\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\"/>"
            );
            return;
        }
        Marker::Disc => {
            let _ = writeln!(out, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"3\" fill=\"{colour}\"/>");
            return;
        }
        Marker::OpenSquare => &[(-5.5, -5.5), (5.5, -5.5), (5.5, 5.5), (-5.5, 5.5)],
        Marker::OpenTriangle => &[(0.0, -8.5), (7.6, 5.3), (-7.6, 5.3)],
        Marker::OpenDiamond => &[(0.0, -8.0), (6.8, 0.0), (0.0, 8.0), (-6.8, 0.0)],
        Marker::Square => &[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)],
        Marker::Triangle => &[(0.0, -4.5), (4.3, 3.2), (-4.3, 3.2)],
        Marker::Diamond => &[(0.0, -5.0), (4.2, 0.0), (0.0, 5.0), (-4.2, 0.0)],
    };
    let corners = list(corners.iter().map(|(dx, dy)| (x + dx, y + dy)));
    let style = match marker == marker.outline() {
        true => format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\""),
        false => format!("fill=\"{colour}\""),
    };
    let _ = writeln!(out, "<polygon points=\"{corners}\" {style}/>");
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), stroke: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(out, "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" {stroke}/>");
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, more: &str, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\"{more}>{}</text>",
        escape(text)
    );
}

/// The lines of a title; if it does not fit into one, what stands in brackets at its end is another.
fn title_lines(title: &str) -> Vec<String> {
    match title.rfind(" (") {
        Some(at) if title.chars().count() > TITLE_CHARACTERS => {
            let (first, second) = title.split_at(at);
            [first, &second[1..]].iter().flat_map(|part| wrap(part, TITLE_CHARACTERS)).collect()
        }
        _ => wrap(title, TITLE_CHARACTERS),
    }
}

/// The lines of a text that has to fit between the left edge of the plot and that of the picture.
fn wrap(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn list(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    points.join(" ")
}

/// Text as it stands in SVG and HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
