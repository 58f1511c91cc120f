//! Summary statistics: mean, standard deviation, percentiles, extremes and 95 % confidence intervals of samples.
//! Intervals over the means of independent runs use Student's t distribution; sums are compensated (Neumaier 1974),
//! so that a large offset does not hide the spread.

use crate::table::{Cell, ColumnKind};

/// The distribution of a metric's samples: the columns of a summary table.
///
/// Numbers that the samples do not determine are NaN: all of them without samples, the spread and
/// the interval with one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (with n - 1).
    pub sd: f64,
    /// The smallest.
    pub min: f64,
    /// The first quartile.
    pub p25: f64,
    /// The median.
    pub p50: f64,
    /// The third quartile.
    pub p75: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The largest.
    pub max: f64,
    /// Lower end of the 95 % confidence interval of the mean, by Student's t over independent samples. Samples of
    /// one run are not independent: [`Summary::over_runs`] takes the interval over the means of runs.
    pub ci95_low: f64,
    /// Upper end of the same interval.
    pub ci95_high: f64,
}

impl Summary {
    /// The columns of [`Summary::cells`].
    pub const COLUMNS: [(&str, ColumnKind); 11] = [
        ("n", ColumnKind::Integer),
        ("mean", ColumnKind::Real),
        ("sd", ColumnKind::Real),
        ("min", ColumnKind::Real),
        ("p25", ColumnKind::Real),
        ("p50", ColumnKind::Real),
        ("p75", ColumnKind::Real),
        ("p95", ColumnKind::Real),
        ("max", ColumnKind::Real),
        ("ci95_low", ColumnKind::Real),
        ("ci95_high", ColumnKind::Real),
    ];

    /// Summarises samples, and sorts them. A sample that is NaN is a missing one: not counted.
    ///
    /// The result does not depend on the order in which the samples are given.
    pub fn of(samples: &mut [f64]) -> Summary {
        samples.sort_unstable_by(f64::total_cmp);
        Self::of_ordered(samples)
    }

    /// Summarises samples that are sorted in pieces, which takes less time.
    pub(crate) fn of_pieces(samples: &mut [f64]) -> Summary {
        // The stable sort finds the pieces and merges them.
        samples.sort_by(f64::total_cmp);
        Self::of_ordered(samples)
    }

    fn of_ordered(samples: &[f64]) -> Summary {
        // NaNs sort before and after everything else, by their sign.
        let start = samples.partition_point(|sample| sample.is_nan() && sample.is_sign_negative());
        let end = samples.partition_point(|sample| !(sample.is_nan() && sample.is_sign_positive()));
        let samples = &samples[start..end];

        Self::of_sorted(samples.len() as u64, || samples.iter().copied())
    }

    /// Replaces the confidence interval by the interval of these means of runs, which are independent of each other.
    /// A run without samples has the mean NaN and is skipped. A single run has no interval: both ends are NaN.
    pub fn over_runs(self, means: &mut [f64]) -> Summary {
        let Summary { ci95_low, ci95_high, .. } = Summary::of(means);
        Summary { ci95_low, ci95_high, ..self }
    }

    /// Summarises `n` samples. `sorted` yields them in their total order each time it is called; none is NaN.
    pub(crate) fn of_sorted<I: Iterator<Item = f64>>(n: u64, sorted: impl Fn() -> I) -> Summary {
        let Some(last) = n.checked_sub(1) else {
            let none = f64::NAN;
            return Summary {
                n,
                mean: none,
                sd: none,
                min: none,
                p25: none,
                p50: none,
                p75: none,
                p95: none,
                max: none,
                ci95_low: none,
                ci95_high: none,
            };
        };
        let mut wanted: Vec<u64> = [0.25, 0.50, 0.75, 0.95]
            .into_iter()
            .map(|share| (share * last as f64).floor() as u64)
            .flat_map(|below| [below, (below + 1).min(last)])
            .chain([0, last])
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found: Vec<f64> = Vec::with_capacity(wanted.len());
        let noted = (0..).zip(sorted()).map(|(at, sample)| {
            if wanted.get(found.len()) == Some(&at) {
                found.push(sample);
            }
            sample
        });
        let sum = compensated_sum(noted);
        let at = |place: u64| {
            let known = wanted.binary_search(&place).ok().and_then(|known| found.get(known));
            known.copied().unwrap_or(f64::NAN)
        };
        let (min, max) = (at(0), at(last));
        // The last rounding must not carry the mean of equal samples past them. (A file that ended early has none.)
        let mean = sum / n as f64;
        let mean = if min <= max { mean.clamp(min, max) } else { f64::NAN };
        let sd = standard_deviation(n, mean, sorted());
        let half_width =
            if n > 1 { t_quantile_975((n - 1) as usize) * sd / (n as f64).sqrt() } else { f64::NAN };
        let percentile = |share| percentile(last, share, at);
        Summary {
            n,
            mean,
            sd,
            min,
            p25: percentile(0.25),
            p50: percentile(0.50),
            p75: percentile(0.75),
            p95: percentile(0.95),
            max,
            ci95_low: mean - half_width,
            ci95_high: mean + half_width,
        }
    }

    /// The cells of a table row, under [`Summary::COLUMNS`].
    pub fn cells(&self) -> [Cell; 11] {
        [
            Cell::count(self.n),
            self.mean.into(),
            self.sd.into(),
            self.min.into(),
            self.p25.into(),
            self.p50.into(),
            self.p75.into(),
            self.p95.into(),
            self.max.into(),
            self.ci95_low.into(),
            self.ci95_high.into(),
        ]
    }
}

/// The percentile at `share` of 0 to 1 of sorted samples of which the greatest is number `last`, between two samples
/// by linear interpolation (type 7 of Hyndman and Fan 1996, the default of R and NumPy).
fn percentile(last: u64, share: f64, at: impl Fn(u64) -> f64) -> f64 {
    let position = share * last as f64;
    let below = position.floor();
    let (low, high) = (at(below as u64), at((below as u64 + 1).min(last)));
    // Of two equal infinities the difference is no number.
    if low == high { low } else { low + (position - below) * (high - low) }
}

/// The 0.975 quantile of Student's t with this many degrees of freedom, to within 1e-6; NaN with
/// none.
pub fn t_quantile_975(degrees: usize) -> f64 {
    if let Some(&quantile) = T_QUANTILES_975.get(degrees) {
        return quantile;
    }
    // The expansion in powers of 1 / degrees (Abramowitz and Stegun 26.7.5).
    let z = NORMAL_QUANTILE_975;
    let z2 = z * z;
    let terms = [
        z * (z2 + 1.0) / 4.0,
        z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        z * ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92160.0,
    ];
    let degrees = degrees as f64;
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees)
}

/// A sum to which small samples count even beside great ones.
fn compensated_sum(samples: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0_f64;
    let mut lost = 0.0;
    for sample in samples {
        let next = sum + sample;
        lost += if sum.abs() >= sample.abs() { (sum - next) + sample } else { (sample - next) + sum };
        sum = next;
    }
    // With infinite samples the compensation is no number, and there is nothing to compensate.
    if sum.is_finite() { sum + lost } else { sum }
}

/// Standard deviation, computed in a second pass over the deviations from the mean (two-pass algorithm). The last
/// term removes the rounding error of the mean.
fn standard_deviation(n: u64, mean: f64, sorted: impl Iterator<Item = f64>) -> f64 {
    if n < 2 {
        return f64::NAN;
    }
    let n = n as f64;
    let (mut squares, mut rest) = (0.0, 0.0);
    for sample in sorted {
        let deviation = sample - mean;
        squares += deviation * deviation;
        rest += deviation;
    }
    // `f64::max` would turn the NaN of infinite samples into a zero.
    let variance = (squares - rest * rest / n) / (n - 1.0);
    if variance < 0.0 { 0.0 } else { variance.sqrt() }
}

const NORMAL_QUANTILE_975: f64 = 1.959_963_984_540_054;

/// 0.975 quantiles of Student's t distribution, indexed by degrees of freedom.
const T_QUANTILES_975: [f64; 31] = [
    f64::NAN,
    12.706_204_736_4,
    4.302_652_729_7,
    3.182_446_305_3,
    2.776_445_105_2,
    2.570_581_835_6,
    2.446_911_851_1,
    2.364_624_251_6,
    2.306_004_135_2,
    2.262_157_162_8,
    2.228_138_852_0,
    2.200_985_160_1,
    2.178_812_829_7,
    2.160_368_656_5,
    2.144_786_687_9,
    2.131_449_545_6,
    2.119_905_299_2,
    2.109_815_577_8,
    2.100_922_040_2,
    2.093_024_054_4,
    2.085_963_447_3,
    2.079_613_844_7,
    2.073_873_067_9,
    2.068_657_610_4,
    2.063_898_561_6,
    2.059_538_552_8,
    2.055_529_438_6,
    2.051_830_516_5,
    2.048_407_141_8,
    2.045_229_642_1,
    2.042_272_456_3,
];

/// A number with four significant digits.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if (-4.0..7.0).contains(&magnitude) {
        let digits = (3.0 - magnitude).max(0.0) as usize;
        format!("{value:.digits$}")
    } else {
        format!("{value:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    /// The probability of |T| < t. With x = sqrt(v) tan(a) the density of T becomes cos(a)^(v-1),
    /// integrated here by Simpson's rule.
    fn two_sided(degrees: usize, t: f64) -> f64 {
        let integral = |end: f64| {
            let steps = 20_000;
            let width = end / f64::from(steps);
            let value = |step: i32| (f64::from(step) * width).cos().powf(degrees as f64 - 1.0);
            let inner: f64 = (1..steps).map(|step| value(step) * if step % 2 == 1 { 4.0 } else { 2.0 }).sum();
            (value(0) + inner + value(steps)) * width / 3.0
        };
        integral((t / (degrees as f64).sqrt()).atan()) / integral(std::f64::consts::FRAC_PI_2)
    }

    #[test]
    fn t_quantiles_cut_off_a_twentieth_of_the_distribution() {
        assert!(t_quantile_975(0).is_nan());
        for degrees in (1..=60).chain([100, 300, 1000, 10_000]) {
            let cut = two_sided(degrees, t_quantile_975(degrees));
            // From three degrees on the density at the quantile is above 0.01, so the quantile is
            // right to 1e-6; with one or two it is above 0.001, and the quantile right to 1e-5.
            assert!(close(cut, 0.95, 2e-8), "{degrees}: {cut}");
        }
        assert!(close(t_quantile_975(usize::MAX), 1.959_964, 1e-6));
        assert!((1..200).all(|degrees| t_quantile_975(degrees) > t_quantile_975(degrees + 1)));
    }

    #[test]
    fn a_known_sample() {
        // R: x <- c(2, 4, 4, 4, 5, 5, 7, 9); mean, sd, quantile(x), t.test(x)$conf.int
        let summary = Summary::of(&mut [9.0, 4.0, 5.0, 2.0, 4.0, 7.0, 5.0, 4.0]);
        assert_eq!((summary.n, summary.mean, summary.min, summary.max), (8, 5.0, 2.0, 9.0));
        assert_eq!((summary.p25, summary.p50, summary.p75), (4.0, 4.5, 5.5));
        assert!(close(summary.p95, 8.3, 1e-12));
        assert!(close(summary.sd, 2.138_089_935, 1e-9));
        assert!(close(summary.ci95_low, 3.212_512, 1e-5), "{summary:?}");
        assert!(close(summary.ci95_high, 6.787_488, 1e-5), "{summary:?}");
    }

    #[test]
    fn too_few_samples_leave_numbers_undetermined() {
        let none = Summary::of(&mut []);
        assert_eq!(none.n, 0);
        let numbers = |summary: Summary| {
            summary.cells().into_iter().skip(1).map(|cell| match cell {
                Cell::Real(value) => value,
                other => panic!("{other:?}"),
            })
        };
        assert!(numbers(none).all(f64::is_nan));

        let one = Summary::of(&mut [3.0]);
        assert_eq!((one.n, one.mean, one.min, one.p50, one.p95, one.max), (1, 3.0, 3.0, 3.0, 3.0, 3.0));
        assert!(one.sd.is_nan() && one.ci95_low.is_nan() && one.ci95_high.is_nan());
    }

    #[test]
    fn interval_over_runs_ignores_spread_within_a_run() {
        // Two runs of a thousand equal samples each: a thousand times the same number says no more than one.
        let mut samples = [vec![1.0; 1000], vec![3.0; 1000]].concat();
        let of_samples = Summary::of(&mut samples);
        let summary = of_samples.over_runs(&mut [3.0, f64::NAN, 1.0]);
        let runs = Summary::of(&mut [1.0, 3.0]);
        assert_eq!((summary.n, summary.mean, summary.sd), (2000, 2.0, of_samples.sd));
        assert_eq!((summary.ci95_low, summary.ci95_high), (runs.ci95_low, runs.ci95_high));
        assert!(
            of_samples.ci95_high - of_samples.ci95_low < 0.1 && summary.ci95_high - summary.ci95_low > 25.0
        );
        let one = of_samples.over_runs(&mut [2.0, f64::NAN]);
        assert!(one.ci95_low.is_nan() && one.ci95_high.is_nan(), "one run has no interval");
    }

    #[test]
    fn missing_samples_do_not_count() {
        let given = Summary::of(&mut [f64::NAN, 1.0, -f64::NAN, 2.0, f64::NAN]);
        assert_eq!(given, Summary::of(&mut [2.0, 1.0]));
    }

    #[test]
    fn infinite_samples_stay_infinite() {
        let summary = Summary::of(&mut [1.0, f64::INFINITY, f64::INFINITY, f64::INFINITY, f64::INFINITY]);
        assert_eq!((summary.mean, summary.min), (f64::INFINITY, 1.0));
        assert_eq!((summary.p50, summary.p95, summary.max), (f64::INFINITY, f64::INFINITY, f64::INFINITY));
        assert!(summary.sd.is_nan());
    }

    #[test]
    fn equal_samples_have_no_spread() {
        for n in 2..200 {
            let summary = Summary::of(&mut vec![0.1; n]);
            let all = [summary.mean, summary.p25, summary.p95, summary.ci95_low, summary.ci95_high];
            assert_eq!(all, [0.1; 5], "{n}");
            assert_eq!(summary.sd, 0.0, "{n}");
        }
    }

    #[test]
    fn a_large_offset_does_not_drown_the_spread() {
        // The sums of squares agree to all sixteen digits here; deviations do not.
        let summary = Summary::of(&mut [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert_eq!(summary.mean, 1e9 + 10.0);
        assert!(close(summary.sd, 30.0_f64.sqrt(), 1e-12));
        // A naive sum loses each of the small samples.
        let mut samples = vec![1.0; 10_000];
        samples.push(1e16);
        assert_eq!(Summary::of(&mut samples).mean, (1e16 + 1e4) / 10_001.0);
    }

    #[test]
    fn cells_stand_under_their_columns() {
        let summary = Summary::of(&mut [1.0, 2.0, 4.0]);
        let mut table = crate::table::Table::new(Summary::COLUMNS).unwrap();
        table.push(summary.cells());
        let real = |name: &str| match table.column(name) {
            Some(crate::table::Column::Real(values)) => values[0],
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(real("mean"), summary.mean);
        assert_eq!(real("p95"), summary.p95);
        assert_eq!(real("ci95_high"), summary.ci95_high);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions(scaled in prop::collection::vec(-1_000_000_i64..1_000_000, 2..200)) {
            // Whole numbers up to a million: sums of squares are exact in 128 bits.
            let n = scaled.len() as i128;
            let sum: i128 = scaled.iter().map(|&x| i128::from(x)).sum();
            let squares: i128 = scaled.iter().map(|&x| i128::from(x) * i128::from(x)).sum();
            let variance = (n * squares - sum * sum) as f64 / (n * (n - 1)) as f64;
            let mut samples: Vec<f64> = scaled.iter().map(|&x| x as f64).collect();
            let summary = Summary::of(&mut samples);
            prop_assert!(close(summary.mean, sum as f64 / n as f64, 1e-9));
            prop_assert!(close(summary.sd, variance.sqrt(), 1e-9 * variance.sqrt().max(1.0)));

            // Type 7: the share of samples below position h is h / (n - 1), linear in between.
            let mut sorted = scaled.clone();
            sorted.sort_unstable();
            for (quarter, got) in [(1, summary.p25), (2, summary.p50), (3, summary.p75)] {
                let position = quarter * (sorted.len() - 1);
                let (below, rest) = (position / 4, position % 4);
                let above = sorted[(below + 1).min(sorted.len() - 1)];
                let quadrupled = sorted[below] * (4 - rest as i64) + above * rest as i64;
                prop_assert_eq!(got, quadrupled as f64 / 4.0);
            }
            let order = [summary.min, summary.p25, summary.p50, summary.p75, summary.p95, summary.max];
            prop_assert!(order.is_sorted());
        }

        #[test]
        fn order_does_not_matter(
            samples in prop::collection::vec(prop::num::f64::ANY, 0..50), seed in any::<u64>()
        ) {
            let mut shuffled = samples.clone();
            let mut state = seed;
            for at in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(at, (state >> 33) as usize % (at + 1));
            }
            let bits = |summary: Summary| format!("{summary:?}");
            prop_assert_eq!(bits(Summary::of(&mut samples.clone())), bits(Summary::of(&mut shuffled)));
        }
    }
}
