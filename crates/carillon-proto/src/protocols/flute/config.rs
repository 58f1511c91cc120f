//! Parameters of FLUTE.

use carillon_core::{Config, ConfigError, Parameter};
use carillon_wire::alc::{Code, PayloadId, Transmission};

use super::code::{MAX_RAPTOR_SYMBOLS, MIN_RAPTOR_SYMBOLS};
use crate::blocks::MAX_SYMBOLS;

/// Maximum bytes of a data packet around a symbol: fixed header, identifiers of 48 bits each, EXT_FTI, and the
/// payload identifier. Packets of the table have EXT_FDT and EXT_TIME, but need no room for a whole symbol.
pub(super) const HEADER_LEN: usize = 8 + 12 + 16 + 8;
/// Bytes of EXT_FDT and EXT_TIME.
pub(super) const FDT_EXTENSIONS_LEN: usize = 12;

/// Codes and sizes by which objects are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub scheme: Scheme,
    /// Maximum number of source symbols of a block.
    pub block: u64,
    /// Number of parity symbols of a block.
    pub parity: u64,
    /// Maximum bytes of a symbol.
    pub symbol: u16,
}

/// Code of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    NoCode,
    ReedSolomon,
    Raptor,
    RaptorQ,
}

impl Shape {
    /// Sizes from the settings. Fails if a block has more symbols than the code.
    pub fn new(settings: &Config, max_payload: u32) -> Result<Shape, ConfigError> {
        let scheme = match settings.choice("fec") {
            "reed-solomon" => Scheme::ReedSolomon,
            "raptor" => Scheme::Raptor,
            "raptorq" => Scheme::RaptorQ,
            _ => Scheme::NoCode,
        };
        let (block, parity) = (settings.count("block"), settings.count("parity"));
        let most = match scheme {
            Scheme::ReedSolomon => MAX_SYMBOLS as u64 - parity,
            Scheme::NoCode | Scheme::Raptor | Scheme::RaptorQ => MAX_RAPTOR_SYMBOLS as u64,
        };
        if block > most {
            let reason = format!("block = {block} exceeds {most} symbols of the code");
            return Err(ConfigError::Conflict(reason));
        }
        let room = max_payload.min(u32::from(u16::MAX) - HEADER_LEN as u32) as u16;
        let symbol = match settings.count("symbol") {
            0 => room,
            symbol => room.min(symbol as u16),
        };
        // Raptor and RaptorQ want symbols of whole words.
        let symbol = if matches!(scheme, Scheme::Raptor | Scheme::RaptorQ) { symbol / 4 * 4 } else { symbol };
        match symbol {
            0 => Err(ConfigError::Conflict("a packet has no room for a symbol".to_owned())),
            symbol => Ok(Shape { scheme, block, parity, symbol }),
        }
    }

    /// Transmission of an object. `None` if it is too long for the numbers of its code.
    pub fn transmission(&self, length: u64) -> Option<Transmission> {
        let symbols = length.div_ceil(self.symbol.into());
        let no_code = Code::NoCode { block: self.block as u32 };
        let made = |symbol, code| Transmission { length, symbol, code };
        let whole = made(self.symbol, no_code);
        let (transmission, blocks) = match self.scheme {
            Scheme::NoCode => (whole, 1 << 16),
            Scheme::ReedSolomon => {
                let total = (self.block + self.parity) as u8;
                (made(self.symbol, Code::ReedSolomon8 { block: self.block as u8, total }), 1 << 24)
            }
            // There are no blocks of nothing.
            _ if length == 0 => (whole, 1 << 16),
            Scheme::Raptor => {
                // A block has at least four symbols, so short objects have shorter ones.
                let short = (length / MIN_RAPTOR_SYMBOLS as u64 / 4 * 4) as u16;
                let symbol = if symbols < MIN_RAPTOR_SYMBOLS as u64 { short } else { self.symbol };
                if symbol == 0 {
                    return Some(whole);
                }
                let symbols = length.div_ceil(symbol.into());
                let most = self.block.max(2 * MIN_RAPTOR_SYMBOLS as u64);
                let blocks = symbols.div_ceil(most).try_into().ok()?;
                (made(symbol, Code::Raptor { blocks, sub_blocks: 1, alignment: 4 }), 1 << 16)
            }
            Scheme::RaptorQ => {
                let blocks = symbols.div_ceil(self.block.max(symbols.div_ceil(255))).try_into().ok()?;
                (made(self.symbol, Code::RaptorQ { blocks, sub_blocks: 1, alignment: 4 }), 255)
            }
        };
        let fits = super::partition::partition(&transmission).is_some_and(|all| {
            let most = if self.scheme == Scheme::NoCode { u64::MAX } else { MAX_RAPTOR_SYMBOLS as u64 };
            all.blocks() <= blocks && all.symbols(0) <= most
        });
        fits.then_some(transmission)
    }
}

/// Identifier of a symbol that small block codes do not use.
pub(super) fn place(block: u64, symbol: u64) -> PayloadId {
    PayloadId { block: block as u32, symbol: symbol as u32, length: None }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("version", &["2", "1"], "2").doc(
        "version of FLUTE that is sent: 2 (RFC 6726), or 1 (RFC 3926, as 3GPP uses it); both are received",
    ),
    Parameter::choice("fec", &["reed-solomon", "no-code", "raptor", "raptorq"], "reed-solomon")
        .doc("erasure code of the sender; a receiver learns it from the packets"),
    Parameter::count("block", (1, 8192), "64").doc("maximum number of source symbols in a block"),
    Parameter::count("parity", (0, 200), "16").doc("number of parity symbols of a block"),
    Parameter::count("symbol", (0, 60_000), "0").doc("bytes of a symbol; 0: as many as fit a packet"),
    Parameter::count("carousel", (1, 1_000_000), "2").doc("number of times that each file is sent"),
    Parameter::count("fdt_every", (1, 1_000_000), "200").doc(
        "number of symbols after which the file delivery table is sent again; each file begins with it too",
    ),
    Parameter::span("fdt_expiry", "3600 s").doc("time for which a file delivery table is valid"),
    Parameter::choice("content_encoding", &["none", "gzip"], "none")
        .doc("compression of the sender's files; a receiver learns it from the table"),
    Parameter::count("tsi", (0, 0xffff), "0").doc("transport session identifier of the sender; 0: drawn"),
    Parameter::count("clock", (0, u32::MAX as u64), "0")
        .doc("time of day at the start, in seconds since 1900 (NTP); 0: unknown, so that no table expires"),
    Parameter::count("close_packets", (1, 100), "3")
        .doc("number of packets that announce the end of the session"),
    Parameter::span("close_interval", "20 ms").doc("time between these packets"),
    Parameter::span("close_wait", "1 s")
        .doc("time after the announced end in which a receiver still waits for late packets"),
    Parameter::rate("rate", "20 Mbit/s").doc("maximum rate of the sender; 0: the interface's rate"),
    Parameter::size("burst", (0, 1 << 30), "16384").doc("maximum burst after a pause"),
    Parameter::size("send_buffer", (1, 1 << 40), "67108864")
        .doc("bytes of files in transmission; a longer file is sent alone"),
];
