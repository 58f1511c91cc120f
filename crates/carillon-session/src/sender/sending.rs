//! Data of the application at a sender: amounts, and the size of messages.

use super::sizes::Shortened;

/// Messages offered, and their maximum size.
#[derive(Debug)]
pub(super) struct Sending {
    /// True after `finish` was called.
    pub finishing: bool,
    /// Bytes of the messages offered; among peers also of the messages delivered.
    pub offered_bytes: u64,
    /// Bytes of the offered data that are in no message, as receivers have them or need not get them.
    pub unsent: u64,
    /// Maximum payload of a message.
    pub max_payload: u32,
    /// Reason why the payload is smaller than configured.
    pub shortened: Option<Shortened>,
}

impl Sending {
    pub fn new(max_payload: u32) -> Self {
        Sending { finishing: false, offered_bytes: 0, unsent: 0, max_payload, shortened: None }
    }
}
