//! Fixed opening of a conversation, which every release can read.
//!
//! It stands right behind the envelope in each packet that can be the first one of a conversation: INVITE, JOIN and
//! DECLINE. Its layout and that of the envelope never change again; everything behind it belongs to the wire version.
//! A release that receives another wire version reports it, with release and name, and does not interpret the rest.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+---------------+---------------+
//! |         wire version          | release major | release minor |
//! +---------------+---------------+---------------+---------------+
//! | release patch |   name len    |  name of the node that speaks ...
//! +---------------+---------------+-------------------------------+
//! ```

use std::fmt;

use carillon_core::AssociationId;

use super::fields::put_name;
use super::{Name, packet_type};
use crate::ParseError;
use crate::envelope::{Envelope, MAGIC, SESSION_VERSION, protocol};
use crate::reader::Reader;

/// Version of all formats between releases: session, file records, every protocol, doctor and daemon.
///
/// It rises with each change that the previous version cannot read. `tests/wire_version.rs` compares the golden bytes
/// of every format with it. Earlier releases had session versions 1 and 2.
pub const WIRE_VERSION: u16 = 3;

/// Version of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Patch version.
    pub patch: u8,
}

impl Release {
    /// Version of this release.
    pub const CURRENT: Release = Release {
        major: decimal(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: decimal(env!("CARGO_PKG_VERSION_MINOR")),
        patch: decimal(env!("CARGO_PKG_VERSION_PATCH")),
    };
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Release and wire version of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherRelease {
    /// Release from before wire versions, with the version of its session.
    Earlier(u8),
    /// Release with another wire version.
    Version {
        /// Version of the release.
        release: Release,
        /// Wire version.
        wire: u16,
    },
}

impl fmt::Display for OtherRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherRelease::Earlier(_) => f.write_str("an earlier release (from before wire version 3)"),
            OtherRelease::Version { release, wire } => {
                write!(f, "release {release} with wire version {wire}")
            }
        }
    }
}

/// Fixed opening of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening<'a> {
    /// Wire version of the sending node.
    pub wire: u16,
    /// Release of the sending node.
    pub release: Release,
    /// Name of the sending node.
    pub name: Name<'a>,
}

impl<'a> Opening<'a> {
    /// Bytes of the opening without the name.
    pub const FIXED_LEN: usize = 6;

    /// Opening of this release under a name.
    pub fn of(name: Name<'a>) -> Self {
        Opening { wire: WIRE_VERSION, release: Release::CURRENT, name }
    }

    /// Reads the opening of a packet of any wire version, and its session; `None` if the packet has none.
    pub fn peek(bytes: &'a [u8]) -> Option<(AssociationId, Opening<'a>)> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::SESSION, bytes).ok()?;
        // Only these packets begin with an opening, in every wire version.
        let opens =
            matches!(envelope.packet_type, packet_type::INVITE | packet_type::JOIN | packet_type::DECLINE);
        opens
            .then(|| Opening::read(&mut reader).ok())
            .flatten()
            .map(|opening| (envelope.association, opening))
    }

    /// Returns the release that sent these bytes if it is another one: they open a conversation in another wire
    /// version or belong to a session from before wire versions.
    pub fn other_release(bytes: &'a [u8]) -> Option<OtherRelease> {
        // Releases from before wire versions show themselves in the envelope.
        if let &[MAGIC, version, protocol::SESSION, ..] = bytes
            && version < SESSION_VERSION
        {
            return Some(OtherRelease::Earlier(version));
        }
        let (_, Opening { wire, release, .. }) = Opening::peek(bytes)?;
        (wire != WIRE_VERSION).then_some(OtherRelease::Version { release, wire })
    }

    /// Returns true for a packet with an opening from a receiver to its sender: JOIN or DECLINE.
    pub fn is_from_receiver(bytes: &[u8]) -> bool {
        matches!(bytes.get(3), Some(&(packet_type::JOIN | packet_type::DECLINE)))
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let wire = reader.u16()?;
        let [major, minor, patch] = reader.array()?;
        Ok(Opening { wire, release: Release { major, minor, patch }, name: reader.name()? })
    }

    /// Parses the opening of a packet of this wire version.
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let opening = Opening::read(reader)?;
        if opening.wire == WIRE_VERSION { Ok(opening) } else { Err(ParseError::WireVersion(opening.wire)) }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.wire.to_be_bytes());
        buf.extend_from_slice(&[self.release.major, self.release.minor, self.release.patch]);
        put_name(buf, &self.name);
    }

    pub(super) fn wire_len(name: &Name<'_>) -> usize {
        Self::FIXED_LEN + name.len()
    }

    /// Length of a datagram with an envelope, an opening and a name of this length, in bytes.
    pub const fn datagram_len(name: usize) -> usize {
        Envelope::LEN + Self::FIXED_LEN + name
    }
}

/// Parses a decimal number below 256 at compile time.
const fn decimal(text: &str) -> u8 {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0');
        at += 1;
    }
    value
}
