//! Frames between a receiver that needs copies and the driver of a sender.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::seal::Key;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A receiver asks for copies or declines them, from its socket for copies.
    Ask = 0,
    /// The sender answers an ask.
    Answer = 1,
    /// A receiver names the address of its session, by sending this from there.
    Member = 2,
    /// A relay multicasts its token and the IPv4 address of the sender, so that receivers can say that they are behind
    /// it.
    Beacon = 3,
    /// A receiver says by the relay's token that it is behind the relay, from the address of its session.
    Behind = 4,
    /// A beacon with the IPv6 address of the sender.
    BeaconV6 = 5,
    /// The sender tells a receiver with a key an address: where it sees the receiver's session, or its own.
    Located = 6,
}

impl FrameKind {
    const VARIANTS: [FrameKind; 7] = [
        FrameKind::Ask,
        FrameKind::Answer,
        FrameKind::Member,
        FrameKind::Beacon,
        FrameKind::Behind,
        FrameKind::BeaconV6,
        FrameKind::Located,
    ];
}

/// A frame, 40 bytes, and 32 bytes of authentication with a key.
///
/// ```text
/// | C9 'c' 'p' 'y' | version 1 | kind | flags | 0 | token u64 | cookie u64 | multicasts u64 | copies u64 | tag [32] |
/// ```
///
/// An answer is as long as the ask, so that asks with a forged source do not amplify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// Ask: the receiver wants copies. Answer: the sender sends copies. Located: the address is that of the sender.
    pub(crate) copying: bool,
    /// Answer: the cookie of the ask is missing or outdated; the receiver has to repeat the ask with this one.
    pub(crate) unproven: bool,
    /// Answer: the sender has too many receivers with copies.
    pub(crate) full: bool,
    /// Random number that identifies the receiver.
    pub(crate) token: u64,
    /// Proof that the receiver gets what is sent to its address. Member and behind: number of the request for
    /// addresses, 0 if there is none.
    pub(crate) cookie: u64,
    /// Ask: number of the sender's multicasts that arrived. Answer: number of multicasts sent.
    pub(crate) multicasts: u64,
    /// Ask: number of copies that arrived. Answer: number of copies that exceeded the budget.
    pub(crate) copies: u64,
}

impl Frame {
    pub(crate) fn emit(&self, key: Option<&Key>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN + TAG);
        bytes.extend_from_slice(&MAGIC);
        let flags = u8::from(self.copying) | u8::from(self.unproven) << 1 | u8::from(self.full) << 2;
        bytes.extend_from_slice(&[VERSION, self.kind as u8, flags, 0]);
        for number in [self.token, self.cookie, self.multicasts, self.copies] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        if let Some(key) = key {
            let tag = tag(key, &bytes);
            bytes.extend_from_slice(tag.as_bytes());
        }
        bytes
    }

    /// Parses a frame; `None` if it is none of this version or, with a key, not authentic. Unknown flags and bytes
    /// behind the fields are ignored without a key.
    pub(crate) fn parse(bytes: &[u8], key: Option<&Key>) -> Option<Frame> {
        let content = match key {
            None => bytes,
            Some(key) => {
                let (content, found) = bytes.split_last_chunk::<TAG>()?;
                // The comparison takes the same time for all tags.
                if tag(key, content) != *found {
                    return None;
                }
                content
            }
        };
        let rest = content.strip_prefix(&MAGIC)?;
        let ([VERSION, kind, flags, _], rest) = rest.split_first_chunk::<4>()? else { return None };
        let kind = FrameKind::VARIANTS.into_iter().find(|one| *one as u8 == *kind)?;
        let (numbers, _) = rest.split_first_chunk::<32>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let number = |at: usize| u64::from_be_bytes(numbers[at]);
        Some(Frame {
            kind,
            copying: flags & 1 > 0,
            unproven: flags & 2 > 0,
            full: flags & 4 > 0,
            token: number(0),
            cookie: number(1),
            multicasts: number(2),
            copies: number(3),
        })
    }
}

/// Returns true if a datagram begins like a frame and is not longer than one. The magic number distinguishes it
/// from packets of protocols.
pub(crate) fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && (LEN..=LEN + TAG).contains(&bytes.len())
}

/// Frame by which a relay with this token makes itself known. It names the sender of which the relay forwards the data:
/// its IPv4 address and port in `cookie`, or the port there and the IPv6 address in the two fields behind.
pub(crate) fn beacon(token: u64, server: SocketAddr) -> Vec<u8> {
    let port = u64::from(server.port());
    let (kind, cookie, [multicasts, copies]) = match server {
        SocketAddr::V4(v4) => (FrameKind::Beacon, u64::from(u32::from(*v4.ip())) << 16 | port, [0; 2]),
        SocketAddr::V6(v6) => (FrameKind::BeaconV6, port, halves(*v6.ip())),
    };
    let (copying, unproven, full) = (false, false, false);
    Frame { kind, copying, unproven, full, token, cookie, multicasts, copies }.emit(None)
}

/// Token of a relay and address of its sender, if this is the frame of a relay.
pub(crate) fn server_of_beacon(bytes: &[u8]) -> Option<(u64, SocketAddr)> {
    let Frame { kind, token, cookie, multicasts, copies, .. } = Frame::parse(bytes, None)?;
    let port = cookie as u16;
    let server = match kind {
        FrameKind::Beacon => SocketAddr::from((Ipv4Addr::from((cookie >> 16) as u32), port)),
        FrameKind::BeaconV6 => SocketAddr::from((joined(multicasts, copies), port)),
        _ => return None,
    };
    Some((token, server))
}

/// Sender of which a relay multicasts the data, if the datagram is the frame by which a relay makes itself known.
#[must_use]
pub fn sender_of_relay(datagram: &[u8]) -> Option<SocketAddr> {
    server_of_beacon(datagram).map(|(_, server)| server)
}

/// Frame of a receiver behind the relay with this token, with the number of a request for addresses or 0.
pub(crate) fn behind(token: u64, request: u64, key: Option<&Key>) -> Vec<u8> {
    let cookie = request;
    let (copying, unproven, full) = (false, false, false);
    let kind = FrameKind::Behind;
    Frame { kind, copying, unproven, full, token, cookie, multicasts: 0, copies: 0 }.emit(key)
}

/// Answer to the request for addresses in a frame: the address of the sender if `is_sender`, otherwise that of the
/// receiver's session.
pub(crate) fn located(request: &Frame, address: SocketAddr, is_sender: bool, key: &Key) -> Vec<u8> {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let [multicasts, copies] = halves(ip);
    let (kind, unproven, full) = (FrameKind::Located, false, false);
    let (token, cookie) = (request.token, request.cookie << 16 | u64::from(address.port()));
    Frame { kind, copying: is_sender, unproven, full, token, cookie, multicasts, copies }.emit(Some(key))
}

/// Number of the request and address in such an answer.
pub(crate) fn address_in(frame: &Frame) -> (u64, SocketAddr) {
    let ip = joined(frame.multicasts, frame.copies).to_canonical();
    (frame.cookie >> 16, SocketAddr::from((ip, frame.cookie as u16)))
}

fn halves(ip: Ipv6Addr) -> [u64; 2] {
    let ip = u128::from(ip);
    [(ip >> 64) as u64, ip as u64]
}

fn joined(high: u64, low: u64) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))
}

/// Authentication of a frame by the key of the group.
fn tag(key: &Key, content: &[u8]) -> blake3::Hash {
    blake3::keyed_hash(&blake3::derive_key(TAG_KEY, &key.to_bytes()), content)
}

const MAGIC: [u8; 4] = [0xC9, b'c', b'p', b'y'];
const VERSION: u8 = 1;
/// Bytes of a frame without its tag.
pub(super) const LEN: usize = 40;
const TAG: usize = blake3::OUT_LEN;

/// Context of BLAKE3's `derive_key`.
const TAG_KEY: &str = "carillon 2026-11-30 copies 1: group key to the key of frames";
