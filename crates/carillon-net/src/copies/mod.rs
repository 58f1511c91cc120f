//! Unicast copies of multicasts, for receivers that multicast does not reach.
//!
//! A receiver asks a sender for copies from a socket of its own, and repeats that while it needs them, which also
//! keeps the mapping of an address translator alive. The sender's driver then sends each datagram to the group also to
//! that address, unchanged. What arrives at the socket for copies counts as multicast, so machines, seals and protocols
//! see no difference. The receiver listens to the group as well: when multicasts of the sender arrive, it declines the
//! copies, and when they stop, it asks again. Each ask says how many datagrams came on each path.
//!
//! The order (unicast first, multicast probed in parallel) is that of Flexicast QUIC (Navarre et al., SIGCOMM CCR
//! 2025). The frames are in `docs/reference/copy-frames.md`.
//!
//! An address translator between the two replaces addresses that seals contain. So a sender with a key tells a receiver
//! at which address it sees the receiver, and its own, and the receiver uses these in seals.
//!
//! Not covered: protocols in which receivers multicast. Such datagrams reach the receiver's own network only.

mod client;
mod frame;
mod located;
mod near_relay;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::Subscription;
pub use client::SubscriptionState;
pub use frame::sender_of_relay;
pub(crate) use frame::{is_frame, server_of_beacon};
pub(crate) use near_relay::NearRelay;
pub(crate) use server::{CopyServer, Outcome};
pub use server::{CopyStats, Path};

use std::time::Duration;

/// Interval at which a receiver repeats its ask: less than the 30 s after which address translators forget a mapping.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of asks without an answer that agrees.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Silence after which the sender stops the copies to a receiver.
const SUBSCRIBER_SILENCE: Duration = Duration::from_secs(5);
