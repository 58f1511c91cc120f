//! Packet formats under any bytes: parsing is total, and a parsed packet is emitted unchanged.

use carillon_core::{Format, ParsedPacket, Remainder};
use carillon_wire::envelope::Envelope;
use carillon_wire::fdt::Fdt;
use carillon_wire::file::{Packer, Record, link_stays_below, records};
use carillon_wire::{pgm, session};

/// Checks the common envelope, eight bytes with anything behind.
pub fn envelope(bytes: &[u8]) {
    let Ok((envelope, rest)) = Envelope::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    envelope.emit(&mut again);
    assert_eq!(again, bytes[..Envelope::LEN], "the envelope is emitted as it was");
    assert_eq!(rest, &bytes[Envelope::LEN..], "the rest is everything after the envelope");
    assert!(Envelope::parse_for(envelope.protocol, bytes).is_ok(), "its own protocol is expected");
    assert!(Envelope::parse_for(envelope.protocol ^ 1, bytes).is_err(), "another protocol is not");
}

/// Checks the format of a protocol: a parsed packet is emitted unchanged and parses to the same again.
///
/// # Panics
///
/// Panics if it does not.
pub fn format(format: &Format, bytes: &[u8]) {
    let Ok(reading) = (format.read)(bytes) else { return };
    let ParsedPacket { line, bytes: again, wire_len, remainder } = &reading;
    assert_eq!(again.len(), *wire_len, "a packet is as long as it says");
    assert!(!line.contains(char::is_control), "{line:?} is one line");
    match remainder {
        Remainder::Empty => assert_eq!(again, bytes, "what parses is emitted as it was"),
        Remainder::Padding => assert!(bytes.starts_with(again), "what parses is emitted as it was"),
        Remainder::UnknownFields => {}
    }
    assert_eq!((format.read)(again), Ok(reading), "what was emitted parses to the same");
}

/// Checks the file delivery table of FLUTE: a table is written in a way that is read as the same.
///
/// # Panics
///
/// Panics if it is not.
pub fn fdt(bytes: &[u8]) {
    // Half of the inputs are entries of a document.
    let entries = String::from_utf8_lossy(bytes);
    let document = format!("<FDT-Instance Expires=\"1\"><File TOI=\"1\" {entries}</FDT-Instance>");
    for document in [bytes, document.as_bytes()] {
        let Ok(mut table) = Fdt::parse(document).map_err(shown) else { continue };
        table.skipped = 0;
        for version in [1, 2] {
            let again = Fdt::parse(table.emit(version).as_bytes());
            assert_eq!(again.as_ref(), Ok(&table), "what was written is read as the same");
        }
    }
}

/// Bytes of hexadecimal digits.
///
/// # Panics
///
/// Panics if they are not hexadecimal digits, or an odd number of them.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter(|c| !c.is_whitespace()).map(digit).collect();
    assert!(digits.len().is_multiple_of(2), "a byte has two digits");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn digit(c: char) -> u8 {
    c.to_digit(16).unwrap_or_else(|| panic!("{c:?} is no hexadecimal digit")) as u8
}

/// Checks the functions of network elements on PGM packets. Few random bytes have the right checksum, so they are
/// also tried without one.
pub fn pgm_elements(bytes: &[u8]) {
    let mut unsummed = bytes.to_vec();
    if let Some(sum) = unsummed.get_mut(6..8) {
        sum.fill(0);
    }
    for bytes in [bytes, &unsummed] {
        format(&pgm::FORMAT, bytes);
        let _ = pgm::PacketType::peek(bytes);
        let _ = pgm::with_path(bytes, std::net::Ipv4Addr::LOCALHOST.into());
        let mut repair = Vec::new();
        assert_eq!(pgm::emit_repair(bytes, 1, &mut repair), pgm::Packet::parse(&repair).is_ok());
    }
}

/// Checks session packets: a datagram ends with its packet.
pub fn session(bytes: &[u8]) {
    let Ok(packet) = session::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(&mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    assert_eq!(again.len(), bytes.len(), "nothing follows a packet");
    if let session::Body::Invite(invite) = packet.body {
        let pairs = invite.settings.pairs();
        assert_eq!(session::Settings::encode(pairs), invite.settings.as_str(), "settings are their pairs");
    }
}

/// Checks messages of file delivery: a record, or a pack of records.
pub fn file(bytes: &[u8]) {
    let Ok(records) = records(bytes).collect::<Result<Vec<_>, _>>().map_err(shown) else { return };
    let mut packer = Packer::new(bytes.len());
    for record in &records {
        let mut again = Vec::new();
        record.emit(&mut again);
        check(&again, &again, record.wire_len(), &record.to_string());
        assert_eq!(Record::parse(&again), Ok(*record), "a record parses to itself");
        packer.push(record);
        let (Record::File { path, .. } | Record::Directory { path, .. } | Record::Link { path, .. }) = record
        else {
            continue;
        };
        fn parts(path: &[u8]) -> Vec<std::path::Component<'_>> {
            use std::os::unix::ffi::OsStrExt as _;
            std::path::Path::new(std::ffi::OsStr::from_bytes(path)).components().collect()
        }
        let below = |part: &_| matches!(part, std::path::Component::Normal(_));
        assert!(parts(path).iter().all(below), "{path:?} does not stay below its directory");
        if let Record::Link { target, .. } = record
            && link_stays_below(path, target)
        {
            let up = parts(target).iter().filter(|&&part| part == std::path::Component::ParentDir).count();
            assert!(up < parts(path).len(), "{target:?} leads out from {path:?}");
        }
    }
    assert_eq!(&packer.take()[..], bytes, "what parses is emitted as it was");
}

/// Checks that the packet `again` is the canonical beginning of `bytes`, has the reported length, and is shown in one
/// line.
fn check(bytes: &[u8], again: &[u8], wire_len: usize, line: &str) {
    assert_eq!(again.len(), wire_len, "a packet is as long as it says");
    assert!(bytes.starts_with(again), "what parses is emitted as it was");
    assert!(!line.contains(char::is_control), "{line:?} is one line");
}

/// Checks that an error can be shown; returns the length of its text.
fn shown(error: impl std::fmt::Display) -> usize {
    error.to_string().len()
}
