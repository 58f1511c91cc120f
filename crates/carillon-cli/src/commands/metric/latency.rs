//! Latency of messages: each message carries the time at which it was due.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use carillon_transfer::Error;
use carillon_transfer::socket::Outbound;

/// Time at which a message was due, by the sender's clock.
pub struct Stamp(Duration);

impl Stamp {
    /// Stamp of a message, if it has one.
    pub fn of(message: &[u8]) -> Option<Stamp> {
        let (magic, rest) = message.split_first_chunk()?;
        let (nanos, _) = rest.split_first_chunk()?;
        (*magic == MAGIC).then(|| Stamp(Duration::from_nanos(u64::from_be_bytes(*nanos))))
    }

    /// Time since the stamp by this machine's clock; zero if the stamp lies in the future.
    pub fn age(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

/// Latencies, sorted when they are read.
#[derive(Debug, Default)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    /// Adds a latency. Beyond [`MAX_SAMPLES`] values they are discarded.
    pub fn add(&mut self, time: Duration) {
        if self.0.len() < MAX_SAMPLES {
            self.0.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Quantile: the smallest latency that at least this share does not exceed.
    pub fn at(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(at.max(1) - 1).copied().map(Duration::from_nanos)
    }
}

/// Sends messages of `len` bytes at `rate` per second for `time`; returns their number. Each carries the time at
/// which it was due, so that waiting for the sender's window counts as latency.
pub fn send(outbound: &mut Outbound, len: usize, rate: f64, time: Duration) -> Result<u64, Error> {
    let (began, at) = (Instant::now(), now());
    let mut message = vec![0; len.max(STAMP_LEN)];
    let mut sent = 0u64;
    loop {
        let due = Duration::from_secs_f64(sent as f64 / rate);
        if due >= time {
            return Ok(sent);
        }
        thread::sleep(due.saturating_sub(began.elapsed()));
        message[..8].copy_from_slice(&MAGIC);
        let nanos = u64::try_from((at + due).as_nanos()).unwrap_or(u64::MAX);
        message[8..STAMP_LEN].copy_from_slice(&nanos.to_be_bytes());
        outbound.send(&message)?;
        sent += 1;
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Mark at the beginning of a message with a stamp.
const MAGIC: [u8; 8] = *b"carillon";
/// Length of mark and stamp in bytes.
pub const STAMP_LEN: usize = 16;
/// Maximum number of samples: 80 MB.
const MAX_SAMPLES: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_times_is_no_longer() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.at(0.5), None);
        (1..=1000).rev().for_each(|nanos| latencies.add(Duration::from_nanos(nanos)));
        let at = |share| latencies.at(share).map(|time| time.as_nanos());
        assert_eq!((at(0.5), at(0.99), at(0.999), at(1.0)), (Some(500), Some(990), Some(999), Some(1000)));
    }

    #[test]
    fn any_bytes_have_a_stamp_or_none() {
        assert!(
            Stamp::of(b"").is_none() && Stamp::of(b"carillon").is_none() && Stamp::of(&[7; 40]).is_none()
        );
        assert!(
            Stamp::of(b"carillon\xff\xff\xff\xff\xff\xff\xff\xff").is_some_and(|stamp| stamp.age().is_zero())
        );
    }
}
