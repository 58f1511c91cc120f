//! The send buffer: the implicit back window.

use std::collections::VecDeque;

use bytes::Bytes;

/// `sendBuf`: the last B messages sent. The oldest makes room for the newest, whoever lacks it.
#[derive(Debug)]
pub(super) struct BackWindow {
    b: usize,
    messages: VecDeque<Bytes>,
    /// `nextSeqToSend`.
    next: u64,
}

impl BackWindow {
    /// Empty, with room for `b` messages.
    pub fn new(b: u64) -> Self {
        BackWindow { b: b as usize, messages: VecDeque::new(), next: 0 }
    }

    /// A message is sent. Returns its number, and the number of the one that fell out.
    pub fn push(&mut self, payload: Bytes) -> (u64, Option<u64>) {
        let number = self.next;
        self.messages.push_back(payload);
        self.next += 1;
        let overwritten = (self.messages.len() > self.b).then(|| {
            self.messages.pop_front();
            self.oldest() - 1
        });
        (number, overwritten)
    }

    /// The message of this number, if it is still there.
    pub fn get(&self, number: u64) -> Option<&Bytes> {
        self.messages.get(usize::try_from(number.checked_sub(self.oldest())?).ok()?)
    }

    /// The next message to be sent.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The oldest message held; [`BackWindow::next`] if there is none.
    pub fn oldest(&self) -> u64 {
        self.next - self.held()
    }

    /// How many are held.
    pub fn held(&self) -> u64 {
        self.messages.len() as u64
    }
}
