//! Quantities that NORM sends in few bits: round-trip time, group size, rate and loss (RFC 5740, 4.2 and 4.3; RFC
//! 5401).

use std::time::Duration;

/// Encodes a round-trip time, rounded up; below 1 us and above 1000 s it is cut off (RFC 5401, 4.2.5).
pub fn encode_grtt(time: Duration) -> u8 {
    let seconds = time.as_secs_f64().clamp(MIN_RTT, MAX_RTT);
    if seconds < LINEAR * MIN_RTT {
        return ((seconds / MIN_RTT) as u8).saturating_sub(1);
    }
    // Slightly less than the exact value, so that a decoded time, which is rounded to nanoseconds, is encoded as
    // itself.
    (255.0 - 13.0 * libm::log(MAX_RTT / seconds) - 1e-3).ceil() as u8
}

/// Decodes a round-trip time.
pub fn decode_grtt(code: u8) -> Duration {
    let seconds = match code {
        ..32 => f64::from(u16::from(code) + 1) * MIN_RTT,
        _ => MAX_RTT / libm::exp(f64::from(255 - code) / 13.0),
    };
    Duration::from_secs_f64(seconds)
}

/// Encodes a group size, rounded up, in 4 bits: one or five times a power of ten, from 10 to 5 * 10^8.
pub fn encode_group_size(size: u64) -> u8 {
    // In ascending order of size: 10, 50, 100, 500 and so on.
    let codes = (0..16).map(|step| step >> 1 | (step & 1) << 3);
    codes.into_iter().find(|&code| decode_group_size(code) >= size).unwrap_or(15)
}

/// Decodes a group size.
pub fn decode_group_size(code: u8) -> u64 {
    let factor = if code & 8 != 0 { 5 } else { 1 };
    factor * 10u64.pow(u32::from(code & 7) + 1)
}

/// Encodes a rate in bytes per second: 12 bits of mantissa and 4 bits of exponent to the base 10.
pub fn encode_rate(rate: f64) -> u16 {
    if rate.is_nan() || rate <= 0.0 {
        return 0;
    }
    let mut exponent = 0u16;
    let mut mantissa = rate;
    while mantissa >= 10.0 && exponent < 15 {
        mantissa /= 10.0;
        exponent += 1;
    }
    let mantissa = (mantissa * 409.6 + 0.5).min(4095.0) as u16;
    mantissa << 4 | exponent
}

/// Decodes a rate, in bytes per second.
pub fn decode_rate(code: u16) -> f64 {
    f64::from(code >> 4) * 10.0 / 4096.0 * libm::pow(10.0, f64::from(code & 15))
}

const MIN_RTT: f64 = 1e-6;
const MAX_RTT: f64 = 1000.0;
/// Microseconds below which the code is linear.
const LINEAR: f64 = 33.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that follow from the formulas of RFC 5401, 4.2.5, and RFC 5740, 4.2.
    #[test]
    fn worked_values() {
        for (ms, code) in [(1, 76), (100, 136), (250, 148), (500, 157), (1000, 166)] {
            assert_eq!(encode_grtt(Duration::from_millis(ms)), code, "{ms} ms");
        }
        assert!((decode_grtt(157).as_secs_f64() - 0.5322).abs() < 1e-4);
        assert_eq!((encode_rate(32_000.0), encode_group_size(10_000)), (0x51f4, 3));
        assert!((decode_rate(0x51f4) - 32_000.0).abs() < 10.0);
    }

    #[test]
    fn codes_survive_a_round_trip_and_never_shrink_a_value() {
        for code in 0..=255 {
            assert_eq!(encode_grtt(decode_grtt(code)), code);
        }
        for us in (1..200).chain([250, 900, 33_333, 700_000, 20_000_000]) {
            let time = Duration::from_micros(us);
            // A linear code names the next lower microsecond; a logarithmic one is rounded up.
            assert!(decode_grtt(encode_grtt(time)) + Duration::from_nanos(2) >= time, "{us} us");
        }
        for size in [1, 10, 11, 50, 51, 100, 101, 9_999, 10_001, 50_000, 3_000_000, 500_000_000, u64::MAX] {
            let decoded = decode_group_size(encode_group_size(size));
            assert!(decoded >= size.min(500_000_000), "{size} {decoded}");
        }
        for rate in [0.0, 1.0, 9.99, 8_000.0, 12.5e6, 1.25e9, 1e15] {
            let decoded = decode_rate(encode_rate(rate));
            assert!((decoded - rate).abs() <= rate * 0.0015 + 0.002, "{rate} {decoded}");
        }
        assert_eq!(encode_rate(f64::NAN), 0);
    }
}
