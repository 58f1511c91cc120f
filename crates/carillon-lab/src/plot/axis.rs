//! Axes of a figure: positions of values, and tick marks.

/// An axis with its range.
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// The values that are marked.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// An axis that shows all values; a linear one starts at zero, or with a margin before it if
    /// something stands there.
    pub fn new(values: impl Iterator<Item = f64>, log: bool, margin: f64) -> Self {
        let usable = values.filter(|value| !log || *value > 0.0);
        let (low, high) =
            usable.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if log {
            let (low, high) = if low < high { (low, high) } else { (1.0, 10.0) };
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let ticks: Vec<f64> = (first..=last).map(|power| 10.0_f64.powi(power)).collect();
            return Scale { low: ticks[0], high: ticks[ticks.len() - 1], log, ticks };
        }
        if low < 0.0 {
            return Scale::around_zero(low, high);
        }
        let high = if high > 0.0 { high * (1.0 + margin) } else { 1.0 };
        let step = step(high / 8.0);
        let count = (high / step - 1e-9).ceil() as u32;
        let ticks: Vec<f64> = (0..=count).map(|at| f64::from(at) * step).collect();
        let high = if margin > 0.0 { high } else { ticks[ticks.len() - 1] };
        let ticks = ticks.into_iter().filter(|tick| *tick <= high * (1.0 + 1e-9)).collect();
        let low = if low == 0.0 { -margin * high } else { 0.0 };
        Scale { low, high, log, ticks }
    }

    /// Creates an axis of `count` categories.
    pub fn categories(count: usize) -> Self {
        let ticks = (0..count as u32).map(f64::from).collect();
        Scale { low: -0.5, high: count as f64 - 0.5, log: false, ticks }
    }

    /// A linear axis with values below zero.
    fn around_zero(low: f64, high: f64) -> Self {
        let step = step((high - low) / 8.0);
        let (first, last) = ((low / step + 1e-9).floor() as i32, (high / step - 1e-9).ceil() as i32);
        let ticks: Vec<f64> = (first..=last).map(|at| f64::from(at) * step).collect();
        Scale { low: ticks[0], high: ticks[ticks.len() - 1], log: false, ticks }
    }

    /// Position of a value along the axis, 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        if self.log {
            let low = self.low.log10();
            (value.max(self.low).log10() - low) / (self.high.log10() - low)
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// The nearest step of 1, 2 or 5 times a power of ten that is not below this one.
fn step(least: f64) -> f64 {
    let power = 10.0_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// A value as it stands beside its tick, with thin spaces between thousands.
pub(super) fn tick_text(value: f64) -> String {
    let text = format!("{}", (value * 1e9).round() / 1e9);
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && whole.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}
