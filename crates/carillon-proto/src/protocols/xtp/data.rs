//! Data packets of a stream: the pieces that one packet carries, its option bits, and the room for them.

use std::ops::Range;

use carillon_core::{Event, MessageId, Transmit};
use carillon_wire::xtp::{Body, Data, TAG_LEN, option};

use super::config::{ErrorControl, Segmentation};
use super::segment::InnerEnds;
use super::sender::{Context, XtpSender};
use super::stream::Piece;
use super::tag::{EMPTY_TAG, MessageTag};

impl XtpSender {
    /// Returns true if the receivers have room for this piece.
    pub(super) fn has_room(&self, number: u64) -> bool {
        let Some(piece) = self.stream.piece(number) else { return false };
        // Without retransmission there is no status, and so no flow control.
        if piece.times > 0 || self.settings.errors == ErrorControl::Off {
            return true;
        }
        let Some(rseq) = self.group.rseq() else { return true };
        if self.is_single() {
            return piece.seq <= rseq;
        }
        let own = piece.end() <= rseq + self.settings.room;
        own && (!self.settings.flow || self.group.alloc().is_none_or(|alloc| piece.end() <= alloc))
    }

    /// Returns true if a next message that begins like this one would not fit behind this packet.
    fn is_full_after(&self, number: u64) -> bool {
        let Some(piece) = self.stream.piece(number) else { return false };
        let end = piece.end() + self.first_packet_len;
        let own = self.group.rseq().is_some_and(|rseq| end > rseq + self.settings.room);
        own || (self.settings.flow && self.group.alloc().is_some_and(|alloc| end > alloc))
    }

    /// Option bits of a piece that ends its message (EOM) or the stream (WCLOSE).
    pub(super) fn ends_with(&self, piece: &Piece) -> u32 {
        let is_last = self.finished && piece.end() == self.stream.end();
        (if piece.edges.1 { option::EOM } else { 0 }) | if is_last { option::WCLOSE } else { 0 }
    }

    /// Tag of a piece: its message number, or the mark of an empty message.
    pub(super) fn tag_of(&self, piece: &Piece) -> Option<[u8; 8]> {
        match self.settings.are_numbered {
            true => Some(MessageTag::of(piece).tag()),
            false => piece.is_empty.then_some(EMPTY_TAG),
        }
    }

    /// Pieces that the packet with this one carries, and the ends of messages between them: XTP sends a byte stream,
    /// and "retransmitted data may be piggy-backed onto previously scheduled packets (filling in the available space
    /// in each packet)" (IV.E.1.a).
    fn pieces_of_packet(&self, number: u64) -> (Range<u64>, InnerEnds) {
        let (mut pieces, mut ends) = (number..number + 1, InnerEnds::default());
        let Some(first) = self.stream.piece(number) else { return (pieces, ends) };
        let may_fill = match self.settings.segmentation {
            Segmentation::Stream => true,
            Segmentation::Repairs => first.times > 0,
            Segmentation::Messages => false,
        };
        if !may_fill || first.is_empty {
            return (pieces, ends);
        }
        let most = self.settings.maxdata.saturating_sub(TAG_LEN);
        let (mut len, mut ends_message) = (first.bytes.len(), first.edges.1);
        while let Some(next) = self.stream.piece(pieces.end) {
            let is_due = self.stream.is_waiting(pieces.end) && self.has_room(pieces.end);
            let fits = len + next.bytes.len() <= most && !next.is_empty;
            if !is_due || !fits || (ends_message && !ends.push(len)) {
                break;
            }
            (len, ends_message) = (len + next.bytes.len(), next.edges.1);
            pieces.end += 1;
        }
        (pieces, ends)
    }

    /// Emits the next data packet, beginning with this piece.
    pub(super) fn put_data(&mut self, context: &mut Context, number: u64, buf: &mut Vec<u8>) -> Transmit {
        let (pieces, ends) = self.pieces_of_packet(number);
        let last = pieces.end - 1;
        if let Some(piece) = self.stream.piece(number).filter(|piece| piece.edges.0) {
            self.first_packet_len = piece.bytes.len() as u64;
        }
        self.packets_since_request += 1;
        self.pauses = 0;
        // Pieces sent after a request are covered by the next one.
        let due = self.sync + 1;
        let mut options = 0;
        if self.asks_with(last) {
            self.request_status(context);
            options |= self.settings.asks_for;
        }
        pieces.clone().for_each(|piece| self.stream.sent(piece, due, self.sync));
        let (Some(first), Some(end)) = (self.stream.piece(number), self.stream.piece(last)) else {
            return Transmit::now(self.dest(context));
        };
        options |= self.ends_with(end);
        if number == last {
            self.emit(
                options,
                first.seq,
                Body::Data(Data { tag: self.tag_of(first), bytes: &first.bytes }),
                buf,
            );
        } else {
            let all = pieces.clone().filter_map(|piece| self.stream.piece(piece));
            let bytes: Vec<u8> = all.flat_map(|piece| piece.bytes.iter().copied()).collect();
            self.emit(options, first.seq, Body::Data(Data { tag: ends.tag(), bytes: &bytes }), buf);
        }
        self.report_sent(context, pieces, buf.len())
    }

    /// Returns true if the packet that ends with this piece carries a status request.
    fn asks_with(&self, last: u64) -> bool {
        let interval = self.settings.sreq_interval;
        let is_last = self.finished && self.stream.piece(last).is_some_and(|p| p.end() == self.stream.end());
        let pauses = match self.stream.next_from(last + 1) {
            Some(next) => !self.has_room(next),
            None => self.settings.asks_at_pauses || is_last || self.is_full_after(last),
        };
        let is_turn = interval > 0 && self.packets_since_request >= interval;
        (pauses || is_turn) && self.settings.errors != ErrorControl::Off
    }

    /// Records the messages of a data packet with `bytes` bytes. The first of them counts the packet.
    fn report_sent(&self, context: &mut Context, pieces: Range<u64>, bytes: usize) -> Transmit {
        let mut original = None;
        let mut is_counted = false;
        for piece in pieces.filter_map(|number| self.stream.piece(number)) {
            let message = MessageId(piece.message);
            let bytes = if std::mem::replace(&mut is_counted, true) { 0 } else { bytes };
            match (piece.times, piece.edges.0) {
                (1, false) => context.events.push(Event::Continued { message, bytes: bytes as u32 }),
                (times, _) => {
                    let transmit = Transmit::now(self.dest(context));
                    let sent = context.events.data_sent(transmit, message, bytes, times > 1);
                    // A packet with several new messages is the original of the first.
                    original = original.or(sent.original);
                }
            }
        }
        Transmit { original, ..Transmit::now(self.dest(context)) }
    }
}
