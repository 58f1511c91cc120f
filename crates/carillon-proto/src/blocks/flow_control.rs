//! Flow control: the number of packets a sender may have outstanding.

/// Limit of the packets that receivers, or the paths to them, can take.
pub trait FlowControl {
    /// Sequence number after the last one that may be sent while `start` is the first outstanding one.
    fn limit(&self, start: u64) -> u64;
}

/// Window of a fixed size.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(pub u64);

impl FlowControl for FixedWindow {
    fn limit(&self, start: u64) -> u64 {
        // The sum saturates, so that a window may have any size.
        start.saturating_add(self.0)
    }
}
