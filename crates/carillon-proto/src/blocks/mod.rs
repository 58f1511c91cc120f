//! Mechanisms that protocols share.

mod ack_wait;
mod members;
mod serial_unicast;
mod timeout;

pub use ack_wait::AckWait;
pub use members::{MemberSet, Members};
pub use serial_unicast::SerialUnicast;
pub use timeout::{RetransmissionTimeout, TimeoutMethod};
