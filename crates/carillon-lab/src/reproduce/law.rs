//! Law of the best random acknowledgment wait: R = a (alpha r - beta).
//!
//! A [`Sweep`] has the message latency over the wait, for each number of receivers. The law is the pair of alpha and
//! beta that costs least over all sweeps. Its cost is the latency in excess of the best wait tried for each group.

use serde::Serialize;

/// Latencies over waits, for several groups.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Time of an acknowledgment on the medium, a, in the unit of the waits.
    pub ack: f64,
    /// A row for each number of receivers.
    pub rows: Vec<Row>,
}

/// Latencies measured with one group.
#[derive(Clone, Debug)]
pub struct Row {
    /// Receivers r.
    pub receivers: f64,
    /// Waits R, ascending, and the latency with each.
    pub latencies: Vec<(f64, f64)>,
}

/// R = a (alpha r - beta), or zero where that is below it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Law {
    /// Times a for each receiver.
    pub alpha: f64,
    /// Times a less.
    pub beta: f64,
}

/// A law and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The law.
    pub law: Law,
    /// Excess of its latency over the least one that was measured: the mean over all groups, as a share.
    pub mean_excess: f64,
    /// The greatest.
    pub greatest_excess: f64,
}

impl Law {
    /// The wait for r receivers and acknowledgments of this time.
    pub fn wait(&self, receivers: f64, ack: f64) -> f64 {
        (ack * (self.alpha * receivers - self.beta)).max(0.0)
    }
}

impl Row {
    /// The wait with the least latency, and that latency.
    pub fn best(&self) -> Option<(f64, f64)> {
        self.latencies.iter().copied().min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The latency with any wait: between two that were tried by linear interpolation, outside them that
    /// of the nearest.
    pub fn latency(&self, wait: f64) -> Option<f64> {
        let above = self.latencies.partition_point(|&(tried, _)| tried <= wait);
        let high = self.latencies.get(above).or(self.latencies.last())?;
        let low = self.latencies.get(above.saturating_sub(1)).unwrap_or(high);
        let share = if high.0 > low.0 { ((wait - low.0) / (high.0 - low.0)).clamp(0.0, 1.0) } else { 0.0 };
        Some(low.1 + share * (high.1 - low.1))
    }

    /// Excess of a latency over the minimum, as a share of the minimum.
    pub fn excess(&self, latency: f64) -> Option<f64> {
        let (_, least) = self.best()?;
        (least > 0.0).then(|| latency / least - 1.0)
    }
}

impl Fit {
    /// Fits the law with the least mean square of excess latencies; `None` without measurements.
    ///
    /// Tries all pairs of a grid (exhaustive search): near the minimum the cost is flat, and it is not smooth, as
    /// latencies were measured at single waits.
    pub fn of(sweeps: &[Sweep]) -> Option<Fit> {
        let pairs = ALPHAS.flat_map(|alpha| BETAS.map(move |beta| (alpha, beta)));
        let fits = pairs.filter_map(|(alpha, beta)| {
            let law = Law { alpha: f64::from(alpha) * ALPHA_STEP, beta: f64::from(beta) * BETA_STEP };
            law.cost(sweeps)
        });
        let (_, fit) = fits.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(fit)
    }
}

impl Law {
    /// The mean square of its excess latencies, and what they are.
    fn cost(self, sweeps: &[Sweep]) -> Option<(f64, Fit)> {
        let rows = sweeps.iter().flat_map(|sweep| sweep.rows.iter().map(|row| (sweep.ack, row)));
        let excesses: Vec<f64> =
            rows.filter_map(|(ack, row)| row.excess(row.latency(self.wait(row.receivers, ack))?)).collect();
        let count = (!excesses.is_empty()).then_some(excesses.len() as f64)?;
        let fit = Fit {
            law: self,
            mean_excess: excesses.iter().sum::<f64>() / count,
            greatest_excess: excesses.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        Some((excesses.iter().map(|excess| excess * excess).sum::<f64>() / count, fit))
    }
}

/// alpha from 1 to 2.5, beta from 0 to 6.
const ALPHAS: std::ops::RangeInclusive<u16> = 40..=100;
const ALPHA_STEP: f64 = 0.025;
const BETAS: std::ops::RangeInclusive<u16> = 0..=24;
const BETA_STEP: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies with their minimum at the wait of a law, which is among the tried waits.
    fn measured(law: Law, ack: f64) -> Sweep {
        let row = |receivers: f64| {
            let best = law.wait(receivers, ack);
            let waits = (0..=40).map(|step| best * f64::from(step) / 20.0);
            let latency = |wait: f64| 1000.0 + ack * receivers + (wait - best).abs();
            Row { receivers, latencies: waits.map(|wait| (wait, latency(wait))).collect() }
        };
        Sweep { ack, rows: [3.0, 5.0, 10.0, 60.0, 1000.0].map(row).to_vec() }
    }

    #[test]
    fn fit_recovers_law_for_any_acknowledgment_size() {
        let law = Law { alpha: 1.65, beta: 3.0 };
        let fit = Fit::of(&[measured(law, 512.0), measured(law, 2048.0)]).unwrap();
        assert!(
            (fit.law.alpha - law.alpha).abs() < 1e-9 && (fit.law.beta - law.beta).abs() < 1e-9,
            "{fit:?}"
        );
        assert!(fit.mean_excess.abs() < 1e-9 && fit.greatest_excess.abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn latencies_interpolate_between_waits_and_clamp_outside() {
        let row = Row { receivers: 2.0, latencies: vec![(10.0, 5.0), (20.0, 3.0), (40.0, 7.0)] };
        let at = |wait: f64| row.latency(wait).unwrap();
        assert_eq!([0.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0].map(at), [5.0, 5.0, 4.0, 3.0, 5.0, 7.0, 7.0]);
        assert_eq!(row.best(), Some((20.0, 3.0)));
        assert_eq!(row.excess(4.5), Some(0.5));
    }

    #[test]
    fn a_wait_is_never_below_zero() {
        let law = Law { alpha: 1.65, beta: 4.0 };
        assert_eq!(law.wait(2.0, 512.0), 0.0);
        assert!((law.wait(10.0, 512.0) - 512.0 * 12.5).abs() < 1e-9);
    }

    #[test]
    fn without_measurements_there_is_no_law() {
        assert_eq!(Fit::of(&[]), None);
        let empty = Sweep { ack: 512.0, rows: vec![Row { receivers: 2.0, latencies: vec![] }] };
        assert_eq!(Fit::of(&[empty]), None);
    }
}
