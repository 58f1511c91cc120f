//! Tests of the rules of Barcellos and Ezhilchelvan, section 4.
//!
//! (a) A window with selective retransmission. (b) Every packet is acknowledged. (c) Losses are found by timeouts,
//! and repaired by global retransmissions.

use carillon_core::{AssociationId, Dest, GroupId, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::ff::{HEADER_LEN, Packet};

use super::ENTRY;

fn sender(receivers: u32, settings: &[(&str, &str)]) -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Sender, receivers, settings, HEADER_LEN, 1)
}

fn shown(bench: &mut MachineFixture) -> Vec<String> {
    let line = |(transmit, bytes): &(carillon_core::Transmit, Vec<u8>)| {
        assert_eq!(transmit.dest, Dest::group(GroupId(0)), "everything goes to all");
        Packet::parse(bytes).unwrap().1.to_string()
    };
    bench.datagrams().iter().map(line).collect()
}

fn ack(seq: u32, time: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet::Ack { seq, time }.emit(ASSOCIATION, &mut bytes);
    bytes
}

/// After a timeout only messages without all acknowledgments are multicast again.
#[test]
fn timed_out_message_is_multicast_again() {
    let mut bench = sender(2, &[("rtt", "10 ms")]);
    bench.offer("a").unwrap();
    bench.offer("b").unwrap();
    // A millisecond is 10 000 bit times.
    bench.at(10_000);
    assert_eq!(
        shown(&mut bench),
        ["ff data seq 0 first 0 time 0 len 1", "ff data seq 1 first 0 time 1000000 len 1"]
    );
    bench.at(30_000).receive(1, &ack(0, 0)).receive(2, &ack(1, 1_000_000)).receive(1, &ack(1, 1_000_000));
    bench.at(190_000);
    assert_eq!(shown(&mut bench), Vec::<String>::new());
    // The timeout is twice 10 ms for the receiver that misses the message; the other one has been acknowledged by
    // all.
    bench.at(210_000);
    assert_eq!(shown(&mut bench).len(), 1);
    bench.receive(2, &ack(0, 0));
    bench.finish();
    assert!(bench.is_finished());
    assert_eq!(bench.timer(), None);
}

#[test]
fn window_follows_oldest_message_and_packets_are_paced() {
    let mut bench = sender(1, &[("window", "2"), ("ipg", "2 ms")]);
    assert!(bench.offer("a").is_ok() && bench.offer("b").is_ok() && bench.offer("c").is_err());
    assert_eq!(shown(&mut bench).len(), 1);
    assert_eq!(bench.timer(), Some(20_000));
    bench.at(20_000).receive(1, &ack(1, 2_000_000));
    assert!(bench.offer("c").is_err(), "the first is outstanding");
    bench.receive(1, &ack(0, 0));
    assert!(bench.offer("c").is_ok() && bench.offer("d").is_ok());
}

#[test]
fn acknowledgment_of_unsent_message_is_ignored() {
    let mut bench = sender(2, &[]);
    bench.offer("a").unwrap();
    bench.receive(1, &ack(1, 0)).receive(1, &ack(u32::MAX, 0)).receive(1, &ack(0, 5)).receive(3, &ack(0, 0));
    assert_eq!(bench.drops().len(), 4);
    assert_eq!(bench.awaited([1, 2]), [1, 2]);
    bench.receive(1, &ack(0, 0)).receive(1, &ack(0, 0));
    assert_eq!(bench.awaited([1, 2]), [2]);
}

#[test]
fn receiver_acknowledges_every_packet_it_accepts() {
    let mut bench = MachineFixture::new(&ENTRY, Role::Receiver, 1, &[("window", "2")], HEADER_LEN, 1);
    let data = |seq: u32, time: u64| {
        let mut bytes = Vec::new();
        Packet::Data { seq, first: 0, time, payload: b"x" }.emit(AssociationId(1), &mut bytes);
        bytes
    };
    for (seq, time) in [(1, 7), (1, 9), (2, 10), (0, 11)] {
        bench.receive(0, &data(seq, time));
    }
    let lines: Vec<String> =
        bench.datagrams().iter().map(|(_, bytes)| Packet::parse(bytes).unwrap().1.to_string()).collect();
    assert_eq!(
        lines,
        ["ff ack seq 1 time 7", "ff ack seq 1 time 9", "ff ack seq 0 time 11"],
        "2 found no room"
    );
    assert_eq!(
        [bench.take(), bench.take(), bench.take()].map(|delivery| delivery.map(|d| d.message.0)),
        [Some(0), Some(1), None]
    );
}
