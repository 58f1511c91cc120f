//! Sources of FLUTE at a receiver: what opens, ends and opens again, and what forged sources cost.

use carillon_core::{
    Addresses, AssociationId, BitRate, Dest, GroupId, NumberedAddresses, PortId, Scope, Seeds,
};
use carillon_wire::alc::{
    Code, Encoding, Extensions, FdtHeader, Identifiers, Packet, PayloadId, Transmission,
};
use carillon_wire::fdt::{Fdt, File};

use super::*;
use crate::protocols::flute::ENTRY;

struct Fixture {
    machine: PlainReceiver,
    now: Time,
    dropped: Vec<DropReason>,
}

impl Fixture {
    fn new() -> Fixture {
        let context = BuildContext {
            association: AssociationId(0),
            node: NodeId(20),
            sender: NodeId(20),
            members: Vec::new().into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Addresses::new(NumberedAddresses),
            group: GroupId(0),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(100),
            link_overhead: 28,
            max_payload: 1400,
            memory: 1 << 20,
            rejoining: false,
        };
        let config = Config::defaults(ENTRY.parameters);
        let machine = PlainReceiver::new(&ENTRY, &context, &config, PlainLimits::default());
        Fixture { machine: machine.expect("valid settings"), now: Time::ZERO, dropped: Vec::new() }
    }

    fn receive(&mut self, from: u32, bytes: Vec<u8>) {
        let received = Received {
            source: NodeId(from),
            destination: &Dest::group(GroupId(0)),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes.into(),
        };
        self.machine.handle_datagram(self.now, received);
        while let Some(event) = self.machine.poll_event() {
            if let Event::Dropped { reason } = event {
                self.dropped.push(reason);
            }
        }
        // Nothing goes back.
        assert!(self.machine.poll_transmit(self.now, &mut Vec::new()).is_none());
    }

    fn wait(&mut self, wait: Duration) {
        self.now += wait;
        self.machine.handle_timeout(self.now);
    }

    fn news(&mut self) -> Vec<String> {
        while self.machine.poll_notice().is_some() {}
        let news = std::iter::from_fn(|| self.machine.poll_news()).map(|news| match news {
            PlainNews::Opened(source) => format!("opened {source}"),
            PlainNews::File { file, .. } => {
                format!("{} {}", file.name, String::from_utf8_lossy(&file.content))
            }
            PlainNews::Message { .. } => "a message".to_owned(),
            PlainNews::Closed { lost, ended, .. } => format!("closed, {lost} lost, ended {ended}"),
        });
        news.collect()
    }
}

/// Packet of an object of one symbol.
fn packet(tsi: u64, toi: u128, content: &[u8]) -> Vec<u8> {
    let code = Code::NoCode { block: 1 };
    let transmission = Transmission { length: content.len() as u64, symbol: 1400, code };
    let (mut extensions, mut payload, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    if toi == Packet::FDT {
        Extensions::push_fdt(&mut extensions, FdtHeader { version: 2, instance: 1 });
    }
    Extensions::push_transmission(&mut extensions, &transmission);
    Encoding::NoCode.push_id(&mut payload, PayloadId { block: 0, symbol: 0, length: None });
    payload.extend_from_slice(content);
    Packet {
        extensions: Extensions::new(&extensions).expect("just written"),
        payload: &payload,
        ..Packet::new(Identifiers::new(tsi, Some(toi)), 0)
    }
    .emit(&mut bytes);
    bytes
}

fn table(tsi: u64, complete: bool) -> Vec<u8> {
    let file = File { toi: 1, location: "name".to_owned(), ..File::default() };
    let fdt = Fdt { expires: u32::MAX, complete, files: vec![file], skipped: 0 };
    packet(tsi, Packet::FDT, fdt.emit(2).as_bytes())
}

fn close(tsi: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet { closes_session: true, ..Packet::new(Identifiers::new(tsi, None), 0) }.emit(&mut bytes);
    bytes
}

/// Some senders announce the end at the start, and keep their number for the next session.
#[test]
fn an_announced_end_ends_only_what_was_open() {
    let mut receiver = Fixture::new();
    receiver.receive(1, close(5));
    assert_eq!(receiver.news(), [""; 0]);
    for _ in 0..3 {
        receiver.receive(1, table(5, false));
        receiver.receive(1, packet(5, 1, b"content"));
        assert_eq!(receiver.news(), ["opened 10.0.0.2-0000000000000005", "name content"]);
        receiver.receive(1, close(5));
        assert_eq!(receiver.news(), ["closed, 0 lost, ended true"]);
        // Late packets of the same session open nothing.
        receiver.receive(1, packet(5, 1, b"content"));
        assert_eq!(receiver.news(), [""; 0]);
        receiver.wait(Duration::from_secs(2));
    }
    assert_eq!(
        receiver.dropped,
        [DropReason::NotAMember, DropReason::Redundant, DropReason::Redundant, DropReason::Redundant]
    );
}

#[test]
fn a_complete_table_ends_the_source() {
    let mut receiver = Fixture::new();
    receiver.receive(1, packet(5, 1, b"content"));
    receiver.receive(1, table(5, true));
    assert_eq!(
        receiver.news(),
        ["opened 10.0.0.2-0000000000000005", "name content", "closed, 0 lost, ended true"]
    );
}

#[test]
fn a_file_that_is_missing_at_the_end_is_lost() {
    let mut receiver = Fixture::new();
    receiver.receive(1, table(5, true));
    receiver.receive(1, close(5));
    receiver.wait(Duration::from_secs(2));
    assert_eq!(receiver.news(), ["opened 10.0.0.2-0000000000000005", "closed, 1 lost, ended true"]);
}

#[test]
fn forged_sources_are_bounded() {
    let mut receiver = Fixture::new();
    for from in 1..200 {
        for tsi in 0..50 {
            receiver.receive(from, packet(tsi, 1, &[7; 1400]));
        }
    }
    assert_eq!((receiver.machine.sources(), receiver.machine.held()), (16, Some(16)));
    assert!(receiver.dropped.contains(&DropReason::BufferFull));
    receiver.wait(Duration::from_secs(61));
    assert_eq!(receiver.machine.sources(), 0);
}
