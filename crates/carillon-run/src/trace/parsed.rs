//! Last parsed datagram of a trace.

use carillon_core::Bytes;

/// Keeps what was parsed from the last datagram. Equal datagrams in a row are parsed once, such as the copies of a
/// multicast packet on its way.
#[derive(Debug, Default)]
pub(super) struct LastParsed<T> {
    /// Datagram and result. The datagram is kept, so that no other one can have its address.
    last: Option<(Bytes, T)>,
}

impl<T> LastParsed<T> {
    /// Cache without a datagram.
    pub fn new() -> Self {
        LastParsed { last: None }
    }

    /// Returns the result for a datagram, which is parsed if it is not the last one.
    pub fn of(&mut self, bytes: &Bytes, parse: impl FnOnce(&Bytes) -> T) -> &T {
        let is_last = |(last, _): &(Bytes, T)| std::ptr::eq(&raw const last[..], &raw const bytes[..]);
        if !self.last.as_ref().is_some_and(is_last) {
            self.last = None;
        }
        &self.last.get_or_insert_with(|| (bytes.clone(), parse(bytes))).1
    }

    /// Returns the result for the last datagram.
    pub fn get(&self) -> Option<&T> {
        self.last.as_ref().map(|(_, parsed)| parsed)
    }
}
