//! Quantities with units, as written in scenario files and on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Text that is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{text}\" is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

impl UnitError {
    fn new(text: &str, expected: &'static str) -> Self {
        UnitError { text: text.to_owned(), expected }
    }
}

/// Splits `"1.5 Mbit/s"` into number and unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    // An exponent belongs to the number: "1e6 bit/s".
    let at = match &text.as_bytes()[at..] {
        [b'e' | b'E', next, ..] if next.is_ascii_digit() || matches!(next, b'-' | b'+') => {
            let rest = &text[at + 2..];
            at + 2 + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
        }
        _ => at,
    };
    let number: f64 = text[..at].replace('_', "").parse().ok()?;
    number.is_finite().then_some((number, text[at..].trim()))
}

/// Serde visitor that parses a quantity from text. It refuses a plain number with the expected form.
struct TextVisitor<T>(&'static str, std::marker::PhantomData<T>);

impl<T: FromStr<Err = UnitError>> serde::de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        Err(E::custom(format!("{number} has no unit: expected {}", self.0)))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        Err(E::custom(format!("{number} has no unit: expected {}", self.0)))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(format!("{number} has no unit: expected {}", self.0)))
    }
}

const BIT_RATE: &str = "a bit rate above zero with its unit, such as \"10 Mbit/s\"";
const DATA_SIZE: &str = "a data size with its unit, such as \"1518 byte\" or \"64 KiB\"";
const SPAN: &str = "a span of time with its unit, such as \"20 ms\" or \"6000 bit\"";

macro_rules! text_serde {
    ($name:ty, $expected:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextVisitor($expected, std::marker::PhantomData))
            }
        }
    };
}

/// Bit rate in whole bits per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(u64);

impl BitRate {
    /// Rate in bits per second; `None` for zero.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(BitRate(bits_per_second)) }
    }

    /// Rate in Mbit/s.
    ///
    /// # Panics
    ///
    /// Panics for zero.
    pub const fn mbps(megabits_per_second: u64) -> Self {
        assert!(megabits_per_second > 0, "a bit rate is never zero");
        BitRate(megabits_per_second * 1_000_000)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Transmission time of this many bits, rounded to the nearest nanosecond.
    pub fn time_for_bits(self, bits: u64) -> Duration {
        Duration::from_nanos(self.nanos_for_bits(bits))
    }

    /// Transmission time of this many bits in nanoseconds, rounded to the nearest.
    #[inline]
    fn nanos_for_bits(self, bits: u64) -> u64 {
        // Fast path without a 128-bit division, which is a subroutine and would run for every frame.
        let short = bits.checked_mul(1_000_000_000).and_then(|nanobits| nanobits.checked_add(self.0 / 2));
        if let Some(rounded) = short {
            return rounded / self.0;
        }
        let nanos = (u128::from(bits) * 1_000_000_000 + u128::from(self.0) / 2) / u128::from(self.0);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Transmission time of this many bytes, rounded to the nearest nanosecond.
    pub fn time_for_bytes(self, bytes: u64) -> Duration {
        self.time_for_bits(bytes.saturating_mul(8))
    }

    /// Transmission time of this many bytes in nanoseconds, rounded to the nearest.
    #[inline]
    pub fn nanos_for_bytes(self, bytes: u64) -> u64 {
        self.nanos_for_bits(bytes.saturating_mul(8))
    }

    /// Number of bit times in a span, rounded to the nearest.
    pub fn bits_in(self, span: Duration) -> u64 {
        let bits = (span.as_nanos() * u128::from(self.0) + 500_000_000) / 1_000_000_000;
        u64::try_from(bits).unwrap_or(u64::MAX)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::new(text, BIT_RATE);
        let (number, unit) = split(text).ok_or_else(error)?;
        let scale = match unit {
            "bit/s" => 1.0,
            "kbit/s" => 1e3,
            "Mbit/s" => 1e6,
            "Gbit/s" => 1e9,
            _ => return Err(error()),
        };
        let bps = (number * scale).round();
        // The bounds exclude zero and keep products with bit counts within 128 bits.
        if !(1.0..=1e18).contains(&bps) {
            return Err(error());
        }
        Ok(BitRate(bps as u64))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            n if n.is_multiple_of(1_000_000_000) => (1_000_000_000, "Gbit/s"),
            n if n.is_multiple_of(1_000_000) => (1_000_000, "Mbit/s"),
            n if n.is_multiple_of(1_000) => (1_000, "kbit/s"),
            _ => (1, "bit/s"),
        };
        write!(f, "{} {unit}", self.0 / scale)
    }
}

text_serde!(BitRate, BIT_RATE);

/// Amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataSize(pub u64);

impl FromStr for DataSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::new(text, DATA_SIZE);
        let (number, unit) = split(text).ok_or_else(error)?;
        let scale = match unit {
            "byte" | "bytes" | "B" => 1.0,
            "kB" | "KB" => 1e3,
            "KiB" => 1024.0,
            "MB" => 1e6,
            "MiB" => 1_048_576.0,
            "GB" => 1e9,
            "GiB" => 1_073_741_824.0,
            _ => return Err(error()),
        };
        let bytes = number * scale;
        if !(0.0..=9e15).contains(&bytes) || bytes.fract() != 0.0 {
            return Err(error());
        }
        Ok(DataSize(bytes as u64))
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte", self.0)
    }
}

text_serde!(DataSize, DATA_SIZE);

/// Probability, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Probability of the impossible event.
    pub const ZERO: Probability = Probability(0.0);

    /// Probability of the certain event.
    pub const ONE: Probability = Probability(1.0);

    /// Probability `p`; `None` unless `p` lies in 0..=1.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Probability(p))
    }

    /// Value from 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error =
            || UnitError::new(text, "a probability: a number from 0 to 1, or a percentage such as \"2 %\"");
        let (number, unit) = split(text).ok_or_else(error)?;
        let p = match unit {
            "" => number,
            "%" => number / 100.0,
            _ => return Err(error()),
        };
        Probability::new(p).ok_or_else(error)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for Probability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(f64),
            Text(String),
        }
        let expected = "a probability: a number from 0 to 1, or a percentage such as \"2 %\"";
        match Form::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom(format!("expected {expected}")))?
        {
            Form::Number(p) => {
                Probability::new(p).ok_or_else(|| serde::de::Error::custom(format!("{p} is not {expected}")))
            }
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Span of time as written: a fixed time, or bit times that depend on the network's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Fixed time.
    Time(Duration),
    /// Number of bit times at the network's rate.
    Bits(u64),
}

impl Span {
    /// Zero span.
    pub const ZERO: Span = Span::Bits(0);

    /// Duration of the span at this rate.
    pub fn at(self, rate: BitRate) -> Duration {
        match self {
            Span::Time(time) => time,
            Span::Bits(bits) => rate.time_for_bits(bits),
        }
    }

    /// Bit times of the span at this rate, rounded to the nearest.
    pub fn bits_at(self, rate: BitRate) -> u64 {
        match self {
            Span::Time(time) => rate.bits_in(time),
            Span::Bits(bits) => bits,
        }
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::new(text, SPAN);
        let (number, unit) = split(text).ok_or_else(error)?;
        if !(0.0..=1e18).contains(&number) {
            return Err(error());
        }
        let nanos = match unit {
            // Bit times stay symbolic until the rate is known.
            "bit" | "bits" if number.fract() == 0.0 => return Ok(Span::Bits(number as u64)),
            "ns" => number,
            "us" | "µs" => number * 1e3,
            "ms" => number * 1e6,
            "s" => number * 1e9,
            "min" => number * 60e9,
            "h" => number * 3600e9,
            _ => return Err(error()),
        };
        if nanos > 9.2e18 {
            return Err(error());
        }
        Ok(Span::Time(Duration::from_nanos(nanos.round() as u64)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Bits(bits) => write!(f, "{bits} bit"),
            Span::Time(time) => {
                let nanos = time.as_nanos();
                let (scale, unit) = match nanos {
                    n if n.is_multiple_of(1_000_000_000) => (1_000_000_000, "s"),
                    n if n.is_multiple_of(1_000_000) => (1_000_000, "ms"),
                    n if n.is_multiple_of(1_000) => (1_000, "us"),
                    _ => (1, "ns"),
                };
                write!(f, "{} {unit}", nanos / scale)
            }
        }
    }
}

text_serde!(Span, SPAN);
