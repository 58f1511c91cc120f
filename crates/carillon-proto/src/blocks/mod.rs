//! Mechanisms that protocols share.

mod ack_wait;
mod ack_window;
mod adaptive_wait;
mod hold_off;
mod members;
mod numbered;
mod patience;
mod receive_window;
mod reception;
pub mod reformation;
mod repair_budget;
pub mod retransmission;
mod round_trip;
mod serial_unicast;
mod timeout;

pub use ack_wait::AckWait;
pub use ack_window::{AckWindow, Slot};
pub use adaptive_wait::AdaptiveWait;
pub use hold_off::HoldOff;
pub use members::{MemberSet, Members};
pub use numbered::Numbered;
pub use patience::{FAILURE_TIMEOUT, Patience};
pub use receive_window::{Arrival, ReceiveWindow, Skipped};
pub use reception::Reception;
pub use repair_budget::{REPAIR_BUDGET, RepairBudget};
pub use retransmission::{PastLimit, Retransmission};
pub use round_trip::RoundTrip;
pub use serial_unicast::SerialUnicast;
pub use timeout::{RetransmissionTimeout, TimeoutMethod};
