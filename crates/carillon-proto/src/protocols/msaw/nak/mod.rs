//! Stop-and-wait with negative acknowledgments.
//!
//! Segovia 1996, chapter 5, suggests negative acknowledgments "by allowing the sender to detect and
//! respond to errors quicker". In stop-and-wait a receiver cannot miss what it does not know of, so
//! each message is followed by a short announcement; a receiver that lacks it asks, the others say
//! nothing, and after a silence the next message has its turn. Since silence proves nothing, all
//! receivers are polled every so many messages, as Ramakrishnan and Jain (INFOCOM '87) do. The rules
//! are in `docs/protocols/msaw.md`.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::NakReceiver;
pub use sender::NakSender;

/// Sequence numbers on the wire have eight bits.
const MODULUS: u64 = 1 << 8;
