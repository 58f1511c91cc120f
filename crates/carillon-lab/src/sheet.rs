//! A sheet: a table of numbers for people, programs and pages alike.

use std::fmt;

use serde::Serialize;

use crate::plot::distinct;
use crate::statistics::Summary;
use crate::table::{Cell, ColumnKind, Table, TableError};

/// A table of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// Its name: of files.
    pub name: String,
    /// Title.
    pub title: String,
    /// Row names, where numbers do not name the rows; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Its columns.
    pub columns: Vec<Heading>,
    /// Its rows: a number for each column.
    pub rows: Vec<Vec<Number>>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heading {
    /// Heading of the column, with its unit; unique in a sheet.
    pub label: String,
    /// Digits after the point; as many as a number has, if not said.
    pub digits: Option<usize>,
}

/// A number of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Number {
    /// Its value; NaN if there is none.
    pub value: f64,
    /// Half the width of the 95 % confidence interval, for a mean of several samples.
    pub half_width: Option<f64>,
}

impl Heading {
    /// A column of numbers that are written as they are.
    pub fn exact(label: impl Into<String>) -> Self {
        Heading { label: label.into(), digits: None }
    }

    /// Creates a column of numbers with `digits` digits after the decimal point.
    pub fn rounded(label: impl Into<String>, digits: usize) -> Self {
        Heading { label: label.into(), digits: Some(digits) }
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number { value, half_width: None }
    }
}

impl Number {
    /// The mean of these, times a factor.
    pub fn of(summary: &Summary, scale: f64) -> Self {
        let half_width = (summary.ci95_high - summary.mean) * scale;
        Number { value: summary.mean * scale, half_width: half_width.is_finite().then_some(half_width) }
    }

    /// The quotient of two that are independent.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let value = self.value / below.value;
        let relative = |of: Self| Some(of.half_width? / of.value);
        let half_width = relative(self).zip(relative(below)).map(|(a, b)| value.abs() * a.hypot(b));
        Number { value, half_width }
    }

    /// The difference of two that are independent.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        let half_width = self.half_width.zip(other.half_width).map(|(a, b)| a.hypot(b));
        Number { value: self.value - other.value, half_width }
    }

    /// Formats the number and its confidence interval with `digits` digits after the decimal point.
    pub fn text(self, digits: usize) -> String {
        match self.half_width {
            Some(half) => format!("{:.digits$} ± {half:.digits$}", self.value),
            None => format!("{:.digits$}", self.value),
        }
    }
}

impl Sheet {
    /// Creates a sheet from cells that each name a row and a column. A row begins with its keys, below their
    /// headings; a column is headed by its name. Rows and columns appear in the order in which cells first name them.
    pub fn crossed<'a>(
        name: &str,
        title: String,
        keys: impl Iterator<Item = Heading>,
        digits: usize,
        cells: impl Iterator<Item = (&'a [f64], &'a str, Number)> + Clone,
    ) -> Self {
        let names = distinct(cells.clone().map(|(_, name, _)| name));
        let rows = distinct(cells.clone().map(|(row, ..)| row)).into_iter().map(|row| {
            let cell = |name: &&str| {
                let found = cells.clone().find(|(of_row, of_name, _)| *of_row == row && of_name == name);
                found.map_or(f64::NAN.into(), |(.., number)| number)
            };
            row.iter().map(|key| (*key).into()).chain(names.iter().map(cell)).collect()
        });
        Sheet {
            name: name.to_owned(),
            title,
            labels: Vec::new(),
            rows: rows.collect(),
            columns: keys.chain(names.iter().map(|name| Heading::rounded(*name, digits))).collect(),
        }
    }

    /// The text of a number in this column.
    pub fn text(&self, column: usize, number: Number) -> String {
        if number.value.is_nan() {
            return "-".into();
        }
        let written = |value: f64| match self.columns[column].digits {
            Some(digits) => format!("{value:.digits$}"),
            None => format!("{}", (value * 1e9).round() / 1e9),
        };
        match number.half_width {
            Some(half) => format!("{} ±{}", written(number.value), written(half)),
            None => written(number.value),
        }
    }

    /// The sheet for other programs: an interval has a column of its own.
    pub fn table(&self) -> Result<Table, TableError> {
        let has_interval = |column: usize| self.rows.iter().any(|row| row[column].half_width.is_some());
        let columns: Vec<(usize, bool)> =
            (0..self.columns.len()).map(|column| (column, has_interval(column))).collect();
        let names = columns.iter().flat_map(|&(column, interval)| {
            let label = &self.columns[column].label;
            [Some(label.clone()), interval.then(|| format!("{label}, ci95 half width"))]
        });
        let labelled = (!self.labels.is_empty()).then(|| ("of".to_owned(), ColumnKind::Text));
        let numbers = names.flatten().map(|name| (name, ColumnKind::Real));
        let mut table = Table::new(labelled.into_iter().chain(numbers))?;
        for (at, row) in self.rows.iter().enumerate() {
            let label = self.labels.get(at).map(|label| Cell::from(label.clone()));
            table.push(label.into_iter().chain(columns.iter().flat_map(|&(column, interval)| {
                let Number { value, half_width } = row[column];
                let half_width = interval.then_some(half_width.unwrap_or(f64::NAN));
                [Some(value), half_width].into_iter().flatten().map(Cell::Real)
            })));
        }
        Ok(table)
    }
}

/// The sheet as text, for a terminal or a paper.
impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().enumerate().map(|(at, number)| self.text(at, *number)).collect())
            .collect();
        let width = |at: usize| {
            let cells = texts.iter().map(|row| row[at].chars().count());
            cells.chain([self.columns[at].label.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        writeln!(f, "{}", self.title)?;
        let heads: Vec<String> = self.columns.iter().map(|column| column.label.clone()).collect();
        let longest = self.labels.iter().map(|label| label.chars().count()).max();
        let labels =
            std::iter::once("").chain(self.labels.iter().map(String::as_str)).chain(std::iter::repeat(""));
        for (row, label) in std::iter::once(&heads).chain(&texts).zip(labels) {
            if let Some(longest) = longest {
                write!(f, "  {label:longest$}")?;
            }
            for (text, width) in row.iter().zip(&widths) {
                write!(f, "  {text:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mean = Number { value: 12.346, half_width: Some(0.111) };
        Sheet {
            name: "s".into(),
            title: "Means".into(),
            labels: Vec::new(),
            columns: vec![Heading::exact("loss %"), Heading::rounded("Mbit/s", 2), Heading::rounded("ms", 1)],
            rows: vec![
                vec![0.1.into(), mean, 3.0.into()],
                vec![10.0.into(), f64::NAN.into(), f64::NAN.into()],
            ],
        }
    }

    #[test]
    fn numbers_stand_below_their_headings_with_their_intervals() {
        assert_eq!(
            sheet().to_string(),
            "Means\n  loss %       Mbit/s   ms\n     0.1  12.35 ±0.11  3.0\n      10            -    -\n"
        );
    }

    #[test]
    fn in_csv_an_interval_has_a_column_and_what_is_missing_is_empty() {
        let mut csv = Vec::new();
        sheet().table().unwrap().to_csv(&mut csv).unwrap();
        assert_eq!(
            String::from_utf8(csv).unwrap(),
            "loss %,Mbit/s,\"Mbit/s, ci95 half width\",ms\n0.1,12.346,0.111,3\n10,,,\n"
        );
    }
}
