//! Stop-and-wait with negative acknowledgments.
//!
//! A receiver cannot miss a message that it does not know of, so a short announcement follows each message. A
//! receiver that misses the message sends a NAK, the others stay silent, and after a silence the next message
//! follows. Since silence proves nothing, all receivers are polled after every `poll_interval` messages, as in
//! Ramakrishnan and Jain (INFOCOM '87).
//!
//! Source: Segovia 1996, chapter 5, which suggests negative acknowledgments "by allowing the sender to detect and
//! respond to errors quicker". The rules are in `docs/protocols/msaw.md`.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::NakReceiver;
pub use sender::NakSender;

/// Sequence space: sequence numbers on the wire have eight bits.
const MODULUS: u64 = 1 << 8;
