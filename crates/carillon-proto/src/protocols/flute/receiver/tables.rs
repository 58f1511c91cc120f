//! Instances of the file delivery table at a receiver.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{DropReason, Time};
use carillon_wire::alc::{Encoding, Packet};
use carillon_wire::fdt::{Fdt, MAX_FDT_BYTES};

use super::super::content::ContentEncoding;
use super::assembly::{Added, Assembly};

/// Instances that arrive and those that were read.
#[derive(Debug)]
pub struct Tables {
    /// Instances in assembly, by their numbers.
    partial: BTreeMap<u32, (Assembly, Time)>,
    /// Instances that were read.
    read: BTreeSet<u32>,
    /// Time of day at the start, in seconds since 1900; 0 if it is not known.
    clock: u32,
    complete: bool,
}

impl Tables {
    /// Tables of a session that begins at this time of day, in seconds since 1900; 0: unknown.
    pub fn new(clock: u32) -> Self {
        Tables { partial: BTreeMap::new(), read: BTreeSet::new(), clock, complete: false }
    }

    /// Returns true if a table has said that no later one has further files.
    pub fn are_complete(&self) -> bool {
        self.complete
    }

    /// Adds a packet. Returns the table that it completes, unless the table has expired.
    pub fn add(&mut self, now: Time, packet: &Packet<'_>) -> Result<Option<Fdt>, DropReason> {
        let header = packet.extensions.fdt().ok_or(DropReason::Malformed)?;
        if !matches!(header.version, 1 | 2) {
            return Err(DropReason::Foreign);
        }
        if self.read.contains(&header.instance) {
            return Ok(None);
        }
        let encoding = Encoding::of(packet.codepoint).ok_or(DropReason::Malformed)?;
        let (id, symbol) = encoding.split(packet.payload).ok_or(DropReason::Malformed)?;
        if !self.partial.contains_key(&header.instance) {
            let transmission = packet.extensions.transmission(encoding).ok_or(DropReason::Malformed)?;
            if transmission.length > MAX_FDT_BYTES as u64 {
                return Err(DropReason::BufferFull);
            }
            let assembly = Assembly::new(transmission).ok_or(DropReason::Malformed)?;
            self.make_room();
            self.partial.insert(header.instance, (assembly, now));
        }
        let Some((assembly, touched)) = self.partial.get_mut(&header.instance) else { return Ok(None) };
        *touched = now;
        // Short symbols take more memory than their bytes.
        if assembly.memory() > 2 * MAX_FDT_BYTES {
            return Err(DropReason::BufferFull);
        }
        match assembly.add(id, symbol) {
            Added::New => {}
            Added::Duplicate => return Ok(None),
            Added::Invalid => return Err(DropReason::Malformed),
        }
        if !assembly.is_complete() {
            return Ok(None);
        }
        let Some((assembly, _)) = self.partial.remove(&header.instance) else { return Ok(None) };
        let fdt = read(assembly.into_object(), packet).ok_or(DropReason::Malformed)?;
        self.read.insert(header.instance);
        if self.read.len() > MAX_READ {
            self.read.pop_first();
        }
        // The sender's own clock is the better judge of its tables.
        let own = (self.clock > 0).then(|| self.clock.wrapping_add(now.since(Time::ZERO).as_secs() as u32));
        let at = packet.extensions.sender_seconds().or(own);
        // Numbers wrap in 2036, so the nearer way round counts.
        if at.is_some_and(|at| (fdt.expires.wrapping_sub(at) as i32) < 0) {
            return Err(DropReason::OutOfWindow);
        }
        self.complete |= fdt.complete;
        Ok(Some(fdt))
    }

    /// Drops the oldest instance in assembly if there are too many.
    fn make_room(&mut self) {
        if self.partial.len() >= MAX_PARTIAL
            && let Some(&oldest) =
                self.partial.iter().min_by_key(|(_, (_, touched))| touched).map(|(number, _)| number)
        {
            self.partial.remove(&oldest);
        }
    }
}

fn read(object: Vec<u8>, packet: &Packet<'_>) -> Option<Fdt> {
    let encoding = ContentEncoding::numbered(packet.extensions.content_encoding().unwrap_or(0))?;
    Fdt::parse(&encoding.decode(object, MAX_FDT_BYTES)?).ok()
}

/// Maximum number of instances in assembly.
const MAX_PARTIAL: usize = 4;
/// Maximum number of instances that are known to be read.
const MAX_READ: usize = 256;
