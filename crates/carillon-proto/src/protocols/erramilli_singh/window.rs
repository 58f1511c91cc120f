//! The send buffer: the implicit back window.

use bytes::Bytes;

use crate::blocks::Numbered;

/// `sendBuf`: the last B messages sent. The oldest makes room for the newest, whoever lacks it.
#[derive(Debug)]
pub(super) struct BackWindow {
    b: usize,
    messages: Numbered<Bytes>,
}

impl BackWindow {
    /// Empty, with room for `b` messages.
    pub fn new(b: u64) -> Self {
        BackWindow { b: b as usize, messages: Numbered::default() }
    }

    /// A message is sent. Returns its number, and the number of the one that fell out.
    pub fn push(&mut self, payload: Bytes) -> (u64, Option<u64>) {
        let number = self.messages.push(payload);
        let overwritten = if self.messages.len() > self.b { self.messages.pop() } else { None };
        (number, overwritten.map(|(number, _)| number))
    }

    /// The message of this number, if it is still there.
    pub fn get(&self, number: u64) -> Option<&Bytes> {
        self.messages.get(number)
    }

    /// `nextSeqToSend`: the next message to be sent.
    pub fn next(&self) -> u64 {
        self.messages.end()
    }

    /// The oldest message held; [`BackWindow::next`] if there is none.
    pub fn oldest(&self) -> u64 {
        self.messages.start()
    }

    /// How many are held.
    pub fn held(&self) -> u64 {
        self.messages.len() as u64
    }
}
