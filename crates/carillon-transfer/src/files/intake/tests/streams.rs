//! Tests of live streams.

use carillon_core::Order;
use carillon_wire::file::{Record, ResumePoint};

use super::super::super::live::{Live, Messages};
use super::{Place, Sink};
use crate::limits::MAX_MESSAGE_LEN;

/// Records the lengths of messages.
struct Lengths(std::sync::mpsc::Sender<usize>);

impl Messages for Lengths {
    fn message(&mut self, _: &str, _: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.send(bytes.len()).map_err(std::io::Error::other)
    }
}

/// Applies the records of a live stream; returns the result and the lengths of the messages.
fn live(order: Order, records: &[Record<'_>]) -> (Option<Result<(), String>>, Vec<usize>) {
    let (to, lengths) = std::sync::mpsc::channel();
    let mut place = Place::new(false);
    place.sink = Sink::Live(Live::plain(Lengths(to)));
    place.intake = place.intake.in_order(order);
    let result = place.take(records);
    drop(place);
    (result, lengths.iter().collect())
}

#[test]
fn a_message_in_pieces_is_one() {
    let records = [
        Record::Piece { number: 0, offset: 0, len: 5, bytes: b"ab" },
        Record::Piece { number: 0, offset: 2, len: 5, bytes: b"cd" },
        Record::Piece { number: 0, offset: 4, len: 5, bytes: b"e" },
        Record::Message { number: 1, bytes: b"" },
        Record::EndOfStream { messages: 2 },
    ];
    assert_eq!(live(Order::Source, &records), (Some(Ok(())), vec![5, 0]));
}

#[test]
fn misordered_unending_or_oversized_pieces_are_refused() {
    let piece = |number| Record::Piece { number, offset: 0, len: 5, bytes: b"ab" };
    let refused = |records: &[Record<'_>], words: &str| {
        let (result, lengths) = live(Order::Source, records);
        assert!(matches!(&result, Some(Err(reason)) if reason.contains(words)), "{result:?}");
        assert_eq!(lengths, []);
    };
    refused(&[piece(1)], "message 1 arrived instead of message 0");
    refused(&[piece(0), piece(1)], "message 1 arrived instead of message 0");
    refused(&[piece(0), Record::EndOfStream { messages: 1 }], "incomplete");
    refused(&[piece(0), Record::EndOfStream { messages: 0 }], "more messages arrived than the 0");
    refused(
        &[Record::Piece { number: 0, offset: 0, len: MAX_MESSAGE_LEN as u32 + 1, bytes: b"a" }],
        "longer than",
    );
}

#[test]
fn unordered_stream_ends_after_every_message_arrived() {
    let message = |number: u64| Record::Message { number, bytes: &b"abcd"[..number as usize] };
    let piece = |offset, bytes| Record::Piece { number: 1, offset, len: 5, bytes };
    let end = Record::EndOfStream { messages: 4 };
    let records = [message(3), piece(3, b"de"), end, message(0), message(2), piece(0, b"abc")];
    assert_eq!(live(Order::Arrival, &records), (Some(Ok(())), vec![3, 0, 2, 5]));
    for length in 0..records.len() {
        assert_eq!(live(Order::Arrival, &records[..length]).0, None, "after {length}");
    }
    let refused = |records: &[Record<'_>], words: &str| {
        let (result, _) = live(Order::Arrival, records);
        assert!(matches!(&result, Some(Err(reason)) if reason.contains(words)), "{result:?}");
    };
    refused(&[message(2), message(2)], "message 2 arrived twice");
    refused(&[message(0), message(0)], "message 0 arrived twice");
    refused(&[message(1), piece(0, b"abc")], "a piece of message 1 arrived twice");
    refused(&[message(2), Record::EndOfStream { messages: 2 }], "more messages arrived than the 2");
    refused(&[Record::EndOfStream { messages: 2 }, message(2)], "message 2 arrived");
    refused(&[Record::Message { number: u64::MAX, bytes: b"" }], "arrived instead");
    refused(&[end, Record::EndOfStream { messages: 5 }], "number of messages twice");
}

#[test]
fn session_of_a_stream_may_begin_late_and_end_early() {
    let resume = |transfer, entry, offset| Record::Resume(ResumePoint { transfer, entry, offset });
    let (begins, goes_on) = (resume([0; 16], 0, 3), resume([0; 16], 1, 4));
    let message = |number| Record::Message { number, bytes: b"a" };
    for order in [Order::Source, Order::Arrival] {
        assert_eq!(live(order, &[begins, message(3), goes_on]), (Some(Ok(())), vec![1]));
        assert_ne!(live(order, &[begins, goes_on]).0, Some(Ok(())), "message 3 is missing");
    }
    assert_eq!(live(Order::Arrival, &[goes_on, message(3), begins]), (Some(Ok(())), vec![1]));
    for wrong in [resume([1; 16], 0, 3), resume([0; 16], 2, 3)] {
        assert!(matches!(live(Order::Source, &[wrong]).0, Some(Err(_))));
    }
}
