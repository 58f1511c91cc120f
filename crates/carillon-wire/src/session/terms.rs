//! To what a receiver is invited.

use std::fmt;

use carillon_core::Seeds;

use super::Invite;

/// A digest of what an INVITE says of its session and that stays as it is.
///
/// Anybody can say an INVITE in the sender's name. What the sender says to one receiver alone, with the nonce of the two,
/// therefore has the digest of its own, and a receiver that was told something else begins anew with what is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(pub u64);

impl Invite<'_> {
    /// Protocol and settings, the sender's name, the size of messages and datagrams, and whether routers may help.
    pub fn terms(&self) -> Terms {
        let Invite { max_payload, relays, sizes, protocol, sender, settings, job, .. } = self;
        // Names have no line feeds.
        let text = format!("{max_payload} {relays}{sizes}\n{protocol}\n{sender}\n{}\n{job:?}", &**settings);
        Terms(Seeds::new(0).part("session.terms").stream(&text).bits())
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
