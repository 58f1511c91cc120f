//! Congestion window of CUBIC (RFC 9438), in packets.
//!
//! After a loss the window grows as a cubic function of time: fast, flat near the size at which the loss happened, and
//! fast again. On short paths the window of Reno is larger, and applies instead.

use std::time::Duration;

use carillon_core::Time;

/// Congestion window.
#[derive(Clone, Copy, Debug)]
pub struct CubicWindow {
    /// Size in packets.
    size: f64,
    /// Size up to which it grows by slow start.
    threshold: f64,
    /// Size before the last cut, or less if the cuts come at smaller and smaller sizes (section 4.7).
    before: f64,
    /// Growth since the last cut; none before its first acknowledgment.
    epoch: Option<Epoch>,
}

/// Growth since a cut.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Time of its first acknowledgment.
    began: Time,
    /// Size at which the cubic function is flat.
    origin: f64,
    /// Time in seconds until the function is flat.
    flat_after: f64,
    /// Window of Reno.
    reno: f64,
}

impl Default for CubicWindow {
    fn default() -> Self {
        CubicWindow { size: INITIAL_WINDOW, threshold: f64::INFINITY, before: 0.0, epoch: None }
    }
}

impl CubicWindow {
    /// Size in packets.
    pub fn size(&self) -> f64 {
        self.size
    }

    /// Returns true in slow start.
    pub fn is_searching(&self) -> bool {
        self.size < self.threshold
    }

    /// Grows the window after the arrival of this many packets.
    pub fn on_acknowledged(&mut self, now: Time, packets: f64, round_trip: Duration) {
        if self.is_searching() {
            self.size = (self.size + packets).min(self.threshold.max(self.size)).min(MAX_WINDOW);
            return;
        }
        let (size, before) = (self.size, self.before);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            origin: before.max(size),
            flat_after: libm::cbrt((before - size).max(0.0) / CUBIC_CONSTANT),
            reno: size,
        });
        let gain = if epoch.reno < before { RENO_GAIN } else { 1.0 };
        epoch.reno += gain * packets / size;
        let at = |seconds: f64| {
            let from_flat = seconds - epoch.flat_after;
            CUBIC_CONSTANT * from_flat * from_flat * from_flat + epoch.origin
        };
        let since = now.since(epoch.began).as_secs_f64();
        // Section 4.4: the window reaches the target of the next round trip, at most half more, within that round trip.
        let target = at(since + round_trip.as_secs_f64()).clamp(size, size * MAX_TARGET);
        let cubic = size + (target - size) * (packets / size).min(1.0);
        // Section 4.3: where Reno is faster, its window applies.
        self.size = if at(since) < epoch.reno { cubic.max(epoch.reno) } else { cubic }.min(MAX_WINDOW);
    }

    /// Cuts the window after a loss.
    pub fn on_loss(&mut self) {
        // Section 4.7: a flow that is cut at a smaller size than before gives the rest to newer flows.
        let is_smaller = self.size < self.before;
        self.before = if is_smaller { self.size * (1.0 + DECREASE) / 2.0 } else { self.size };
        self.size = (self.size * DECREASE).max(MIN_WINDOW);
        (self.threshold, self.epoch) = (self.size, None);
    }

    /// Starts the window anew after a timeout (section 4.8).
    pub fn on_timeout(&mut self) {
        if self.size > MIN_WINDOW {
            self.on_loss();
            self.size = MIN_WINDOW;
        }
    }
}

/// Initial window in packets (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// Minimum window: two packets, as the threshold of RFC 5681 is.
const MIN_WINDOW: f64 = 2.0;
/// Maximum window, so that no sequence of answers overflows a number.
const MAX_WINDOW: f64 = (1 << 30) as f64;
/// Constant of the cubic function, in packets per cubic second (section 4.1).
const CUBIC_CONSTANT: f64 = 0.4;
/// Factor of the window after a loss (section 4.6).
const DECREASE: f64 = 0.7;
/// Growth of Reno's window per round trip until it reaches the size before the cut, with that factor (section 4.3).
const RENO_GAIN: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);
/// Maximum factor of the target over the window (section 4.2).
const MAX_TARGET: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(100);

    /// Acknowledges whole windows for this long from `from` on, one each round trip.
    fn grow(window: &mut CubicWindow, from: u64, millis: u64) {
        for now in (from..from + millis).step_by(100) {
            window.on_acknowledged(Time::from_nanos(now * 1_000_000), window.size(), TRIP);
        }
    }

    #[test]
    fn slow_start_doubles_until_loss() {
        let mut window = CubicWindow::default();
        grow(&mut window, 0, 300);
        assert_eq!((window.size(), window.is_searching()), (80.0, true));
        window.on_loss();
        assert_eq!((window.size(), window.is_searching()), (80.0 * DECREASE, false));
    }

    #[test]
    fn growth_is_flat_at_size_of_last_loss() {
        let mut window = CubicWindow { size: 1000.0, threshold: 1000.0, ..CubicWindow::default() };
        window.on_loss();
        // RFC 9438, figure 2: K is the cube root of 1000 (1 - 0.7) / 0.4, 9.09 s.
        grow(&mut window, 0, 9_000);
        assert!((990.0..1001.0).contains(&window.size()), "{}", window.size());
        let flat = window.size();
        grow(&mut window, 9_000, 2_000);
        assert!(window.size() < flat * 1.02, "{}", window.size());
        grow(&mut window, 11_000, 9_000);
        assert!(window.size() > flat * 1.4, "{}", window.size());
    }

    #[test]
    fn small_window_grows_as_reno_does() {
        let mut window = CubicWindow { size: 10.0, threshold: 10.0, ..CubicWindow::default() };
        window.on_loss();
        let from = window.size();
        let trip = Duration::from_millis(1);
        for now in 0..20 {
            window.on_acknowledged(Time::from_nanos(now * 1_000_000), window.size(), trip);
        }
        assert!(window.size() > from + 10.0, "{}", window.size());
    }

    #[test]
    fn repeated_timeouts_keep_threshold() {
        let mut window = CubicWindow { size: 100.0, threshold: 100.0, ..CubicWindow::default() };
        (0..5).for_each(|_| window.on_timeout());
        assert_eq!((window.size(), window.threshold), (MIN_WINDOW, 70.0));
    }
}
