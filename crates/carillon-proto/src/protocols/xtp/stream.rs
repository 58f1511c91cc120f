//! Send stream: messages cut into pieces, and the pieces to send and resend.
//!
//! Pieces are the unit of acknowledgment and retransmission. A packet carries one or several of them, so that data is
//! cut anew when it is resent.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::blocks::Numbered;

/// Unsent and unacknowledged data. A piece never spans two messages.
#[derive(Debug, Default)]
pub(super) struct SendStream {
    messages: Numbered<Message>,
    pieces: Numbered<Piece>,
    /// Offset after the last byte offered.
    end: u64,
    /// First piece never sent.
    first_unsent: u64,
    /// Pieces to retransmit.
    to_retransmit: BTreeSet<u64>,
    /// Number of messages not completely sent.
    unsent: u64,
}

#[derive(Debug)]
pub(super) struct Message {
    /// Offset after its last byte.
    pub end: u64,
    /// Number of messages in the window when it was first sent.
    pub window: Option<u32>,
}

/// Part of a message that fits into one packet.
#[derive(Debug)]
pub(super) struct Piece {
    pub message: u64,
    /// Offset of its first byte.
    pub seq: u64,
    pub bytes: Bytes,
    /// True, in this order, if it starts its message, and if it ends it.
    pub edges: (bool, bool),
    /// True for the byte that stands for an empty message.
    pub is_empty: bool,
    /// Number of transmissions.
    pub times: u32,
    /// Sync number that, once answered, must cover the piece.
    pub due_sync: u32,
    /// Sync number of its last transmission.
    pub epoch: u32,
}

impl Piece {
    /// Offset after its last byte.
    pub fn end(&self) -> u64 {
        self.seq + self.bytes.len() as u64
    }
}

impl SendStream {
    /// Appends a message in pieces of at most `maxdata` bytes. Returns its number.
    pub fn offer(&mut self, payload: &Bytes, maxdata: usize) -> u64 {
        let is_empty = payload.is_empty();
        // An empty message would take no byte of the stream and could not be acknowledged: one byte stands for it.
        let bytes = if is_empty { Bytes::from_static(&[0]) } else { payload.clone() };
        let message = self.messages.end();
        let (mut from, first) = (0, self.end);
        while from < bytes.len() {
            let to = bytes.len().min(from + maxdata);
            let edges = (from == 0, to == bytes.len());
            let (seq, bytes) = (first + from as u64, bytes.slice(from..to));
            self.pieces.push(Piece { message, seq, bytes, edges, is_empty, times: 0, due_sync: 0, epoch: 0 });
            from = to;
        }
        self.end = first + bytes.len() as u64;
        self.unsent += 1;
        self.messages.push(Message { end: self.end, window: None })
    }

    /// Number of messages not completely sent.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Next piece to send: retransmissions first.
    pub fn next(&self) -> Option<u64> {
        self.to_retransmit
            .first()
            .copied()
            .or((self.first_unsent < self.pieces.end()).then_some(self.first_unsent))
    }

    /// Returns true if the piece is to be sent or resent.
    pub fn is_waiting(&self, number: u64) -> bool {
        self.is_queued(number) || (number >= self.first_unsent && number < self.pieces.end())
    }

    /// First piece from this one on that is to be sent or resent.
    pub fn next_from(&self, number: u64) -> Option<u64> {
        let unsent = self.first_unsent.max(number);
        let queued = self.to_retransmit.range(number..).next().copied();
        queued.or((unsent < self.pieces.end()).then_some(unsent))
    }

    pub fn piece(&self, number: u64) -> Option<&Piece> {
        self.pieces.get(number)
    }

    /// Records the transmission of a piece with sync number `epoch`; an answer to `due_sync` must cover it.
    pub fn sent(&mut self, number: u64, due_sync: u32, epoch: u32) {
        self.to_retransmit.remove(&number);
        let under_way = self.messages.len() as u32;
        let Some(piece) = self.pieces.get_mut(number) else { return };
        piece.times += 1;
        (piece.due_sync, piece.epoch) = (due_sync, epoch);
        if number == self.first_unsent {
            self.first_unsent += 1;
            self.unsent -= u64::from(piece.edges.1);
            if let Some(message) = self.messages.get_mut(piece.message) {
                message.window.get_or_insert(under_way);
            }
        }
    }

    /// First sent piece that ends after this offset.
    // Binary search over the sent pieces, which are ordered by offset.
    pub fn first_beyond(&self, seq: u64) -> Option<u64> {
        let (mut low, mut high) = (self.pieces.start(), self.first_unsent);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.pieces.get(middle) {
                Some(piece) if piece.end() <= seq => low = middle + 1,
                _ => high = middle,
            }
        }
        (low < self.first_unsent).then_some(low)
    }

    /// Queues all sent pieces from this one on (go-back-N).
    pub fn go_back(&mut self, number: u64) {
        self.to_retransmit.extend(number.max(self.pieces.start())..self.first_unsent);
    }

    /// Queues a sent piece for retransmission.
    pub fn repeat(&mut self, number: u64) {
        if self.pieces.get(number).is_some_and(|piece| piece.times > 0) {
            self.to_retransmit.insert(number);
        }
    }

    /// Cancels the retransmission of a piece.
    pub fn cancel_retransmission(&mut self, number: u64) {
        self.to_retransmit.remove(&number);
    }

    /// Number of queued pieces from this one on.
    pub fn queued_from(&self, number: u64) -> usize {
        self.to_retransmit.range(number..).count()
    }

    /// Returns true if the piece is queued for retransmission.
    pub fn is_queued(&self, number: u64) -> bool {
        self.to_retransmit.contains(&number)
    }

    /// Drops pieces that every receiver has, before offset `base`. Returns the next completed message.
    pub fn complete(&mut self, base: u64) -> Option<(u64, Message)> {
        while self.pieces.first().is_some_and(|piece| piece.end() <= base) {
            let Some((number, piece)) = self.pieces.pop() else { break };
            self.to_retransmit.remove(&number);
            if number >= self.first_unsent {
                // Without active receivers a piece need not be sent.
                self.first_unsent = number + 1;
                self.unsent -= u64::from(piece.edges.1);
            }
        }
        match self.messages.first() {
            Some(message) if message.end <= base => self.messages.pop(),
            _ => None,
        }
    }

    /// First piece held.
    pub fn first_piece(&self) -> Option<u64> {
        self.pieces.first().map(|_| self.pieces.start())
    }

    /// Offset of the first message that is not yet being sent.
    pub fn next_message_start(&self) -> u64 {
        let begins = (self.first_unsent..self.pieces.end()).filter_map(|number| self.pieces.get(number));
        begins.into_iter().find(|piece| piece.edges.0).map_or(self.end, |piece| piece.seq)
    }

    /// Offset after the last byte of a message.
    pub fn end_of(&self, message: u64) -> u64 {
        match self.messages.get(message) {
            Some(message) => message.end,
            None if message < self.messages.start() => self.start(),
            None => self.end,
        }
    }

    /// Offset of the first byte held.
    pub fn start(&self) -> u64 {
        self.pieces.first().map_or(self.end, |piece| piece.seq)
    }

    /// Offset after the last byte sent.
    pub fn sent_end(&self) -> u64 {
        match self.pieces.get(self.first_unsent) {
            Some(piece) => piece.seq,
            None => self.end,
        }
    }

    /// Offset after the last byte offered.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Oldest message that some receiver is missing.
    pub fn oldest(&self) -> Option<&Message> {
        self.messages.first()
    }

    /// Number of messages that end at or before this offset.
    pub fn messages_before(&self, seq: u64) -> u64 {
        // The ends ascend.
        self.messages.partition_point(|message| message.end <= seq)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
