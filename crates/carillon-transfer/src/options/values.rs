//! Values of options as text.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use carillon_core::{BitRate, DataSize, Duration, Probability};
use carillon_net::Dscp;
use carillon_session::Slow;

use crate::files::History;

/// Form of a value as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Base units, for programs: nanoseconds, bits per second, bytes; `1` for an option without a value.
    Exact,
    /// Units of the command line, for people: seconds, `100 Mbit/s`, `8 KiB`.
    Text,
}

/// Kind of the values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name of the value in the help of commands; empty for an option without a value.
    pub name: &'static str,
    /// Values in text notation, with unit and range.
    pub text: &'static str,
    /// Values in exact notation, with unit; empty if they equal those in text notation.
    pub exact: &'static str,
}

impl Kind {
    /// Creates a kind with the same values in both notations.
    pub(super) const fn new(name: &'static str, text: &'static str) -> Kind {
        Kind { name, text, exact: "" }
    }

    /// Creates a kind with different values in exact notation.
    pub(super) const fn with_exact(name: &'static str, text: &'static str, exact: &'static str) -> Kind {
        Kind { name, text, exact }
    }
}

/// Access to a field with a value.
macro_rules! value {
    ($($field:ident).+) => {
        Access {
            set: |settings, text, notation| {
                settings.$($field).+ = Value::parse(text, notation)?;
                Ok(())
            },
            values: |settings| vec![settings.$($field).+.exact()],
        }
    };
}

/// Access to a field with a value or `None`, which no text stands for.
macro_rules! optional {
    ($($field:ident).+) => {
        Access {
            set: |settings, text, notation| {
                settings.$($field).+ = Some(Value::parse(text, notation)?);
                Ok(())
            },
            values: |settings| settings.$($field).+.iter().map(Value::exact).collect(),
        }
    };
}

/// Access to a field that is true or false.
macro_rules! flag {
    ($($field:ident).+) => {
        Access {
            set: |settings, text, _| {
                settings.$($field).+ = is_set(text)?;
                Ok(())
            },
            values: |settings| settings.$($field).+.then(|| "1".to_owned()).into_iter().collect(),
        }
    };
}

pub(super) use {flag, optional, value};

/// A type of values.
pub(super) trait Value: Sized {
    /// Parses a value; the error says what is expected.
    fn parse(text: &str, notation: Notation) -> Result<Self, String>;

    /// Exact notation of the value.
    fn exact(&self) -> String;
}

/// Values with the same text in both notations.
macro_rules! same_in_both {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn parse(text: &str, _: Notation) -> Result<Self, String> {
                <$type>::from_str(text).map_err(|error| error.to_string())
            }

            fn exact(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

same_in_both!(History, IpAddr, Probability, SocketAddr, String, u64, usize);

impl Value for Duration {
    fn parse(text: &str, notation: Notation) -> Result<Self, String> {
        match notation {
            Notation::Exact => u64::parse(text, notation).map(Duration::from_nanos),
            Notation::Text => seconds(text),
        }
    }

    fn exact(&self) -> String {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).to_string()
    }
}

impl Value for BitRate {
    fn parse(text: &str, notation: Notation) -> Result<Self, String> {
        match notation {
            Notation::Exact => {
                BitRate::new(u64::parse(text, notation)?).ok_or_else(|| "expected a rate above 0".to_owned())
            }
            Notation::Text => text.parse().map_err(|error: carillon_core::UnitError| error.to_string()),
        }
    }

    fn exact(&self) -> String {
        self.bps().to_string()
    }
}

impl Value for Dscp {
    fn parse(text: &str, _: Notation) -> Result<Self, String> {
        text.parse().map_err(|error: carillon_net::UnknownDscp| error.to_string())
    }

    fn exact(&self) -> String {
        Dscp::value(*self).to_string()
    }
}

impl Value for Slow {
    fn parse(text: &str, _: Notation) -> Result<Self, String> {
        text.parse().map_err(|error: carillon_session::UnknownWord| error.to_string())
    }

    fn exact(&self) -> String {
        self.name().to_owned()
    }
}

impl Value for u8 {
    fn parse(text: &str, _: Notation) -> Result<Self, String> {
        ranged(text, 0, u8::MAX.into()).map(|value| value as u8)
    }

    fn exact(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    fn parse(text: &str, _: Notation) -> Result<Self, String> {
        ranged(text, 0, u32::MAX.into()).map(|value| value as u32)
    }

    fn exact(&self) -> String {
        self.to_string()
    }
}

/// Parses a number within bounds.
pub(super) fn ranged(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let value = text.parse::<i64>().map_err(|error| error.to_string())?;
    match (min..=max).contains(&value) {
        true => Ok(value),
        false => Err(format!("{value} is not in {min}..={max}")),
    }
}

/// Parses the value of an option that is set or not.
pub(super) fn is_set(text: &str) -> Result<bool, String> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("expected 1 or 0".to_owned()),
    }
}

/// Parses a rate; `None` for 0.
pub(super) fn rate_or_zero(text: &str, notation: Notation) -> Result<Option<BitRate>, String> {
    match text.trim() {
        "0" => Ok(None),
        text => BitRate::parse(text, notation).map(Some),
    }
}

/// Parses a size of datagrams; in text notation it may have a unit, and is at least [`MIN_DATAGRAM`].
pub(super) fn datagram(text: &str, notation: Notation) -> Result<u32, String> {
    if notation == Notation::Exact {
        return u32::parse(text, notation);
    }
    let bytes = match text.trim().parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => text.parse::<DataSize>().map_err(|error| error.to_string())?.0,
    };
    let fits = u32::try_from(bytes).ok().filter(|&bytes| bytes >= MIN_DATAGRAM);
    fits.ok_or_else(|| format!("a datagram has {MIN_DATAGRAM} bytes at least, and 4 GiB at most"))
}

/// Parses a time in seconds, such as `2.5`, of at most 1 000 000 s.
///
/// # Errors
/// Fails for other texts; the error says what is expected.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().trim_end_matches('s').trim_end().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| *span <= MAX_SPAN)
        .ok_or_else(|| format!("expected seconds from 0 to {}, such as 2.5", MAX_SPAN.as_secs()))
}

/// Upper bound of all spans, 11 days, so that sums cannot overflow.
const MAX_SPAN: Duration = Duration::from_secs(1_000_000);
/// Size that every IPv4 network carries, in bytes (RFC 791).
const MIN_DATAGRAM: u32 = 576;
