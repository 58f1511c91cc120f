//! Parameters of NORM, named after RFC 5740 and RFC 5401.

use std::time::Duration;

use carillon_core::{BitRate, Config, ConfigError, Parameter};
use carillon_wire::norm::{DATA_HEADER_LEN, StreamHeader};

use crate::blocks::{MAX_SYMBOLS, REPAIR_BUDGET};

/// Bytes of a data packet around a message: header, transmission information, and the header of the stream.
pub(super) const HEADER_LEN: usize = DATA_HEADER_LEN + FTI_LEN + StreamHeader::LEN;
/// Bytes of the transmission information (EXT_FTI of FEC encoding 5).
const FTI_LEN: usize = 12;

/// Sizes of the blocks of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of source symbols in a block.
    pub block: u64,
    /// Number of parity symbols of a block.
    pub parity: u8,
}

impl Shape {
    /// Sizes from the settings. Fails if a block has more symbols than the code.
    pub fn new(settings: &Config) -> Result<Shape, ConfigError> {
        let (block, parity) = (settings.count("block"), settings.count("parity"));
        if block + parity > MAX_SYMBOLS as u64 {
            let reason = format!(
                "block + parity = {} exceeds {MAX_SYMBOLS} symbols, which only files of plain sessions may",
                block + parity
            );
            return Err(ConfigError::Conflict(reason));
        }
        Ok(Shape { block, parity: parity as u8 })
    }

    /// Block and symbol of a message.
    pub fn place(self, number: u64) -> (u64, u8) {
        (number / self.block, (number % self.block) as u8)
    }

    /// First message of a block.
    pub fn first(self, block: u64) -> u64 {
        block.saturating_mul(self.block)
    }
}

/// Duration of a setting that may not be zero, since a timer would repeat without end.
pub(super) fn positive(settings: &Config, rate: BitRate, name: &str) -> Result<Duration, ConfigError> {
    match settings.span(name).at(rate) {
        Duration::ZERO => Err(ConfigError::Conflict(format!("{name} must be more than zero"))),
        span => Ok(span),
    }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("block", (1, 1000), "64")
        .doc("number of source symbols in a block; from NRL's implementation. Files of plain sessions may have more than 255 symbols in a block, parity included"),
    Parameter::count("parity", (0, 1000), "8")
        .doc("number of parity symbols of a block; later repairs repeat source symbols; from NRL's implementation"),
    Parameter::count("auto_parity", (0, 200), "0").doc("parity symbols sent after each block without a request"),
    Parameter::count("backoff_factor", (0, 15), "4")
        .doc("K: receivers wait up to K round-trip times before a NACK, and the sender collects them for K + 1"),
    Parameter::count("group_size", (1, 500_000_000), "10000")
        .doc("number of receivers that the random waits are made for"),
    Parameter::span("grtt", "500 ms").doc("greatest round-trip time of the group until it is measured"),
    Parameter::span("grtt_min", "1 ms").doc("minimum of the measured round-trip time; from NRL's implementation"),
    Parameter::span("grtt_max", "15 s").doc("maximum of the measured round-trip time; from NRL's implementation"),
    Parameter::span("probe_max", "30 s").doc("maximum interval of probes while there is no data"),
    Parameter::count("robust_factor", (1, 1_000_000), "20")
        .doc("number of FLUSH commands after the last data; number of times that a silent receiver asks"),
    Parameter::choice("feedback", &["multicast", "unicast"], "multicast")
        .doc("destination of NACKs; with unicast the sender advertises what was requested (REPAIR_ADV)"),
    Parameter::rate("rate", "0").doc("maximum rate of data, repairs and commands; 0: the interface's rate"),
    Parameter::choice("congestion", &["none", "equation"], "none")
        .doc("control of the rate: the throughput that TCP would have to the worst receiver (RFC 4654), at most `rate`"),
    Parameter::size("burst", (0, 1 << 30), "16384").doc("maximum burst after a pause (Carillon's)"),
    Parameter::count("cache", (1, 1 << 24), "65536").doc("maximum number of messages kept for repairs"),
    Parameter::span("cache_time", "1 s")
        .doc("time without a request after which a full cache drops its oldest message (flow control by timers in NRL's implementation)"),
    REPAIR_BUDGET,
    Parameter::count("receive_window", (1, 1 << 20), "16384")
        .doc("maximum number of messages from the first missing one on that a receiver keeps"),
    Parameter::count("nack_bytes", (64, 60_000), "1200").doc("maximum number of bytes of requests in a NACK"),
    Parameter::size("send_buffer", (1, 1 << 40), "67108864")
        .doc("plain sessions: bytes of files kept for repairs; a longer file is sent alone"),
    Parameter::count("stream_block", (1, 200), "32")
        .doc("plain sessions: number of source symbols in a block of a stream; losses are noticed at its end"),
    Parameter::size("stream_buffer", (1, 1 << 40), "8388608")
        .doc("plain sessions: bytes of a stream kept for repairs; receivers keep as many"),
    Parameter::span("linger", "100 ms").doc("plain sessions: time for which a sender stays after its end"),
    Parameter::span("end_wait", "35 s")
        .doc("plain sessions: silence after which a source of which nothing is missing has ended; NRL's implementation probes each 30 s"),
    Parameter::count("backlog", (0, 1000), "16")
        .doc("plain sessions: greatest number of earlier objects, or blocks of a stream, that a receiver requests when it begins"),
    Parameter::count("node_id", (0, u32::MAX as u64 - 1), "0")
        .doc("plain sessions: identifier of a receiver, which a sender may name for acknowledgments; 0: drawn"),
];

/// Settings for files over a real network: much parity, short waits, a rate, and NACKs that need no multicast from
/// receivers.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("feedback", "unicast"),
    ("parity", "64"),
    ("backoff_factor", "2"),
    ("group_size", "100"),
    ("grtt", "10 ms"),
    ("robust_factor", "1000"),
    ("rate", "100 Mbit/s"),
    ("cache", "32768"),
    ("receive_window", "32768"),
    ("repair_budget", "9"),
];
