//! Descriptions of the formats for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Family, Packet};

macro_rules! format {
    ($(#[$doc:meta])* $name:ident, $family:expr, $word:literal, $number:literal) => {
        $(#[$doc])*
        pub static $name: Format = Format {
            name: $family.name(),
            read: |bytes| read($family, bytes),
            summary: |bytes| summary($family, bytes),
            kinds: KINDS,
        };
    };
}

format!(
    /// Format of SNR.
    SNR, Family::Snr, "snr", "28"
);
format!(
    /// Format of DSP.
    DSP, Family::Dsp, "dsp", "29"
);
format!(
    /// Format of CSP.
    CSP, Family::Csp, "csp", "2a"
);
format!(
    /// Format of CP.
    CP, Family::Cp, "cp", "2b"
);

fn read(family: Family, bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(family, bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(family, association, &mut again);
    let rest = if matches!(packet, Packet::Data { .. }) { Remainder::Empty } else { Remainder::Padding };
    let line = std::format!("{} {packet}", family.name());
    Ok(ParsedPacket::new(&line, again, packet.wire_len(), rest))
}

/// Summarizes a packet for viewers.
fn summary(family: Family, bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data};
    let (_, packet) = Packet::parse(family, bytes).ok()?;
    Some(match packet {
        Packet::Data { block, .. } => PacketSummary::about("data", Data, block),
        Packet::Status(_) => PacketSummary::new("status", Acknowledgment),
        Packet::Order { .. } => PacketSummary::new("order", Control),
        Packet::State { .. } => PacketSummary::new("state", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("data", PacketKind::Data),
    ("order", PacketKind::Control),
    ("state", PacketKind::Control),
    ("status", PacketKind::Acknowledgment),
];
