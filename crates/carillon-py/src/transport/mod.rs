//! Deliveries of files and messages over the network.

mod files;
mod messages;
mod options;
mod reports;
mod task;

pub use files::{Transfer, start_receive, start_send};
pub use messages::{Inbound, Listener, Message, Outbound, connect, listen};
pub use task::Task;
