//! Paired comparison of two methods, run by run. Each replication has the same losses with both, as long as both send
//! the same packets (common random numbers).

use serde::Deserialize;

use super::findings::{Findings, Plans};
use super::kept::{List, Text};
use super::quantities::{Key, Quantity};
use super::simulation::SimulatedPoint;
use crate::check::{Check, CheckVerdict};
use crate::sheet::{Heading, Number, Sheet};
use crate::statistics::Summary;

/// Pair of plans to divide, and the checks of the quotients.
///
/// A cell has the geometric mean of the quotients, one per replication. A quotient of 2 in one run and 1/2 in the
/// next thus averages to 1: neither method is ahead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairedSpec {
    /// The plan that is divided.
    of: Text,
    /// The plan it is divided by: it has the same points.
    by: Text,
    /// Compared quantity; its label and digits are used for the quotient.
    quantity: Quantity,
    /// The keys that name a row.
    keys: List<Key>,
    /// The key that names a column.
    across: Key,
    /// Checks of the cells.
    checks: Vec<CellCheck>,
}

/// Something that is to hold in each of many cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellCheck {
    id: String,
    claim: String,
    /// Selection of cells: the value of this column is above this bound, or not.
    above: Option<(String, f64)>,
    not_above: Option<(String, f64)>,
    /// The quotient is this at least.
    at_least: f64,
}

/// The quotient at a point.
#[derive(Clone, Debug)]
struct Cell {
    row: Vec<f64>,
    column: f64,
    quotient: Number,
    /// Replications that only one of the two has a value of, or none.
    unpaired: usize,
}

impl PairedSpec {
    pub(super) fn findings(&self, plans: &Plans<'_>) -> Findings {
        let (Some(of), Some(by)) = (plans.find(self.of.0), plans.find(self.by.0)) else {
            return Findings::default();
        };
        let cells: Vec<Cell> =
            of.points.iter().zip(&by.points).filter_map(|(of, by)| self.cell(of, by)).collect();
        let unpaired: usize = cells.iter().map(|cell| cell.unpaired).sum();
        let mut remarks = vec![
            "Means of the quotients of runs with the same seed, by their logarithms, with 95 % intervals."
                .to_owned(),
        ];
        if unpaired > 0 {
            remarks.push(format!(
                "{unpaired} replications have no quotient: one of their two runs failed, or both."
            ));
        }
        Findings {
            sheets: vec![self.sheet(&cells)],
            checks: self.checks.iter().map(|check| self.check(check, &cells)).collect(),
            remarks,
            ..Findings::default()
        }
    }

    fn cell(&self, of: &SimulatedPoint, by: &SimulatedPoint) -> Option<Cell> {
        let number = |key: &Key| Some(of.number(key.scenario.0)? * key.scale);
        let metric = self.quantity.metric.0;
        let (quotient, unpaired) = quotient(of.runs(metric)?, by.runs(metric)?);
        Some(Cell {
            row: self.keys.iter().map(number).collect::<Option<_>>()?,
            column: number(&self.across)?,
            quotient,
            unpaired,
        })
    }

    fn sheet(&self, cells: &[Cell]) -> Sheet {
        let title = format!("{}, by {}", self.quantity.label, self.across.label);
        let keys = self.keys.iter().map(|key| Heading::exact(key.label.0));
        let columns: Vec<String> = cells.iter().map(|cell| format!("{}", cell.column)).collect();
        let cells =
            cells.iter().zip(&columns).map(|(cell, column)| (&cell.row[..], &column[..], cell.quotient));
        Sheet::crossed(self.quantity.column.0, title, keys, self.quantity.digits, cells)
    }

    fn check(&self, check: &CellCheck, cells: &[Cell]) -> Check {
        let value = |cell: &Cell, name: &str| {
            let keys = self.keys.iter().zip(cell.row.iter().copied()).chain([(&self.across, cell.column)]);
            keys.into_iter().find(|(key, _)| key.column.0 == name).map(|(_, value)| value)
        };
        let is_meant = |cell: &&Cell| {
            let above = |side: &Option<(String, f64)>, is_above: bool| match side {
                Some((name, bound)) => value(cell, name).is_some_and(|value| (value > *bound) == is_above),
                None => true,
            };
            above(&check.above, true) && above(&check.not_above, false)
        };
        let meant: Vec<&Cell> = cells.iter().filter(is_meant).collect();
        let low = |cell: &&Cell| cell.quotient.value - cell.quotient.half_width.unwrap_or(0.0);
        let high = |cell: &&Cell| cell.quotient.value + cell.quotient.half_width.unwrap_or(0.0);
        let count = |is: &dyn Fn(&&Cell) -> bool| meant.iter().filter(|cell| is(cell)).count();
        let holds = !meant.is_empty() && meant.iter().all(|cell| cell.quotient.value >= check.at_least);
        let certain = count(&|cell| low(cell) >= check.at_least);
        let against = count(&|cell| high(cell) < check.at_least);
        let least = meant.iter().min_by(|a, b| a.quotient.value.total_cmp(&b.quotient.value));
        let measured = least.map_or(String::new(), |cell| cell.quotient.text(self.quantity.digits + 1));
        Check {
            id: check.id.clone(),
            claim: check.claim.clone(),
            expected: format!(">= {}", check.at_least),
            measured,
            verdict: CheckVerdict::of(holds),
            note: format!(
                "the least of {} cells; {certain} lie above with their whole interval, {against} below",
                meant.len()
            ),
        }
    }
}

/// The mean quotient of the replications that both have, and how many there are besides.
fn quotient(of: &[f64], by: &[f64]) -> (Number, usize) {
    let pairs = of.iter().zip(by).map(|(of, by)| (of / by).ln());
    let mut logarithms: Vec<f64> = pairs.filter(|logarithm| logarithm.is_finite()).collect();
    let unpaired = of.len().max(by.len()) - logarithms.len();
    let of = Summary::of(&mut logarithms);
    // The interval was computed on logarithms and is almost symmetric for quotients near one.
    let half = (of.ci95_high - of.ci95_low) / 2.0 * of.mean.exp();
    (Number { value: of.mean.exp(), half_width: half.is_finite().then_some(half) }, unpaired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Static;

    #[test]
    fn runs_are_paired_and_failed_runs_are_counted() {
        let (number, unpaired) = quotient(&[2.0, 1.0, 4.0], &[1.0, 2.0, f64::NAN]);
        assert!((number.value - 1.0).abs() < 1e-12, "twice and half: {}", number.value);
        assert_eq!(unpaired, 1);
        // However far the runs are from each other, what one is to the other is the same.
        let (number, _) = quotient(&[1.1, 110.0, 11.0], &[1.0, 100.0, 10.0]);
        assert!((number.value - 1.1).abs() < 1e-12 && number.half_width.is_some_and(|half| half < 1e-9));
        assert!(quotient(&[f64::NAN], &[1.0]).0.value.is_nan());
    }

    #[test]
    fn a_check_looks_at_its_cells_and_names_the_least() {
        let key = |column: &'static str| Key {
            column: Static(column),
            label: Static(column),
            scenario: Static(column),
            scale: 1.0,
            log: false,
        };
        let spec = |above: Option<f64>, not_above: Option<f64>, at_least: f64| PairedSpec {
            of: Static("a"),
            by: Static("b"),
            quantity: Quantity {
                column: Static("q"),
                label: Static("q"),
                metric: Static("q"),
                scale: 1.0,
                digits: 2,
                bound: None,
                log: false,
            },
            keys: Static(vec![key("loss")].leak()),
            across: key("size"),
            checks: vec![CellCheck {
                id: "c".into(),
                claim: String::new(),
                above: above.map(|bound| ("loss".into(), bound)),
                not_above: not_above.map(|bound| ("loss".into(), bound)),
                at_least,
            }],
        };
        let cell = |loss: f64, value: f64, half: f64| Cell {
            row: vec![loss],
            column: 64.0,
            quotient: Number { value, half_width: Some(half) },
            unpaired: 0,
        };
        let cells = [cell(0.0, 0.99, 0.001), cell(5.0, 1.01, 0.02), cell(10.0, 1.2, 0.01)];
        let verdict = |spec: PairedSpec| {
            let check = spec.check(&spec.checks[0], &cells);
            (check.verdict == CheckVerdict::Holds, check.measured, check.note)
        };
        let (holds, measured, note) = verdict(spec(Some(0.0), None, 1.0));
        assert!(holds && measured == "1.010 ± 0.020", "{measured}");
        assert_eq!(note, "the least of 2 cells; 1 lie above with their whole interval, 0 below");
        assert!(verdict(spec(None, Some(0.0), 0.98)).0);
        let (holds, _, note) = verdict(spec(None, None, 1.0));
        assert!(!holds && note.ends_with("1 below"), "{note}");
        assert!(!verdict(spec(Some(99.0), None, 0.0)).0, "nothing was compared");
    }
}
