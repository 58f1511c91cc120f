//! Packets as one line of text.

use std::fmt;

use super::{Body, Packet, Status, Terms};

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { header, body } = self;
        write!(f, "mtp {}", body.name())?;
        if let Some(view) = header.view {
            write!(f, " view {view}")?;
        }
        if let Body::Reformation(packet) = body {
            // The name of the packet stands before the view already.
            return write!(f, " {packet}");
        }
        let record = &header.acceptance;
        write!(f, " {}.{} status ", record.message, record.packet)?;
        for status in &record.status {
            f.write_str(match status {
                Status::Accepted => "a",
                Status::Pending => "p",
                Status::Rejected => "r",
            })?;
        }
        write!(f, "{body}")?;
        if header.subchannel > 0 {
            write!(f, " stream {}", header.subchannel)?;
        }
        Ok(())
    }
}

/// Display of the fields after the header's.
impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Data(_, bytes) => write!(f, " len {}", bytes.len()),
            Body::Nak(ranges) | Body::Deny(ranges) => ranges.iter().try_for_each(|range| {
                write!(f, " {}.{}-{}.{}", range.low.0, range.low.1, range.high.0, range.high.1)
            }),
            Body::Empty(_) | Body::TokenRequest | Body::Reformation(_) => Ok(()),
            Body::Join(_, Terms { class, throughput, data_unit, .. }) => {
                write!(f, " class {class} throughput {throughput} unit {data_unit}")
            }
            Body::Quit(_, target) | Body::IsMember(target) | Body::NotMember(target) => {
                write!(f, " of {target:08x}")
            }
            Body::Member(target, age) => write!(f, " of {target:08x} age {age}"),
            Body::TokenConfirm(web) => web.iter().try_for_each(|one| write!(f, " web {one:08x}")),
            Body::Held(place) => write!(f, " held {place}"),
            Body::Fetch(place) => write!(f, " place {place}"),
            Body::Fetched { place, source, number, payload } => {
                write!(f, " place {place} source {source} message {number} len {}", payload.len())
            }
            Body::Gone(place, state) => write!(f, " place {place} state {}", state.len()),
        }
    }
}
