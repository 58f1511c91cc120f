//! Losses of listed packets: chosen ones, or one column of a loss file.

use super::model::SingleLoss;

/// Packets of a list that are lost, by number from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossList {
    /// Fates as bits, with the first packet in the lowest bit.
    lost: Vec<u64>,
    /// Number of packets in the list.
    packets: u64,
    counts: PacketCount,
    repeats: bool,
}

/// Packets that the numbers of a [`LossList`] count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketCount {
    /// Messages of each sender: first transmissions, by the number of the message. Repairs and control packets pass.
    #[default]
    Messages,
    /// Packets of any kind at the place, in the order of their transmission.
    Packets,
}

impl LossList {
    /// List of the fates of packets 0, 1, and so on: true is lost. Packets after the list pass, unless it `repeats`.
    pub fn new(fates: impl IntoIterator<Item = bool>, counts: PacketCount, repeats: bool) -> Self {
        let (mut lost, mut packets) = (Vec::new(), 0_u64);
        for is_lost in fates {
            if packets.is_multiple_of(64) {
                lost.push(0);
            }
            if let Some(last) = lost.last_mut() {
                *last |= u64::from(is_lost) << (packets % 64);
            }
            packets += 1;
        }
        LossList { lost, packets, counts, repeats }
    }

    /// Returns true if the packet with this number at its place is lost.
    pub(super) fn loses(&self, number: u64, original: Option<SingleLoss>) -> bool {
        let number = match self.counts {
            PacketCount::Packets => Some(number),
            PacketCount::Messages => original.map(|original| original.message.0),
        };
        let Some(number) = number else { return false };
        let number = if self.repeats { number % self.packets.max(1) } else { number };
        let word = usize::try_from(number / 64).ok().and_then(|at| self.lost.get(at));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Number of lost packets in the list.
    pub fn losses(&self) -> u64 {
        self.lost.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
