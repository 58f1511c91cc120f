//! Results of experiments as text for a terminal.

use std::fmt;
use std::time::Duration;

use crate::check;
use crate::reproduce::{Comparison, Study};

/// The table as text, for a terminal or a paper.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.id, self.title)?;
        writeln!(f, "{}", self.published)?;
        writeln!(f)?;
        let widths: Vec<usize> = (0..self.keys.len())
            .map(|i| self.rows.iter().map(|row| row.keys[i].len()).max().unwrap_or(0).max(self.keys[i].len()))
            .collect();
        let quantities = self.rows.first().map_or(0, |row| row.cells.len());
        let headings: Vec<Vec<&str>> = (0..quantities).map(|at| self.headings(at)).collect();
        for width in &widths {
            write!(f, "{:width$}  ", "")?;
        }
        for (at, headings) in headings.iter().enumerate() {
            let width = headings.iter().map(|heading| column_width(heading) + 1).sum::<usize>();
            write!(f, "| {:<width$}", self.rows[0].cells[at].label)?;
        }
        writeln!(f)?;
        for (key, width) in self.keys.iter().zip(&widths) {
            write!(f, "{key:>width$}  ")?;
        }
        for headings in &headings {
            write!(f, "| ")?;
            for heading in headings {
                let width = column_width(heading);
                write!(f, "{heading:>width$} ")?;
            }
        }
        writeln!(f)?;
        for row in &self.rows {
            for (key, width) in row.keys.iter().zip(&widths) {
                write!(f, "{key:>width$}  ")?;
            }
            for (cell, headings) in row.cells.iter().zip(&headings) {
                write!(f, "| ")?;
                for heading in headings {
                    let width = column_width(heading);
                    write!(f, "{:>width$} ", cell.text(heading))?;
                }
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for remark in self.remarks() {
            writeln!(f, "{remark}")?;
        }
        work(f, self.steps, self.wall)
    }
}

/// The study as text, for a terminal or a paper.
impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.id, self.title)?;
        for sheet in &self.sheets {
            writeln!(f, "{sheet}")?;
        }
        if !self.checks.is_empty() {
            check::write(f, &self.checks)?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        work(f, self.steps, self.wall)
    }
}

/// Writes the cost of the simulation: its steps and its time.
fn work(f: &mut fmt::Formatter<'_>, steps: u64, wall: Duration) -> fmt::Result {
    let (seconds, steps_of_all) = (wall.as_secs_f64(), steps as f64);
    let rate = steps_of_all / seconds / 1e6;
    writeln!(f, "{steps} simulation steps in {seconds:.2} s ({rate:.1} million a second).")
}

fn column_width(heading: &str) -> usize {
    match heading {
        "diff" => 7,
        "published" | "within" => 9,
        _ => 8,
    }
}
