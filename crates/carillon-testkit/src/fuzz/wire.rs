//! Packet formats under any bytes: parsing is total, and what parses is emitted again as it was.

use carillon_wire::envelope::Envelope;
use carillon_wire::file::{Packer, Record, link_stays_below, records};
use carillon_wire::{
    chang_maxemchuk, erramilli_singh, lms, mbap, msaw, pgm, reformation, rra, sequencer, session, srm,
};

/// The common envelope: eight bytes, whatever follows.
pub fn envelope(bytes: &[u8]) {
    let Ok((envelope, rest)) = Envelope::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    envelope.emit(&mut again);
    assert_eq!(again, bytes[..Envelope::LEN], "the envelope is emitted as it was");
    assert_eq!(rest, &bytes[Envelope::LEN..], "the rest is everything after the envelope");
    assert!(Envelope::parse_for(envelope.protocol, bytes).is_ok(), "its own protocol is expected");
    assert!(Envelope::parse_for(envelope.protocol ^ 1, bytes).is_err(), "another protocol is not");
}

/// Stop-and-wait: an acknowledgment may be followed by padding, which is not part of it.
pub fn msaw(bytes: &[u8]) {
    let Ok((association, packet)) = msaw::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = !matches!(packet, msaw::Packet::Data { .. } | msaw::Packet::Numbered { .. });
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(msaw::Packet::parse(&again), Ok((association, packet)));
}

/// Block acknowledgment: padding as in stop-and-wait.
pub fn mbap(bytes: &[u8]) {
    let Ok((association, packet)) = mbap::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = matches!(packet, mbap::Packet::Ack { .. } | mbap::Packet::Nak { .. });
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(mbap::Packet::parse(&again), Ok((association, packet)));
}

/// Round-robin acknowledgment.
pub fn rra(bytes: &[u8]) {
    let Ok((association, packet)) = rra::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = !matches!(packet, rra::Packet::Data { .. });
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(rra::Packet::parse(&again), Ok((association, packet)));
}

/// Erramilli and Singh: what carries no message may be followed by padding.
pub fn erramilli_singh(bytes: &[u8]) {
    let Ok((association, packet)) = erramilli_singh::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = !matches!(packet, erramilli_singh::Packet::Data { .. });
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(erramilli_singh::Packet::parse(&again), Ok((association, packet)));
}

/// SRM: what carries no message may be followed by padding.
pub fn srm(bytes: &[u8]) {
    let Ok((association, packet)) = srm::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = matches!(packet, srm::Packet::Session(_) | srm::Packet::Request(_));
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(srm::Packet::parse(&again), Ok((association, packet)));
}

/// The sequencer protocol: what carries no message may be followed by padding.
pub fn sequencer(bytes: &[u8]) {
    let Ok((association, packet)) = sequencer::Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    assert_eq!(sequencer::Packet::parse(&again), Ok((association, packet)));
}

/// Chang and Maxemchuk: what carries no message and no state may be followed by padding.
pub fn chang_maxemchuk(bytes: &[u8]) {
    use chang_maxemchuk::{Body, Datagram};
    let Ok((association, packet)) = Datagram::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = match packet {
        Datagram::Normal(packet) => !matches!(packet.body, Body::Msg { .. } | Body::Repair { .. }),
        Datagram::Reformation(packet) => !matches!(packet, reformation::Packet::Start { .. }),
    };
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(Datagram::parse(&again), Ok((association, packet)));
}

/// LMS: what carries no message may be followed by padding.
pub fn lms(bytes: &[u8]) {
    use lms::Packet;
    let Ok((association, packet)) = Packet::parse(bytes).map_err(shown) else { return };
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    check(bytes, &again, packet.wire_len(), &packet.to_string());
    let padded = !matches!(packet, Packet::Data(_) | Packet::Repair(_) | Packet::Dmcast { .. });
    assert!(padded || again.len() == bytes.len(), "a message runs to the end of its datagram");
    assert_eq!(Packet::parse(&again), Ok((association, packet)));
    assert_eq!(lms::packet_type_of(bytes), Some(bytes[3]));
}

/// PGM: options that are not known are left out when it is emitted again, and a checksum is put in. Few
/// bytes have the right one, so they are looked at without one too.
pub fn pgm(bytes: &[u8]) {
    let mut unsummed = bytes.to_vec();
    if let Some(sum) = unsummed.get_mut(6..8) {
        sum.fill(0);
    }
    for bytes in [bytes, &unsummed] {
        let _ = pgm::PacketType::peek(bytes);
        let _ = pgm::with_path(bytes, std::net::Ipv4Addr::LOCALHOST.into());
        let mut repair = Vec::new();
        assert_eq!(pgm::emit_repair(bytes, 1, &mut repair), pgm::Packet::parse(&repair).is_ok());
        let Ok(packet) = pgm::Packet::parse(bytes).map_err(shown) else { continue };
        let mut again = Vec::new();
        packet.emit(&mut again);
        assert_eq!(again.len(), packet.wire_len(), "a packet is as long as it says");
        assert_eq!(pgm::Packet::parse(&again), Ok(packet));
        let line = packet.to_string();
        assert!(!line.contains(char::is_control), "{line:?} is one line");
    }
}

/// The session: a datagram ends with its packet.
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

/// File delivery: a message is a record, or a pack of records.
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
        fn parts(path: &str) -> Vec<std::path::Component<'_>> {
            std::path::Path::new(path).components().collect()
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

/// The packet `again` is the canonical beginning of `bytes`, as long as it says, and shown in one
/// line.
fn check(bytes: &[u8], again: &[u8], wire_len: usize, line: &str) {
    assert_eq!(again.len(), wire_len, "a packet is as long as it says");
    assert!(bytes.starts_with(again), "what parses is emitted as it was");
    assert!(!line.contains(char::is_control), "{line:?} is one line");
}

/// Errors can be shown too.
fn shown(error: carillon_wire::ParseError) -> usize {
    error.to_string().len()
}
