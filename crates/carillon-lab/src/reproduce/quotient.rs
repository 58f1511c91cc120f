//! Comparison of two methods by their quotient, each with its best plan.

use serde::Deserialize;

use super::kept::Text;
use super::mean::Mean;
use super::quantities::Quantity;
use crate::plot::distinct;

/// Quotient of two methods.
///
/// Of each method it takes the greatest mean among the plans, that is, the settings best for it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotient {
    /// The way that is divided.
    pub of: Text,
    /// The way it is divided by.
    pub by: Text,
    /// The quotient.
    pub quantity: Quantity,
    /// Number of leading keys with a separate figure for each value.
    pub figures_by: usize,
}

impl Quotient {
    /// The quotient of each row, as a mean of its own.
    pub(super) fn means(&self, means: &[Mean]) -> Vec<Mean> {
        let rows = distinct(means.iter().map(|mean| &mean.row[..]));
        let quotients = rows.into_iter().map(|row| {
            let best = |way: &str| {
                let of_way = means.iter().filter(|mean| mean.row == row && mean.way.as_deref() == Some(way));
                of_way.map(|mean| mean.number.value).fold(f64::NAN, f64::max)
            };
            Mean {
                row: row.to_vec(),
                way: None,
                alternative: format!("{} / {}", self.of, self.by),
                number: (best(self.of.0) / best(self.by.0)).into(),
                expected: None,
                n: 0,
            }
        });
        quotients.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Static;

    #[test]
    fn each_method_uses_its_best_plan() {
        let mean = |loss: f64, plan: &str, way: &str, value: f64| Mean {
            row: vec![loss],
            way: Some(way.to_owned()),
            alternative: format!("{plan} {way}"),
            number: value.into(),
            expected: None,
            n: 1,
        };
        let means = [
            mean(1.0, "short", "unicast", 2.0),
            mean(1.0, "short", "multicast", 8.0),
            mean(1.0, "long", "unicast", 6.0),
            mean(1.0, "long", "multicast", 4.0),
            mean(5.0, "short", "unicast", 3.0),
        ];
        let quantity = Quantity {
            column: Static("q"),
            label: Static("q"),
            metric: Static("q"),
            scale: 1.0,
            digits: 2,
            bound: None,
            log: false,
        };
        let quotient = Quotient { of: Static("unicast"), by: Static("multicast"), quantity, figures_by: 0 };
        let [one, other] = &quotient.means(&means)[..] else { panic!("two rows") };
        assert_eq!((one.row[0], one.number.value), (1.0, 0.75));
        assert!(other.row[0] == 5.0 && other.number.value.is_nan(), "there is nothing to divide by");
    }
}
