//! MTP message of which packets arrive.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::Time;

/// Packets of one MTP message. Each carries one message of the application.
#[derive(Clone, Debug)]
pub(super) struct Assembly {
    /// Rank of the producer.
    pub source: usize,
    /// Stream of the message.
    pub stream: u8,
    /// Application messages by packet: number at the producer, and contents.
    pub packets: BTreeMap<u16, (u64, Bytes)>,
    /// Number of packets, if the last one is known.
    pub len: Option<u16>,
    /// Time of the last new packet.
    pub heard: Time,
}

impl Assembly {
    /// Creates a message without packets.
    pub fn new(source: usize, stream: u8, now: Time) -> Self {
        Assembly { source, stream, packets: BTreeMap::new(), len: None, heard: now }
    }

    /// Returns true if all packets are present.
    pub fn is_complete(&self) -> bool {
        self.len.is_some_and(|len| self.packets.len() == usize::from(len))
    }

    /// Ranges of missing packets. The part behind the last known packet is included if the end is known or
    /// `with_tail` is set.
    pub fn missing(&self, with_tail: bool) -> Vec<(u16, u16)> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        for &packet in self.packets.keys() {
            if packet > from {
                ranges.push((from, packet - 1));
            }
            from = packet.saturating_add(1);
        }
        match self.len {
            Some(len) if from < len => ranges.push((from, len - 1)),
            // The producer knows where the message ends.
            None if with_tail => ranges.push((from, u16::MAX)),
            _ => {}
        }
        ranges
    }
}
