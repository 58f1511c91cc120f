//! Window of a sender that reacts to congestion as TCP does (Jacobson 1988; RFC 5681).
//!
//! The window grows by one with each acknowledged message up to a threshold (slow start), and by one in each window
//! from there on. A loss halves it, and a timeout starts it anew with one message. Losses of messages that were sent
//! before the last cut belong to the same congestion and cut nothing again.

/// Congestion window, in messages.
#[derive(Clone, Copy, Debug)]
pub struct CongestionWindow {
    /// Present size.
    size: f64,
    /// Size up to which the window grows by slow start.
    threshold: f64,
    /// Maximum size.
    most: f64,
    /// First message that was not sent at the last cut.
    recover: u64,
}

impl CongestionWindow {
    /// Creates a window that starts with one message and grows to at most `most`.
    pub fn new(most: u64) -> Self {
        let most = most.max(1) as f64;
        CongestionWindow { size: 1.0, threshold: most, most, recover: 0 }
    }

    /// Maximum number of outstanding messages.
    pub fn size(&self) -> u64 {
        self.size as u64
    }

    /// Grows the window after the acknowledgment of a message.
    pub fn on_acknowledged(&mut self) {
        let step = if self.size < self.threshold { 1.0 } else { 1.0 / self.size };
        self.size = (self.size + step).min(self.most);
    }

    /// Halves the window since message `lost` is missing somewhere; `next` is the next message to be sent. Returns
    /// true if it was cut.
    pub fn on_loss(&mut self, lost: u64, next: u64) -> bool {
        let is_new = lost >= self.recover;
        if is_new {
            self.threshold = (self.size / 2.0).max(MIN_THRESHOLD);
            (self.size, self.recover) = (self.threshold.min(self.size), next);
        }
        is_new
    }

    /// Starts the window anew since message `lost` was not acknowledged in time. Returns true if it was cut.
    pub fn on_timeout(&mut self, lost: u64, next: u64) -> bool {
        let is_new = self.on_loss(lost, next);
        if is_new {
            self.size = 1.0;
        }
        is_new
    }
}

/// Minimum threshold, in messages: two, as in RFC 5681.
const MIN_THRESHOLD: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_doubles_in_slow_start_and_then_grows_by_one() {
        let mut window = CongestionWindow::new(64);
        for expected in [2, 4, 8, 16] {
            (0..window.size()).for_each(|_| window.on_acknowledged());
            assert_eq!(window.size(), expected);
        }
        assert!(window.on_loss(3, 20));
        assert_eq!(window.size(), 8);
        for expected in [9, 10] {
            // The sum of the steps in a window of n is a little less than one.
            (0..=window.size()).for_each(|_| window.on_acknowledged());
            assert_eq!(window.size(), expected);
        }
    }

    #[test]
    fn losses_of_one_window_cut_once() {
        let mut window = CongestionWindow::new(32);
        (0..100).for_each(|_| window.on_acknowledged());
        assert_eq!(window.size(), 32);
        assert!(window.on_loss(5, 40));
        assert!(!window.on_loss(39, 40));
        assert!(!window.on_timeout(20, 44));
        assert_eq!(window.size(), 16);
        assert!(window.on_timeout(40, 50));
        assert_eq!((window.size(), window.threshold as u64), (1, 8));
    }

    #[test]
    fn window_stays_between_one_and_its_bound() {
        let mut rng = carillon_core::Seeds::new(1).stream("window");
        for most in [1, 2, 7, 64] {
            let (mut window, mut next) = (CongestionWindow::new(most), 0);
            for _ in 0..2_000 {
                match rng.below(5) {
                    0 => _ = window.on_loss(next, next + 1),
                    1 => _ = window.on_timeout(next, next + 1),
                    _ => window.on_acknowledged(),
                }
                next += 1;
                assert!((1..=most.max(2)).contains(&window.size()), "{}", window.size());
            }
        }
    }
}
