//! Files at the receiver: losses, order, versions, the end of the session, and hostile sources.

use bytes::Bytes;
use carillon_core::{Dest, Event, GroupId, Machine, Notice, PortId, Receiver as _, Scope, Seeds};
use carillon_wire::alc::{Code, Extensions, FdtHeader, Identifiers, PayloadId};

use super::super::sender::tests::{config, context, session};
use super::*;

struct Fixture {
    machine: Player<FluteReceiver>,
    now: Time,
    dropped: Vec<DropReason>,
    lost: u64,
}

impl Fixture {
    fn new() -> Fixture {
        let machine = FluteReceiver::new(7, true, &context(2), &config(&[])).expect("valid settings");
        Fixture { machine, now: Time::ZERO, dropped: Vec::new(), lost: 0 }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.machine.handle_datagram(
            self.now,
            Received {
                source: carillon_core::NodeId(1),
                destination: &Dest::group(GroupId(0)),
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &bytes,
            },
        );
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            if let Event::Dropped { reason } = event {
                self.dropped.push(reason);
            }
        }
        while let Some(notice) = self.machine.poll_notice() {
            self.lost += u64::from(matches!(notice, Notice::LossFinal { .. }));
        }
    }

    fn wait(&mut self, wait: Duration) {
        self.now += wait;
        self.machine.handle_timeout(self.now);
        self.drain();
    }

    fn files(&mut self) -> Vec<(String, Bytes)> {
        let delivered = std::iter::from_fn(|| self.machine.poll_delivery());
        let named = delivered.map(|delivery| NamedFile::parse(delivery.payload).expect("a file"));
        named.map(|NamedFile { name, content }| (name, content)).collect()
    }
}

fn made(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Seeds::new(length as u64).stream("file").fill(&mut bytes);
    bytes
}

#[test]
fn files_arrive_with_all_codes_versions_and_losses() {
    let mut rng = Seeds::new(3).stream("flute.loss");
    let lengths = [0, 1, 99, 100, 101, 1000, 5000, 20_000];
    let files: Vec<Vec<u8>> = lengths.into_iter().map(made).collect();
    let contents: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
    for fec in ["no-code", "reed-solomon", "raptor", "raptorq"] {
        for (version, encoding, loss) in
            [("2", "none", 0), ("1", "gzip", 0), ("2", "none", 5), ("1", "gzip", 10)]
        {
            let settings = [
                ("fec", fec),
                ("version", version),
                ("content_encoding", encoding),
                ("carousel", if loss == 0 { "1" } else { "6" }),
                ("block", "10"),
                ("parity", "4"),
            ];
            let mut receiver = Fixture::new();
            for packet in session(&settings, &contents) {
                if rng.below(100) >= loss {
                    receiver.receive(&packet);
                }
            }
            let mut received = receiver.files();
            received.sort();
            let expected: Vec<(String, Bytes)> = (0..)
                .zip(&files)
                .map(|(number, file): (usize, _)| (format!("file:///f{number}"), file.clone().into()))
                .collect();
            assert!(received == expected, "{settings:?}: {} of {}", received.len(), expected.len());
            assert!(receiver.machine.is_complete());
            assert_eq!((receiver.lost, receiver.machine.held()), (0, Some(0)));
            assert!(
                !receiver.dropped.contains(&DropReason::Malformed),
                "{settings:?} {:?}",
                receiver.dropped
            );
        }
    }
}

#[test]
fn packets_in_any_order_give_the_file() {
    let file = made(3000);
    let mut packets = session(&[("carousel", "1")], &[&file]);
    let ends = packets.split_off(packets.len() - 3);
    packets.reverse();
    let mut receiver = Fixture::new();
    packets.iter().for_each(|packet| receiver.receive(packet));
    assert_eq!(receiver.files(), [("file:///f0".to_owned(), file.into())]);
    ends.iter().for_each(|packet| receiver.receive(packet));
    assert!(receiver.machine.is_complete());
}

/// The end of the session makes a file without its last symbol a loss, after a while for late packets.
#[test]
fn a_file_is_lost_when_the_session_ends_without_it() {
    let file = made(3000);
    let packets = session(&[("carousel", "1"), ("fec", "no-code")], &[&file]);
    let is_last = |packet: &&Vec<u8>| Packet::parse(packet).is_ok_and(|packet| packet.closes_object);
    let last = packets.iter().find(is_last).expect("there is one").clone();
    for late in [false, true] {
        let mut receiver = Fixture::new();
        packets.iter().filter(|packet| **packet != last).for_each(|packet| receiver.receive(packet));
        receiver.wait(Duration::from_millis(900));
        assert!(!receiver.machine.is_complete());
        if late {
            receiver.receive(&last);
        }
        receiver.wait(Duration::from_millis(200));
        assert!(receiver.machine.is_complete());
        assert_eq!((receiver.lost, receiver.files().len()), if late { (0, 1) } else { (1, 0) });
    }
}

#[test]
fn an_expired_table_is_ignored() {
    let (file, settings) =
        (made(50), [("carousel", "1"), ("clock", "1000"), ("fdt_expiry", "10 s"), ("version", "1")]);
    let packets = session(&settings, &[&file]);
    for (clock, files) in [("1005", 1), ("1011", 0), ("0", 1)] {
        let machine = FluteReceiver::new(7, true, &context(2), &config(&[("clock", clock)]));
        let mut receiver = Fixture { machine: machine.expect("valid settings"), ..Fixture::new() };
        packets.iter().for_each(|packet| receiver.receive(packet));
        assert_eq!(receiver.files().len(), files, "at {clock}");
    }
}

/// Packet of an object with this transmission and this symbol.
fn symbol(toi: u128, transmission: Transmission, id: PayloadId, bytes: &[u8]) -> Vec<u8> {
    let (mut extensions, mut payload, mut packet) = (Vec::new(), Vec::new(), Vec::new());
    if toi == Packet::FDT {
        Extensions::push_fdt(&mut extensions, FdtHeader { version: 2, instance: 1 });
    }
    Extensions::push_transmission(&mut extensions, &transmission);
    transmission.code.encoding().push_id(&mut payload, id);
    payload.extend_from_slice(bytes);
    Packet {
        extensions: Extensions::new(&extensions).expect("just written"),
        payload: &payload,
        ..Packet::new(Identifiers::new(7, Some(toi)), transmission.code.encoding().id())
    }
    .emit(&mut packet);
    packet
}

#[test]
fn hostile_objects_are_bounded_and_refused() {
    let mut receiver = Fixture::new();
    let place = |block, symbol| PayloadId { block, symbol, length: Some(1) };
    let codes = [
        Code::NoCode { block: 0 },
        Code::NoCode { block: u32::MAX },
        Code::ReedSolomon8 { block: 0, total: 0 },
        Code::ReedSolomon8 { block: 255, total: 1 },
        Code::ReedSolomon { bits: 16, group: 1, block: 9, total: 20 },
        Code::SmallBlock { instance: 0, block: 65_535, total: 65_535 },
        Code::Raptor { blocks: 0, sub_blocks: 1, alignment: 1 },
        Code::Raptor { blocks: 1, sub_blocks: 1, alignment: 0 },
        Code::Raptor { blocks: 3, sub_blocks: 1, alignment: 1 },
        Code::RaptorQ { blocks: 1, sub_blocks: 1, alignment: 1 },
        Code::RaptorQ { blocks: 1, sub_blocks: 9, alignment: 1 },
    ];
    let mut toi = 0;
    for length in [0, 1, 30, 100_000, 1 << 39] {
        for size in [0, 1, 7, 65_535] {
            for code in codes {
                let transmission = Transmission { length, symbol: size, code };
                for id in [place(0, 0), place(9, 9), place(0, 70_000), place(1 << 20, 0)] {
                    toi += 1;
                    receiver.receive(&symbol(toi, transmission, id, &[1; 7]));
                    receiver.receive(&symbol(Packet::FDT, transmission, id, &[1; 7]));
                }
            }
        }
    }
    assert!(receiver.files().is_empty());
    assert!(receiver.dropped.contains(&DropReason::BufferFull));
}

#[test]
fn memory_is_bounded_and_given_to_new_objects() {
    let mut receiver = Fixture::new();
    let transmission = Transmission { length: 200_000, symbol: 1000, code: Code::NoCode { block: 64 } };
    let send = |receiver: &mut Fixture, toi: u128| {
        for number in 0..30 {
            let id = PayloadId { block: 0, symbol: number, length: None };
            receiver.receive(&symbol(toi, transmission, id, &[toi as u8; 1000]));
        }
    };
    (1..100).for_each(|toi| send(&mut receiver, toi));
    assert!(receiver.dropped.contains(&DropReason::BufferFull));
    // 30 symbols of each object, within half of the memory.
    assert!(
        receiver.machine.held().is_some_and(|held| (10..=17).contains(&held)),
        "{:?}",
        receiver.machine.held()
    );
    receiver.dropped.clear();
    receiver.wait(Duration::from_secs(6));
    send(&mut receiver, 200);
    assert!(receiver.dropped.is_empty(), "{:?}", receiver.dropped);
    // Objects that are opened without end have a bound of their own.
    for toi in 1000..5000 {
        receiver.receive(&symbol(
            toi,
            transmission,
            PayloadId { block: 0, symbol: 0, length: None },
            &[1; 1],
        ));
    }
    assert!(receiver.machine.held() <= Some(MAX_OBJECTS as u64));
}
