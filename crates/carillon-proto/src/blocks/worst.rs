//! Number of packets that the worst of many receivers needs.
//!
//! A receiver with independent losses needs `length / (1 - loss)` packets on average to get `length`. The worst of
//! many needs more, by a number of standard deviations that grows slowly with the size of the group. As a share of
//! the block this falls with the square root of its length: longer blocks make large groups cheap.

/// Expected maximum of this many independent normal values, in standard deviations above the mean.
pub fn deviations(receivers: usize) -> f64 {
    if receivers < 2 {
        return 0.0;
    }
    // Gumbel's limit (Cramér, Mathematical Methods of Statistics, 28.6): mode of the maximum, plus Euler's constant.
    let log = libm::log(receivers as f64);
    let root = libm::sqrt(2.0 * log);
    root - (libm::log(log) + LOG_4_PI) / (2.0 * root) + EULER / root
}

/// Expected number of packets until the worst receiver has `length` of them.
pub fn packets(length: f64, loss: f64, receivers: usize) -> f64 {
    (length + deviations(receivers) * libm::sqrt(length * loss)) / (1.0 - loss)
}

/// Block length at which the worst receiver needs at most this share more packets than a single receiver.
pub fn length_for(loss: f64, receivers: usize, tolerance: f64) -> f64 {
    let deviations = deviations(receivers);
    deviations * deviations * loss / (tolerance * tolerance)
}

/// Natural logarithm of 4 pi.
const LOG_4_PI: f64 = 2.531_024_246_969_291;
/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    #[test]
    fn worst_receiver_needs_predicted_packets() {
        let mut rng = Seeds::new(1).stream("worst");
        let mut needed = |length: u32, loss: f64| {
            let (mut sent, mut come) = (0u32, 0);
            while come < length {
                sent += 1;
                come += u32::from(rng.unit() >= loss);
            }
            sent
        };
        for (receivers, length, loss) in [
            (1, 100, 0.2),
            (2, 400, 0.05),
            (16, 500, 0.2),
            (100, 500, 0.05),
            (1000, 300, 0.2),
            (300, 1000, 0.01),
        ] {
            let rounds = 2 + 2000 / receivers;
            let worst = |_| (0..receivers).map(|_| needed(length, loss)).max().expect("some");
            let mean = (0..rounds).map(worst).map(f64::from).sum::<f64>() / rounds as f64;
            let said = packets(length.into(), loss, receivers);
            assert!((mean / said - 1.0).abs() < 0.01, "{receivers}, {length}, {loss}: {mean} and not {said}");
        }
    }

    #[test]
    fn block_of_predicted_length_meets_tolerance() {
        for receivers in [2, 16, 1000, 10_000, 100_000] {
            for loss in [0.01, 0.05, 0.2] {
                let length = length_for(loss, receivers, 0.02);
                let more = packets(length, loss, receivers) * (1.0 - loss) / length - 1.0;
                assert!((more - 0.02).abs() < 1e-9, "{receivers}, {loss}: {more}");
            }
        }
        assert_eq!(length_for(0.2, 1, 0.02), 0.0, "one alone needs what it needs");
    }
}
