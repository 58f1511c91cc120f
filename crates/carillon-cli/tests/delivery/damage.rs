//! Forged messages in a session without a key: the digests reveal them, and only a little is sent again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use carillon_wire::carillon::Packet;
use carillon_wire::file::Record;

use crate::delivery::forging::{CapturedDatagram, RawSocket};
use crate::delivery::support::files;
use crate::netns::Net;

/// Sends messages of its own in a session that it overhears, with sequence numbers that the sender has not used yet.
struct Forger {
    hears: RawSocket,
    sends: RawSocket,
    /// Sequence numbers of the forged messages.
    numbers: BTreeSet<u32>,
}

impl Forger {
    /// Receives the packets that are waiting, and forges messages until `most` have been forged.
    fn forge(&mut self, most: usize) {
        for seen in std::iter::from_fn(|| self.hears.next()).take(1000).flatten() {
            let Ok((association, Packet::Data { sequence, index: place, payload, .. })) =
                Packet::parse(&seen.bytes)
            else {
                continue;
            };
            let number = sequence + FORGED_DISTANCE;
            let is_far = self.numbers.last().is_none_or(|last| number > last + FORGED_SPACING);
            if self.numbers.len() >= most || !is_far {
                continue;
            }
            // Alternates bytes that are no record with a valid record of wrong content.
            let mut forged = vec![0xFF; 700];
            if let (true, Ok(Record::Data { index, offset, bytes })) =
                (self.numbers.len() % 2 == 1, Record::parse(payload))
            {
                let len = bytes.len().min(1400);
                forged.clear();
                let offset = offset + u64::from(FORGED_DISTANCE) * len as u64;
                Record::Data { index, offset, bytes: &vec![7; len] }.emit(&mut forged);
            }
            let mut bytes = Vec::new();
            let index = place + FORGED_DISTANCE as u16;
            Packet::Data { sequence: number, index, length: 0, count: 0, payload: &forged }
                .emit(association, &mut bytes);
            self.sends.send(&CapturedDatagram { bytes, ..seen });
            self.numbers.insert(number);
        }
    }
}

/// A receiver without a key cannot distinguish them from the sender's messages on arrival. Each costs the data since
/// the last compared part. A receiver with a wrong part continues from there in a catch-up session.
#[test]
fn forged_messages_are_detected_and_sent_again() {
    let Some(net) = Net::new(2) else { return };
    let expected = blake3::hash(&std::fs::read(net.file("f", 12_000_000)).expect("the file"));
    let x = net.extra();
    for turn in 0..MAX_ATTEMPTS {
        let out = |number: usize| format!("r{number}.{turn}");
        let receive = |number| {
            let line = format!("recv --out {}", out(number));
            net.receiver(number).carillon(&line).start()
        };
        let receivers = [receive(1), receive(2)];
        let hears = net.receiver(1).inside(RawSocket::open_receiver);
        let sends = x.inside(|| RawSocket::open_sender(x.address()));
        let mut forger = Forger { hears, sends, numbers: BTreeSet::new() };
        let mut sender = net.sender().carillon("send f --receivers 2 --rate 80Mbit/s --json").start();
        let until = Instant::now() + Duration::from_secs(60);
        while !sender.is_over() && Instant::now() < until {
            forger.forge(2);
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = sender.end().expect(0);
        let again: usize = receivers
            .map(|receiver| receiver.end().expect(0).err.matches("waiting for a catch-up session").count())
            .iter()
            .sum();
        for number in [1, 2] {
            let there: Vec<_> = files(&net.path(&out(number))).into_iter().collect();
            assert_eq!(there, [("f".to_owned(), expected)]);
        }
        if again == 0 {
            continue;
        }
        let report = &sent.events("report")[0];
        assert!(report["sessions"].as_u64() > Some(1), "{report}");
        assert!(report["bytes_sent"].as_u64().is_some_and(|bytes| bytes < 12_000_000 * 2), "{report}");
        return;
    }
    panic!("nothing forged was ever taken");
}

/// Number of messages between the overheard one and the forged one.
const FORGED_DISTANCE: u32 = 200;
/// Minimum number of messages between two forged ones, so that most lie in different parts.
const FORGED_SPACING: u32 = 4000;
/// Maximum number of attempts, since chance decides whether a forged message is accepted.
const MAX_ATTEMPTS: usize = 5;
