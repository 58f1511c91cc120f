//! The file delivery table at the sender: its instances, and when their packets are due.

use std::time::Duration;

use carillon_core::{BuildContext, Config, Time};
use carillon_wire::alc::{Code, Encoding, Extensions, FdtHeader, Identifiers, Packet, Transmission};
use carillon_wire::fdt::{Fdt, File};

use super::super::config::{FDT_EXTENSIONS_LEN, place};

/// Table of the sender.
#[derive(Debug)]
pub struct Table {
    version: u8,
    /// Number of symbols after which it is sent again.
    every: u64,
    expiry: Duration,
    /// Time of day at the start, in seconds since 1900; 0 if it is not known.
    clock: u32,
    /// Number of the next instance, modulo 2^20.
    instance: u32,
    /// The current instance and the time at which it was made; `None` before the first one.
    current: Option<(Vec<u8>, Time)>,
    /// True if the current instance does not list all files, or not that they are the last.
    is_stale: bool,
    /// Packets of the current instance that are due: from this one on.
    due: Option<usize>,
    /// Number of symbols since it was sent.
    since: u64,
}

impl Table {
    /// Table with these settings.
    pub fn new(settings: &Config, build: &BuildContext) -> Self {
        Table {
            version: if settings.choice("version") == "1" { 1 } else { 2 },
            every: settings.count("fdt_every"),
            expiry: settings.span("fdt_expiry").at(build.bit_rate),
            clock: settings.count("clock") as u32,
            instance: 0,
            current: None,
            is_stale: true,
            due: None,
            since: 0,
        }
    }

    /// Requires a new instance.
    pub fn change(&mut self) {
        self.is_stale = true;
    }

    /// Makes it due.
    pub fn announce(&mut self) {
        self.due.get_or_insert(0);
    }

    /// Makes it due between two passes, unless it is long and was sent not long ago.
    pub fn announce_between(&mut self) {
        let length = self.current.as_ref().map_or(0, |(xml, _)| xml.len());
        if length <= SHORT_TABLE || self.since >= (length / SHARE_BYTES) as u64 {
            self.announce();
        }
    }

    /// Makes the last instance due once more.
    pub fn repeat(&mut self) {
        if self.current.is_some() {
            self.announce();
        }
    }

    /// Returns true if packets of it are due.
    pub fn is_due(&self) -> bool {
        self.due.is_some() && self.current.is_some()
    }

    /// Counts a symbol.
    pub fn on_symbol(&mut self) {
        self.since += 1;
        if self.since >= self.every {
            self.announce();
        }
    }

    /// Makes a new instance if the current one is stale, or expires before long. A file that was sent may stay listed:
    /// a new instance for each would make receivers read it for nothing.
    pub fn update<'a>(&mut self, now: Time, is_last: bool, files: impl Iterator<Item = &'a File>) {
        let is_old = self.current.as_ref().is_none_or(|&(_, made)| now.since(made) > self.expiry / 2);
        if !is_old && !self.is_stale {
            return;
        }
        let expires = match self.clock {
            0 => u32::MAX,
            _ => self.seconds(now).wrapping_add(self.expiry.as_secs() as u32),
        };
        self.is_stale = false;
        let fdt = Fdt { expires, complete: is_last, files: files.cloned().collect(), skipped: 0 };
        self.current = Some((fdt.emit(self.version).into_bytes(), now));
        self.instance = (self.instance + 1) & 0xf_ffff;
        self.due = Some(0);
    }

    /// Appends the next packet that is due.
    pub fn emit(
        &mut self,
        now: Time,
        identifiers: Identifiers,
        symbol: u16,
        buf: &mut Vec<u8>,
    ) -> Option<()> {
        let (at, (xml, _)) = (self.due?, self.current.as_ref()?);
        // Its packets have further extensions.
        let symbol = symbol.saturating_sub(FDT_EXTENSIONS_LEN as u16).max(1);
        let length = xml.len() as u64;
        let block = length.div_ceil(symbol.into()).min(MAX_BLOCK);
        let code = Code::NoCode { block: block as u32 };
        let (mut extensions, mut payload) = (Vec::with_capacity(28), Vec::with_capacity(4 + xml.len()));
        let header = FdtHeader { version: self.version, instance: self.instance };
        Extensions::push_fdt(&mut extensions, header);
        if self.version > 1 && self.clock > 0 {
            Extensions::push_time(&mut extensions, self.seconds(now));
        }
        Extensions::push_transmission(&mut extensions, &Transmission { length, symbol, code });
        Encoding::NoCode.push_id(&mut payload, place(0, at as u64));
        let mut parts = xml.chunks(symbol.into()).skip(at);
        payload.extend_from_slice(parts.next().unwrap_or_default());
        let is_last = parts.next().is_none() || at as u64 + 1 >= MAX_BLOCK;
        let extensions = Extensions::new(&extensions).unwrap_or_default();
        let packet = Packet::new(identifiers, Encoding::NoCode.id());
        Packet { extensions, payload: &payload, ..packet }.emit(buf);
        self.due = (!is_last).then_some(at + 1);
        self.since = if is_last { 0 } else { self.since };
        Some(())
    }

    fn seconds(&self, now: Time) -> u32 {
        self.clock.wrapping_add(now.since(Time::ZERO).as_secs() as u32)
    }
}

/// Maximum bytes of a table that is sent before each pass.
const SHORT_TABLE: usize = 16 << 10;
/// Bytes of a longer table for each symbol between two transmissions, so that it takes at most about a fifth of the
/// rate.
const SHARE_BYTES: usize = 256;
/// Maximum number of symbols of a block without a code.
const MAX_BLOCK: u64 = 1 << 16;
