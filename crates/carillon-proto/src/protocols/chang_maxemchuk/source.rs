//! The messages of this site, until they are delivered here.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A source's own messages that are not committed yet: should a new list of sites drop one from the
/// order, it is sent again.
#[derive(Debug, Default)]
pub(super) struct Source {
    messages: BTreeMap<u64, Own>,
    /// The number of the next message.
    next: u64,
    /// Nothing more will be offered.
    pub finished: bool,
}

#[derive(Debug)]
struct Own {
    payload: Bytes,
    /// Whether it is to be sent now.
    due: bool,
    sent: bool,
    /// Repetitions since the token site was heard.
    tries: u32,
}

impl Source {
    /// The number of the message to be offered next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes a message.
    pub fn offer(&mut self, payload: Bytes) -> u64 {
        let number = self.next;
        self.messages.insert(number, Own { payload, due: true, sent: false, tries: 0 });
        self.next += 1;
        number
    }

    /// The first message from `expected` on that is to be sent.
    pub fn due(&self, expected: u64) -> Option<u64> {
        self.messages.range(expected..).find(|(_, own)| own.due).map(|(&number, _)| number)
    }

    /// A message is sent; returns its payload, and whether it was sent before.
    pub fn send(&mut self, number: u64) -> Option<(Bytes, bool)> {
        let own = self.messages.get_mut(&number)?;
        own.due = false;
        let before = std::mem::replace(&mut own.sent, true);
        Some((own.payload.clone(), before))
    }

    /// A message was not acknowledged in time: it is due again. Returns how often it has been now
    /// since the token site was heard.
    pub fn repeat(&mut self, number: u64) -> u32 {
        let Some(own) = self.messages.get_mut(&number) else { return 0 };
        own.due = true;
        own.tries += 1;
        own.tries
    }

    /// The token site lives.
    pub fn on_heard(&mut self) {
        self.messages.values_mut().for_each(|own| own.tries = 0);
    }

    /// What has no place in the order yet is sent as if for the first time of asking.
    pub fn send_again(&mut self, expected: u64) {
        for own in self.messages.range_mut(expected..).map(|(_, own)| own) {
            (own.due, own.tries) = (true, 0);
        }
    }

    /// Messages before this one are in the order, where this site could not see it. Returns them.
    pub fn forget_before(&mut self, number: u64) -> Vec<u64> {
        let rest = self.messages.split_off(&number);
        std::mem::replace(&mut self.messages, rest).into_keys().collect()
    }

    /// A message has been delivered. Returns whether this site sent it: one that lost what it knew may
    /// see its own messages of before.
    pub fn on_committed(&mut self, number: u64) -> bool {
        self.messages.remove(&number).is_some()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.finished && self.messages.is_empty()
    }
}
