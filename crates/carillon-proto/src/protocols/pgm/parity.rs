//! Parity of transmission groups: RFC 3208, section 11.
//!
//! A transmission group is a run of `k` packets, `k` a power of two. Its sequence numbers differ in the lowest bits.
//! Any `k` of its data and parity packets give all its data, so one parity packet repairs a different loss at each
//! receiver. The code is that of [`symbol`]: data packets have the first `k` indices, parity packets the next ones.

use bytes::{Bytes, BytesMut};
use carillon_core::{Config, ConfigError};
use carillon_wire::pgm::{Options, ParityParameters};

use crate::blocks::{MAX_SYMBOLS, Symbol, symbol};

/// Parity that a source offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Number of data packets in a transmission group (k), a power of two.
    pub size: u64,
    /// True if a NAK may ask for a number of parity packets of a group.
    pub on_demand: bool,
    /// True if parity packets follow each group.
    pub is_proactive: bool,
}

impl Offer {
    /// Reads the source's settings, with the number of parity packets after each group.
    pub fn of_settings(settings: &Config) -> Option<(Self, u64)> {
        let (on_demand, is_proactive) = match settings.choice("parity") {
            "on-demand" => (true, false),
            "proactive" => (false, true),
            "both" => (true, true),
            _ => return None,
        };
        let size: u64 = settings.choice("tg_size").parse().ok()?;
        let each = if is_proactive { settings.count("tg_parity") } else { 0 };
        Some((Offer { size, on_demand, is_proactive }, each))
    }

    /// Reads the offer of an SPM. None without parity, or with a group size that the code does not have.
    pub fn of_spm(options: &Options<'_>) -> Option<Self> {
        let ParityParameters { flags, group_size } = options.parity_parameters?;
        let has = |flag| flags & flag != 0;
        let (on_demand, is_proactive) = (has(ParityParameters::ON_DEMAND), has(ParityParameters::PROACTIVE));
        let fits = group_size.is_power_of_two() && (2..=MAX_GROUP_SIZE).contains(&u64::from(group_size));
        (fits && (on_demand || is_proactive)).then_some(Offer {
            size: group_size.into(),
            on_demand,
            is_proactive,
        })
    }

    /// Offer as an SPM carries it.
    pub fn parameters(self) -> ParityParameters {
        let on_demand = if self.on_demand { ParityParameters::ON_DEMAND } else { 0 };
        let proactive = if self.is_proactive { ParityParameters::PROACTIVE } else { 0 };
        ParityParameters { flags: on_demand | proactive, group_size: self.size as u32 }
    }

    /// First sequence number of the group of a packet.
    pub fn group_of(self, number: u64) -> u64 {
        number & !(self.size - 1)
    }

    /// Number of different parity packets of a group.
    pub fn max_parity(self) -> u64 {
        MAX_SYMBOLS as u64 - self.size
    }

    /// Sequence number and group number of the parity packet with this number, from 0 on (section 11.3).
    pub fn address(self, group: u64, parity: u64) -> (u64, Option<u32>) {
        let more = parity / self.size;
        (group + parity % self.size, (more > 0).then_some(more as u32))
    }

    /// Index in the code of the parity packet with these numbers; none if the code has no such index.
    pub fn index(self, number: u64, parity_group: Option<u32>) -> Option<u8> {
        let parity = u64::from(parity_group.unwrap_or(0)) * self.size + (number & (self.size - 1));
        (parity < self.max_parity()).then(|| (self.size + parity) as u8)
    }

    /// Number of parity packets that a NAK or an NCF names.
    pub fn count_of(self, number: u64) -> u64 {
        (number & (self.size - 1)) + 1
    }
}

/// Checks that a plain session has no parity: other programs understand its flags differently.
pub(super) fn refuse_in_plain_session(settings: &Config) -> Result<(), ConfigError> {
    match settings.choice("parity") {
        "none" => Ok(()),
        _ => Err(ConfigError::Conflict("plain sessions have no parity: set `parity` to none".to_owned())),
    }
}

/// Computes the parity packet with this index from the data of a group. Returns true if the data differ in length.
pub(super) fn encode(data: &[Bytes], index: u8) -> (Vec<u8>, bool) {
    let size = data.iter().map(Bytes::len).max().unwrap_or(0);
    let varies = data.iter().any(|payload| payload.len() != size);
    let framed: Vec<Bytes> = data.iter().map(|payload| framed(payload, size, varies)).collect();
    let known: Vec<Symbol<'_>> = (0..).zip(framed.iter().map(|bytes| &bytes[..])).collect();
    (symbol(&known, index.into(), if varies { size + LENGTH_BYTES } else { size }), varies)
}

/// Payload as the code takes it: padded, and with its length if lengths vary (section 11.6).
fn framed(payload: &Bytes, size: usize, varies: bool) -> Bytes {
    if !varies {
        return payload.clone();
    }
    let mut bytes = BytesMut::with_capacity(size + LENGTH_BYTES);
    bytes.extend_from_slice(payload);
    bytes.resize(size, 0);
    bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    bytes.freeze()
}

/// Data and parity packets of one group at a receiver.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Data packets by index.
    data: std::collections::BTreeMap<u8, Bytes>,
    /// Parity packets by index in the code.
    parity: std::collections::BTreeMap<u8, Bytes>,
    /// True if the parity packets have lengths.
    varies: bool,
}

impl Symbols {
    /// Number of packets.
    pub fn len(&self) -> u64 {
        (self.data.len() + self.parity.len()) as u64
    }

    /// Returns true if this data packet is present.
    pub fn has(&self, index: u64) -> bool {
        self.data.contains_key(&(index as u8))
    }

    /// Adds a data packet.
    pub fn add(&mut self, index: u64, payload: Bytes) {
        self.data.insert(index as u8, payload);
    }

    /// Adds a parity packet. Returns false if it contradicts another one or is present.
    pub fn add_parity(&mut self, index: u8, payload: Bytes, varies: bool) -> bool {
        let fits = self
            .parity
            .values()
            .next()
            .is_none_or(|other| other.len() == payload.len() && self.varies == varies);
        let is_new = fits && !self.parity.contains_key(&index) && (!varies || payload.len() >= LENGTH_BYTES);
        if is_new {
            self.varies = varies;
            self.parity.insert(index, payload);
        }
        is_new
    }

    /// Computes the missing data of a group of `size`, with their indices. Nothing unless enough packets are present,
    /// or if they contradict each other: a forged one among them is then dropped with all parity.
    pub fn decode(&mut self, size: u64) -> Vec<(u64, Bytes)> {
        let Some(shape) = self.parity.values().next().map(Bytes::len).filter(|_| self.len() >= size) else {
            return Vec::new();
        };
        let payload_size = if self.varies { shape - LENGTH_BYTES } else { shape };
        let is_sound = |payload: &Bytes| match self.varies {
            true => payload.len() <= payload_size,
            false => payload.len() == payload_size,
        };
        let decoded = self.data.values().all(is_sound).then(|| self.solve(size, payload_size)).flatten();
        if decoded.is_none() {
            self.parity.clear();
        }
        decoded.unwrap_or_default()
    }

    fn solve(&self, size: u64, payload_size: usize) -> Option<Vec<(u64, Bytes)>> {
        let framed: Vec<(u8, Bytes)> = self
            .data
            .iter()
            .map(|(&index, payload)| (index, framed(payload, payload_size, self.varies)))
            .chain(self.parity.iter().map(|(&index, payload)| (index, payload.clone())))
            .take(size as usize)
            .collect();
        let known: Vec<Symbol<'_>> =
            framed.iter().map(|(index, bytes)| (u16::from(*index), &bytes[..])).collect();
        let length = payload_size + if self.varies { LENGTH_BYTES } else { 0 };
        let missing = (0..size).filter(|&index| !self.has(index));
        let solved = missing.map(|index| {
            let mut bytes = symbol(&known, index as u16, length);
            if self.varies {
                let (_, own) = bytes.split_last_chunk::<LENGTH_BYTES>()?;
                let own = usize::from(u16::from_be_bytes(*own));
                if own > payload_size {
                    return None;
                }
                bytes.truncate(own);
            }
            Some((index, Bytes::from(bytes)))
        });
        solved.collect()
    }
}

/// Maximum bytes that a parity packet has more than the longest data packet of its group: OPT_LENGTH, OPT_PARITY_GRP,
/// and the length.
pub(super) const OVERHEAD: usize = 4 + 8 + LENGTH_BYTES;
/// Maximum size of a transmission group: half of the indices of the code are left for parity.
const MAX_GROUP_SIZE: u64 = 128;
/// Bytes of the length behind a packet of a group with several lengths.
const LENGTH_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    fn payloads(rng: &mut carillon_core::Rng, size: u64, varies: bool) -> Vec<Bytes> {
        let len = 1 + rng.below(40);
        (0..size)
            .map(|_| {
                (0..if varies { rng.below(len + 1) } else { len }).map(|_| rng.below(256) as u8).collect()
            })
            .collect()
    }

    /// "Any k of the packets of a group give the others", with equal and with different lengths.
    #[test]
    fn any_packets_as_many_as_the_group_has_give_its_data() {
        let mut rng = Seeds::new(1).stream("parity");
        for round in 0..200u64 {
            let size = 2 << rng.below(4);
            let data = payloads(&mut rng, size, round % 2 == 1);
            let mut symbols = Symbols::default();
            let mut indices: Vec<u64> = (0..size + 4).collect();
            while indices.len() as u64 > size {
                indices.swap_remove(rng.below(indices.len() as u64) as usize);
            }
            for &index in &indices {
                match data.get(index as usize) {
                    Some(payload) => symbols.add(index, payload.clone()),
                    None => {
                        let (parity, varies) = encode(&data, index as u8);
                        assert!(symbols.add_parity(index as u8, parity.into(), varies));
                    }
                }
            }
            for (index, payload) in symbols.decode(size) {
                assert_eq!(payload, data[index as usize]);
                assert!(!indices.contains(&index));
                symbols.add(index, payload);
            }
            assert!((0..size).all(|index| symbols.has(index)), "round {round}");
        }
    }

    /// Forged packets neither panic nor pass for data that the group cannot have.
    #[test]
    fn contradicting_parity_is_dropped() {
        let mut symbols = Symbols::default();
        symbols.add(0, Bytes::from_static(b"abc"));
        assert!(!symbols.add_parity(2, Bytes::from_static(b"x"), true), "too short for a length");
        assert!(symbols.add_parity(2, Bytes::from_static(b"xy"), false));
        assert!(!symbols.add_parity(2, Bytes::from_static(b"xy"), false), "present");
        assert!(!symbols.add_parity(3, Bytes::from_static(b"xyz"), false), "another length");
        assert!(symbols.decode(2).is_empty() && symbols.len() == 1, "the data are longer");
        assert!(symbols.add_parity(3, Bytes::from_static(b"\xff\xff\xff\xff\xff"), true));
        assert!(symbols.decode(2).is_empty(), "a length beyond the packet");
    }

    #[test]
    fn parity_packets_are_numbered_in_their_group() {
        let offer = Offer { size: 4, on_demand: true, is_proactive: false };
        for (parity, address) in [(0, (8, None)), (3, (11, None)), (4, (8, Some(1))), (250, (10, Some(62)))] {
            assert_eq!(offer.address(8, parity), address);
            assert_eq!(offer.index(address.0, address.1), Some(4 + parity as u8));
        }
        assert_eq!(offer.index(11, Some(62)), None, "the code ends");
        assert_eq!(offer.index(8, Some(u32::MAX)), None);
        assert_eq!((offer.group_of(11), offer.count_of(8), offer.count_of(11)), (8, 1, 4));
    }
}
