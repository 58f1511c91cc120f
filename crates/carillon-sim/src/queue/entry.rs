//! Entry of the event queue, which its lanes pass to each other.

/// Event with its time.
pub(super) struct Entry<T> {
    pub(super) time: u64,
    pub(super) item: T,
}
