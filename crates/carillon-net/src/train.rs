//! Packet trains: datagrams sent back to back. From their arrival times a receiver estimates the throughput of a path
//! (packet dispersion; Dovrolis, Ramanathan and Moore, IEEE/ACM Transactions on Networking 2004).

use std::time::Instant;

/// A datagram of a train; zeros fill it to the wanted length.
///
/// ```text
/// | C9 't' 'r' 'n' | version 1 | train u8 | index u16 | id of the machine u32 | zeros ...
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainPacket {
    /// Random number of the sending machine.
    pub id: u32,
    /// Number of the train.
    pub train: u8,
    /// Number of the datagram in the train.
    pub index: u16,
}

/// Estimate from the datagrams of trains.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrainMeter {
    current: Option<Current>,
    /// Best estimate of the trains before the current one, in bit/s.
    best: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    train: u8,
    first: Instant,
    latest: Instant,
    packets: u32,
    /// Bytes after the first datagram, with headers.
    bytes: u64,
}

impl TrainPacket {
    /// Writes the datagram with this length, at least 12 bytes.
    pub fn emit(&self, len: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[VERSION, self.train]);
        bytes.extend_from_slice(&self.index.to_be_bytes());
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes.resize(len.max(bytes.len()), 0);
        bytes
    }

    /// Parses a datagram; `None` if it is not of a train.
    pub fn parse(bytes: &[u8]) -> Option<TrainPacket> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let ([VERSION, train, rest @ ..], _) = rest.split_first_chunk::<8>()? else { return None };
        let [high, low, id @ ..] = *rest;
        Some(TrainPacket {
            id: u32::from_be_bytes(id),
            train: *train,
            index: u16::from_be_bytes([high, low]),
        })
    }
}

impl TrainMeter {
    /// Counts a datagram of a train with this many bytes, headers included.
    pub fn take(&mut self, packet: TrainPacket, bytes: usize, at: Instant) {
        match &mut self.current {
            Some(current) if current.train == packet.train => {
                current.latest = at;
                current.packets += 1;
                current.bytes += bytes as u64;
            }
            _ => {
                self.best = self.rate();
                self.current =
                    Some(Current { train: packet.train, first: at, latest: at, packets: 1, bytes: 0 });
            }
        }
    }

    /// Throughput in bit/s of the best train; `None` if no train was complete enough.
    pub fn rate(&self) -> Option<f64> {
        let current = self.current.filter(|current| current.packets >= MIN_PACKETS).and_then(|current| {
            let seconds = current.latest.duration_since(current.first).as_secs_f64();
            (seconds > 0.0).then(|| current.bytes as f64 * 8.0 / seconds)
        });
        match (current, self.best) {
            (Some(current), Some(best)) => Some(current.max(best)),
            (current, best) => current.or(best),
        }
    }
}

const MAGIC: [u8; 4] = [0xC9, b't', b'r', b'n'];
const VERSION: u8 = 1;
/// Minimum number of datagrams for an estimate.
const MIN_PACKETS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn train_packets_survive() {
        let packet = TrainPacket { id: 0xdead_beef, train: 3, index: 517 };
        let bytes = packet.emit(1472);
        assert_eq!((bytes.len(), TrainPacket::parse(&bytes)), (1472, Some(packet)));
        assert_eq!(TrainPacket::parse(&packet.emit(0)), Some(packet));
        for len in 0..12 {
            assert_eq!(TrainPacket::parse(&bytes[..len]), None);
        }
    }

    #[test]
    fn rate_is_that_of_the_best_train() {
        let (mut meter, start) = (TrainMeter::default(), Instant::now());
        let mut send = |train: u8, gap: u64, count: u16| {
            for index in 0..count {
                let at = start + Duration::from_micros(u64::from(train) * 100_000 + gap * u64::from(index));
                meter.take(TrainPacket { id: 1, train, index }, 1500, at);
            }
            meter.rate()
        };
        assert_eq!(send(0, 12, 15), None, "too short");
        // 1500 bytes in 12 us are 1 Gbit/s.
        let rate = send(1, 12, 64).expect("a rate");
        assert!((0.99e9..1.01e9).contains(&rate), "{rate}");
        let rate = send(2, 120, 64).expect("a rate");
        assert!((0.99e9..1.01e9).contains(&rate), "the best train counts: {rate}");
    }
}
