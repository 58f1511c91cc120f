//! The sender's side of the stream: messages cut into pieces, what has gone out of it, and what is to go again.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::blocks::Numbered;

/// What is under way or waits to be. A piece is what one packet carries: it never has bytes of two messages, so that the end of
/// each can be marked.
#[derive(Debug, Default)]
pub(super) struct SendStream {
    messages: Numbered<Message>,
    pieces: Numbered<Piece>,
    /// Number after the last byte offered.
    end: u64,
    /// The first piece that has never gone out.
    first_unsent: u64,
    /// Pieces that are to go again.
    to_retransmit: BTreeSet<u64>,
    /// Messages of which nothing or not all has gone out.
    unsent: u64,
}

#[derive(Debug)]
pub(super) struct Message {
    /// One past its last byte.
    pub end: u64,
    /// When it went out so many were under way.
    pub window: Option<u32>,
}

/// What one packet carries.
#[derive(Debug)]
pub(super) struct Piece {
    pub message: u64,
    /// Its first byte.
    pub seq: u64,
    pub bytes: Bytes,
    /// Whether it begins its message, and whether it ends it.
    pub edges: (bool, bool),
    /// It stands for a message without bytes.
    pub is_empty: bool,
    /// How often it went out.
    pub times: u32,
    /// Who answers this number of the handshake, or a later one, must have had it.
    pub due_sync: u32,
    /// The number that it carried last.
    pub epoch: u32,
}

impl Piece {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.seq + self.bytes.len() as u64
    }
}

impl SendStream {
    /// Adds a message, cut into pieces of at most so many bytes; returns its number.
    pub fn offer(&mut self, payload: &Bytes, maxdata: usize) -> u64 {
        let is_empty = payload.is_empty();
        // A message without bytes takes no place in the stream, where nobody could tell whether it has come.
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

    /// Messages that have not gone out, or not all of them.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The next piece to go out.
    pub fn next(&self) -> Option<u64> {
        self.to_retransmit
            .first()
            .copied()
            .or((self.first_unsent < self.pieces.end()).then_some(self.first_unsent))
    }

    /// The one behind it.
    pub fn second(&self) -> Option<u64> {
        match self.to_retransmit.len() {
            0 => Some(self.first_unsent + 1).filter(|&number| number < self.pieces.end()),
            1 => Some(self.first_unsent).filter(|&number| number < self.pieces.end()),
            _ => self.to_retransmit.iter().nth(1).copied(),
        }
    }

    pub fn piece(&self, number: u64) -> Option<&Piece> {
        self.pieces.get(number)
    }

    /// This piece goes out with this number; who answers `due` must have had it.
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

    /// The first piece that ends beyond this byte, of those that have gone out.
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

    /// Everything from this piece on goes again.
    pub fn go_back(&mut self, number: u64) {
        self.to_retransmit.extend(number.max(self.pieces.start())..self.first_unsent);
    }

    /// This piece goes again.
    pub fn repeat(&mut self, number: u64) {
        if self.pieces.get(number).is_some_and(|piece| piece.times > 0) {
            self.to_retransmit.insert(number);
        }
    }

    /// This piece need not go again.
    pub fn cancel_retransmission(&mut self, number: u64) {
        self.to_retransmit.remove(&number);
    }

    /// How many pieces from this one on are to go again.
    pub fn queued_from(&self, number: u64) -> usize {
        self.to_retransmit.range(number..).count()
    }

    /// Whether this piece is to go again.
    pub fn is_queued(&self, number: u64) -> bool {
        self.to_retransmit.contains(&number)
    }

    /// All have everything before this byte: the messages that are over, one after the other.
    pub fn complete(&mut self, base: u64) -> Option<(u64, Message)> {
        while self.pieces.first().is_some_and(|piece| piece.end() <= base) {
            let Some((number, piece)) = self.pieces.pop() else { break };
            self.to_retransmit.remove(&number);
            if number >= self.first_unsent {
                // With nobody left it need not go out.
                self.first_unsent = number + 1;
                self.unsent -= u64::from(piece.edges.1);
            }
        }
        match self.messages.first() {
            Some(message) if message.end <= base => self.messages.pop(),
            _ => None,
        }
    }

    /// The first piece that is there.
    pub fn first_piece(&self) -> Option<u64> {
        self.pieces.first().map(|_| self.pieces.start())
    }

    /// The first byte of the first message of which nothing has gone out.
    pub fn next_message_start(&self) -> u64 {
        let begins = (self.first_unsent..self.pieces.end()).filter_map(|number| self.pieces.get(number));
        begins.into_iter().find(|piece| piece.edges.0).map_or(self.end, |piece| piece.seq)
    }

    /// Number after the last byte of this message.
    pub fn end_of(&self, message: u64) -> u64 {
        match self.messages.get(message) {
            Some(message) => message.end,
            None if message < self.messages.start() => self.start(),
            None => self.end,
        }
    }

    /// The first byte that is there.
    pub fn start(&self) -> u64 {
        self.pieces.first().map_or(self.end, |piece| piece.seq)
    }

    /// Number after the last byte that has gone out.
    pub fn sent_end(&self) -> u64 {
        match self.pieces.get(self.first_unsent) {
            Some(piece) => piece.seq,
            None => self.end,
        }
    }

    /// Number after the last byte offered.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The first byte that not all have, and whether it has gone out.
    pub fn oldest(&self) -> Option<&Message> {
        self.messages.first()
    }

    /// How many messages end at or before this byte.
    pub fn messages_before(&self, seq: u64) -> u64 {
        let there = self.messages.iter().take_while(|message| message.end <= seq).count() as u64;
        self.messages.start() + there
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
