//! Golden bytes of session, file records, doctor and daemon, which belong to the wire version. `carillon-proto` has
//! the same test for the protocols.

use std::collections::BTreeMap;
use std::path::Path;

use carillon_core::AssociationId;
use carillon_testkit::assert_wire_vectors;
use carillon_wire::daemon::{self, FieldList, Frame, Role};
use carillon_wire::doctor::{Hello, HelloPath, ObservedMachine};
use carillon_wire::session::{Opening, Release, WIRE_VERSION};

use crate::{file, session};

fn hold(part: &str, packets: &BTreeMap<String, Vec<u8>>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    assert_wire_vectors(&directory, part, WIRE_VERSION, packets);
}

/// The release of an opening is no part of the wire version.
#[test]
fn session_packets_are_those_of_the_wire_version() {
    let mut packets = BTreeMap::new();
    session::each_golden(&mut |body, _, line| {
        let mut bytes = session::emitted(body);
        if Opening::peek(&bytes).is_some() {
            bytes[10..13].fill(0);
        }
        packets.insert(line.to_owned(), bytes);
    });
    hold("session", &packets);
}

#[test]
fn file_records_are_those_of_the_wire_version() {
    let mut packets = BTreeMap::new();
    file::each_golden(&mut |record, _, line| {
        let mut bytes = Vec::new();
        record.emit(&mut bytes);
        packets.insert(line.to_owned(), bytes);
    });
    hold("file", &packets);
}

#[test]
fn doctor_and_daemon_packets_are_those_of_the_wire_version() {
    let mut packets = BTreeMap::new();
    for way in HelloPath::VARIANTS {
        let hello = Hello {
            way,
            ttl: 1,
            hops: 2,
            number: 3,
            datagram: 1472,
            buffer: 65_536,
            group: "239.255.67.65:7654".parse().expect("a group"),
            name: "ab",
            heard: vec![ObservedMachine { id: 7, least_ttl: 1, ways: 0b10_0001, came: 9, sent: 10 }],
            origin: Some((WIRE_VERSION, Release { major: 0, minor: 0, patch: 0 })),
        };
        let mut bytes = Vec::new();
        hello.emit(AssociationId(5), 0, &mut bytes);
        packets.insert(format!("doctor {hello}"), bytes);
    }
    let list = FieldList::new().with("group", "239.1.2.3:4567");
    let frames = [
        Frame::Open { role: Role::Listen, fields: list.fields() },
        Frame::Messages(&[7, 8]),
        Frame::Accept,
        Frame::Done(258),
        Frame::From("bob"),
    ];
    for frame in frames {
        let mut bytes = daemon::emitted(&frame).to_vec();
        if let Frame::Open { .. } = frame {
            // Length, type, version and wire version stand before the release.
            bytes[8..11].fill(0);
        }
        packets.insert(format!("daemon {frame}"), bytes);
    }
    hold("machine", &packets);
}
