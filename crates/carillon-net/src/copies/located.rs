//! Addresses of a receiver and a sender that an address translator between them replaces.

use std::net::SocketAddr;

use super::frame::{Frame, FrameKind, address_in};
use crate::seal::{Key, Names};

/// Addresses of both ends as a sender has told them. Seals contain addresses, so each datagram has to name those that
/// the sender knows: the one at which it sees the receiver's session, and the one by which it seals.
///
/// An attacker without the key can forward a request from its own address. It then gets an answer with that address,
/// later than the receiver gets its own one. So only the first answer to each request counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Located {
    own: Option<SocketAddr>,
    theirs: Option<SocketAddr>,
    /// Number of the latest request.
    request: u64,
    /// Bit per request, the latest lowest: an answer with the own address, or that of the sender, has arrived.
    answered: [u16; 2],
}

impl Located {
    /// Returns the number of a new request.
    pub(crate) fn request(&mut self) -> u64 {
        self.request += 1;
        self.answered.iter_mut().for_each(|bits| *bits <<= 1);
        self.request
    }

    /// Handles a frame with an address, which takes the key and the receiver's or relay's token. Returns the names in
    /// seals once both addresses are known, and again when one has changed.
    pub(crate) fn on_frame(&mut self, bytes: &[u8], token: u64, key: &Key) -> Option<Names> {
        let frame = Frame::parse(bytes, Some(key))?;
        if frame.kind != FrameKind::Located || frame.token != token {
            return None;
        }
        let (request, address) = address_in(&frame);
        let age = self.request.checked_sub(request).filter(|&age| request > 0 && age < u16::BITS.into())?;
        let answered = &mut self.answered[usize::from(frame.copying)];
        if std::mem::replace(answered, *answered | 1 << age) & 1 << age != 0 {
            return None;
        }
        let place = if frame.copying { &mut self.theirs } else { &mut self.own };
        let is_new = place.replace(address) != Some(address);
        let names = Names { own: self.own?, theirs: self.theirs? };
        is_new.then_some(names)
    }
}
