//! How far ahead of its receivers a sender may go.

/// What the receivers, or the paths to them, have room for.
pub trait FlowControl {
    /// One past the last number that may go out while `start` is the first that is outstanding.
    fn limit(&self, start: u64) -> u64;
}

/// So many may be outstanding: a window whose size is given.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(pub u64);

impl FlowControl for FixedWindow {
    fn limit(&self, start: u64) -> u64 {
        start.saturating_add(self.0)
    }
}
