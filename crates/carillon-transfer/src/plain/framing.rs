//! Framing of messages in the packets of a plain session.
//!
//! ZeroMQ sends a byte stream of frames in packets of a few frames or a part of one (ZMTP 1.0, 37/ZMTP, over PGM):
//!
//! ```text
//! packet  offset of the first frame that begins here 2 (ffff: none), stream ...
//! frame   length 1, flags 1, body           length counts flags and body, up to 254
//!         ff, length 8, flags 1, body       longer ones
//! ```
//!
//! Bit 0 of the flags tells that the message has a further part. Parts are passed on as messages of their own.
//!
//! Over NORM the packets are pieces of a stream ([`StreamPiece`]), which have no offset, and frames are those of ZMTP
//! 2.0 behind a byte that tells whether they are the first ones of a message:
//!
//! ```text
//! frame   0 or ff, flags 1, length 1, body
//!         0 or ff, flags 1, length 8, body       bit 1 of the flags is set
//! ```
//!
//! Messages of a stream without framing end where the next one begins, or where the sender flushed.

use std::collections::VecDeque;
use std::str::FromStr;

use carillon_core::{Bytes, PlainContents};
use carillon_proto::plain::StreamPiece;
use carillon_session::UnknownWord;

/// Framing of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// A message is the data of a packet, or of several where the standard has fragments or a stream.
    #[default]
    None,
    /// Frames of ZeroMQ, as PUB and SUB sockets of `epgm://` and `norm://` exchange them.
    ZeroMq,
}

impl FromStr for Framing {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "none" => Ok(Framing::None),
            "zeromq" => Ok(Framing::ZeroMq),
            _ => Err(UnknownWord { expected: "none or zeromq" }),
        }
    }
}

/// Makes packets of messages.
#[derive(Debug)]
pub(super) struct Packer {
    framing: Framing,
    /// True if packets are pieces of a stream, which tell by themselves where a message begins.
    is_stream: bool,
    /// Maximum bytes of a packet.
    limit: usize,
    /// Packet that is not full yet, without its offset.
    open: Vec<u8>,
    /// Offset of the first frame or message that begins in the open packet.
    first: Option<u16>,
}

impl Packer {
    pub fn new(framing: Framing, contents: PlainContents, limit: usize) -> Self {
        Packer { framing, is_stream: contents.has_stream(), limit, open: Vec::new(), first: None }
    }

    /// Maximum bytes of a message that fits one packet, whatever its length.
    pub fn whole_message(&self) -> usize {
        let head = match (self.framing, self.is_stream) {
            (Framing::None, _) => 0,
            (Framing::ZeroMq, true) => MAX_STREAM_HEAD_LEN,
            (Framing::ZeroMq, false) => OFFSET_LEN + MAX_HEAD_LEN,
        };
        self.limit.saturating_sub(head)
    }

    /// Returns true if a message may take several packets.
    pub fn has_long_messages(&self) -> bool {
        self.framing == Framing::ZeroMq || self.is_stream
    }

    /// Adds a message, and appends the packets that are full.
    pub fn add(&mut self, message: Vec<u8>, packets: &mut VecDeque<Bytes>) {
        let head = match (self.framing, self.is_stream) {
            (Framing::None, false) => return packets.push_back(message.into()),
            (Framing::None, true) => Vec::new(),
            (Framing::ZeroMq, false) => frame_head(message.len()),
            (Framing::ZeroMq, true) => stream_frame_head(message.len()),
        };
        // A frame that would not fit begins in a packet of its own, so that most losses concern one message.
        let length = head.len() + message.len();
        if self.room() == 0 || length > self.room() && length <= self.packet_len() {
            self.flush(packets);
        }
        self.first.get_or_insert(self.open.len() as u16);
        for mut part in [&head[..], &message] {
            while !part.is_empty() {
                if self.room() == 0 {
                    self.flush(packets);
                }
                let (now, later) = part.split_at(part.len().min(self.room()));
                self.open.extend_from_slice(now);
                part = later;
            }
        }
        if self.framing == Framing::None {
            // A packet tells of one message where it begins.
            self.flush(packets);
        }
    }

    /// Appends the packet that is not full yet, if there is one.
    pub fn flush(&mut self, packets: &mut VecDeque<Bytes>) {
        if self.open.is_empty() {
            return;
        }
        let (start, open) = (self.first.take(), std::mem::take(&mut self.open));
        if self.is_stream {
            let ends = open.len() < self.limit;
            return packets.push_back(StreamPiece { start, ends, content: open.into() }.into_message());
        }
        let offset = start.unwrap_or(NO_OFFSET).to_be_bytes();
        packets.push_back([&offset[..], &open].concat().into());
    }

    /// Maximum bytes of frames in a packet.
    fn packet_len(&self) -> usize {
        if self.is_stream { self.limit } else { self.limit - OFFSET_LEN }
    }

    /// Bytes that the open packet still takes.
    fn room(&self) -> usize {
        self.packet_len().saturating_sub(self.open.len())
    }
}

/// Head of a frame in packets (ZMTP 1.0).
fn frame_head(body: usize) -> Vec<u8> {
    let length = body as u64 + 1;
    let mut head = match u8::try_from(length) {
        Ok(short) if short != LONG_FRAME => vec![short],
        _ => [&[LONG_FRAME][..], &length.to_be_bytes()].concat(),
    };
    head.push(0);
    head
}

/// Head of a frame in a stream (ZMTP 2.0), behind the byte for the first frame of a message.
fn stream_frame_head(body: usize) -> Vec<u8> {
    match u8::try_from(body) {
        Ok(short) => vec![FIRST_FRAME, 0, short],
        Err(_) => [&[FIRST_FRAME, LARGE][..], &(body as u64).to_be_bytes()].concat(),
    }
}

/// Takes the messages of one source out of its packets.
#[derive(Debug)]
pub(super) struct Unpacker {
    framing: Framing,
    is_stream: bool,
    /// Number of the next packet, if the place in the stream is known.
    next: Option<u64>,
    /// Begin of a frame or message.
    open: Vec<u8>,
}

impl Unpacker {
    /// Unpacker of packets without framing in no stream needs no work: there is none.
    pub fn new(framing: Framing, contents: PlainContents) -> Option<Self> {
        let is_stream = contents.has_stream();
        (framing == Framing::ZeroMq || is_stream).then_some(Unpacker {
            framing,
            is_stream,
            next: None,
            open: Vec::new(),
        })
    }

    /// Adds a packet, and returns the messages that it completes. After a lost packet, and after bytes that are no
    /// frame, it goes on with the next packet in which a frame or message begins.
    pub fn add(&mut self, number: u64, packet: &Bytes) -> Vec<Bytes> {
        let piece = match self.is_stream {
            true => StreamPiece::parse(packet.clone()),
            false => packet.split_first_chunk().map(|(offset, _)| StreamPiece {
                start: Some(u16::from_be_bytes(*offset)).filter(|&offset| offset != NO_OFFSET),
                ends: false,
                content: packet.slice(OFFSET_LEN..),
            }),
        };
        let Some(piece) = piece else {
            self.next = None;
            return Vec::new();
        };
        let mut stream = &piece.content[..];
        let mut start = piece.start.map(usize::from);
        if self.next != Some(number) {
            self.open.clear();
            let Some(rest) = start.and_then(|start| stream.get(start..)) else {
                self.next = None;
                return Vec::new();
            };
            (stream, start) = (rest, Some(0));
        }
        // A piece without bytes only tells the end of a message.
        self.next = Some(number + u64::from(!piece.content.is_empty() || !self.is_stream));
        match self.framing {
            Framing::None => self.cut(stream, start, piece.ends),
            Framing::ZeroMq => {
                self.open.extend_from_slice(stream);
                self.frames()
            }
        }
    }

    /// Returns the rest of a message, after the last packet, if its end is not known.
    pub fn finish(&mut self) -> Option<Bytes> {
        let open = std::mem::take(&mut self.open);
        (self.framing == Framing::None && !open.is_empty()).then(|| open.into())
    }

    /// Adds bytes of a stream without frames, and returns the messages that end in them.
    fn cut(&mut self, stream: &[u8], start: Option<usize>, ends: bool) -> Vec<Bytes> {
        let (before, after) = stream.split_at(start.map_or(stream.len(), |start| start.min(stream.len())));
        let mut messages = Vec::new();
        self.open.extend_from_slice(before);
        if start.is_some() {
            messages.extend(self.finish());
        }
        self.open.extend_from_slice(after);
        if ends || self.open.len() as u64 > MAX_MESSAGE_LEN {
            messages.extend(self.finish());
        }
        messages
    }

    /// Takes the frames that are whole.
    fn frames(&mut self) -> Vec<Bytes> {
        let (mut messages, mut taken) = (Vec::new(), 0);
        loop {
            let rest = &self.open[taken..];
            match if self.is_stream { stream_frame(rest) } else { frame(rest) } {
                Frame::Whole { head, body } => {
                    messages.push(Bytes::copy_from_slice(&rest[head..head + body]));
                    taken += head + body;
                }
                Frame::Part => break,
                Frame::Wrong => {
                    (self.next, taken) = (None, self.open.len());
                    break;
                }
            }
        }
        self.open.drain(..taken);
        messages
    }
}

/// Begin of a stream.
enum Frame {
    /// A frame with these lengths of its head and its body.
    Whole { head: usize, body: usize },
    /// Part of a frame.
    Part,
    /// No frame that can be received.
    Wrong,
}

impl Frame {
    /// Frame with these lengths at the begin of a stream.
    fn of(stream: &[u8], head: usize, body: Option<u64>) -> Frame {
        let Some(body) = body.filter(|&body| body <= MAX_MESSAGE_LEN) else { return Frame::Wrong };
        let body = body as usize;
        if stream.len() < head + body { Frame::Part } else { Frame::Whole { head, body } }
    }
}

fn frame(stream: &[u8]) -> Frame {
    let (length_len, length) = match stream {
        [] => return Frame::Part,
        [LONG_FRAME, rest @ ..] => match rest.first_chunk() {
            Some(length) => (9, u64::from_be_bytes(*length)),
            None => return Frame::Part,
        },
        [length, ..] => (1, u64::from(*length)),
    };
    Frame::of(stream, length_len + 1, length.checked_sub(1))
}

fn stream_frame(stream: &[u8]) -> Frame {
    match stream {
        [_, flags, ..] if flags & !(LARGE | CONTINUED) != 0 => Frame::Wrong,
        [_, flags, rest @ ..] if flags & LARGE != 0 => match rest.first_chunk() {
            Some(length) => Frame::of(stream, 2 + length.len(), Some(u64::from_be_bytes(*length))),
            None => Frame::Part,
        },
        [_, _, length, ..] => Frame::of(stream, 3, Some((*length).into())),
        _ => Frame::Part,
    }
}

/// Bytes of the offset before each packet's part of the stream.
const OFFSET_LEN: usize = 2;
/// Offset of a packet in which no frame begins.
const NO_OFFSET: u16 = 0xffff;
/// First byte of a frame with a length of eight bytes.
const LONG_FRAME: u8 = 0xff;
/// Maximum bytes before the body of a frame.
const MAX_HEAD_LEN: usize = 10;
/// Maximum bytes before the body of a frame of a stream.
const MAX_STREAM_HEAD_LEN: usize = 10;
/// Byte before the first frame of a message in a stream.
const FIRST_FRAME: u8 = 0;
/// Flag of a frame that the message continues in the next frame.
const CONTINUED: u8 = 1;
/// Flag of a frame with a length of eight bytes.
const LARGE: u8 = 2;
/// Maximum bytes of a received message.
const MAX_MESSAGE_LEN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;

    fn packed(messages: &[Vec<u8>], limit: usize) -> Vec<Bytes> {
        packed_as(Framing::ZeroMq, PlainContents::Messages, messages, limit)
    }

    fn packed_as(
        framing: Framing,
        contents: PlainContents,
        messages: &[Vec<u8>],
        limit: usize,
    ) -> Vec<Bytes> {
        let (mut packer, mut packets) = (Packer::new(framing, contents, limit), VecDeque::new());
        messages.iter().for_each(|message| packer.add(message.clone(), &mut packets));
        packer.flush(&mut packets);
        packets.into()
    }

    fn random(rng: &mut Rng, below: u64) -> Vec<u8> {
        (0..rng.below(below)).map(|_| rng.below(256) as u8).collect()
    }

    /// Frames like those in a capture of ZeroMQ 4.3.4.
    #[test]
    fn frames_are_those_of_zeromq() {
        assert_eq!(packed(&[b"ab".to_vec()], 100), [&b"\0\0\x03\0ab"[..]]);
        let long = packed(&[vec![7; 254]], 300);
        assert_eq!(long[0][..13], [0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 7]);
        assert_eq!(packed(&[vec![7; 253]], 300)[0][..5], [0, 0, 254, 0, 7]);
        let cut = packed(&[vec![7; 10]], 10);
        assert_eq!(cut, [&[0, 0, 11, 0, 7, 7, 7, 7, 7, 7][..], &[0xff, 0xff, 7, 7, 7, 7]]);
    }

    /// The first frame in a capture of ZeroMQ 4.3.4 on norm://, and a long one.
    #[test]
    fn frames_in_a_stream_are_those_of_zeromq() {
        let packed = |length: usize| {
            let messages = [vec![b'm'; length]];
            packed_as(Framing::ZeroMq, PlainContents::FilesOrStream, &messages, 1400)
        };
        let piece = StreamPiece::parse(packed(215)[0].clone()).expect("a piece");
        assert_eq!((piece.start, piece.ends, &piece.content[..5]), (Some(0), true, &b"\0\0\xd7mm"[..]));
        let piece = StreamPiece::parse(packed(300)[0].clone()).expect("a piece");
        assert_eq!(piece.content[..11], [0, 2, 0, 0, 0, 0, 0, 0, 1, 44, b'm']);
    }

    #[test]
    fn empty_piece_ends_a_message_of_full_packets() {
        let mut unpacker = Unpacker::new(Framing::None, PlainContents::FilesOrStream).expect("it has work");
        let mut add = |number, start, ends, content: &'static [u8]| {
            let content = Bytes::from_static(content);
            unpacker.add(number, &StreamPiece { start, ends, content }.into_message())
        };
        assert_eq!(add(3, None, false, b"late"), [&b""[..]; 0], "a message begins in no packet yet");
        assert_eq!(add(4, Some(2), false, b"__one"), [&b""[..]; 0]);
        assert_eq!(add(5, None, false, b"and"), [&b""[..]; 0]);
        assert_eq!(add(6, None, true, b""), [&b"oneand"[..]]);
        assert_eq!(add(6, Some(0), false, b"two"), [&b""[..]; 0]);
        assert_eq!(add(7, Some(1), true, b"!three"), [&b"two!"[..], b"three"]);
        assert_eq!(add(9, None, true, b"lost"), [&b""[..]; 0]);
        assert_eq!(add(10, Some(0), true, b"four"), [&b"four"[..]]);
    }

    #[test]
    fn messages_survive_packing_and_losses_take_only_their_own() {
        let mut rng = Seeds::new(1).stream("framing");
        let (mut came, mut lost) = (0, 0);
        let ways = [
            (Framing::ZeroMq, PlainContents::Messages),
            (Framing::ZeroMq, PlainContents::FilesOrStream),
            (Framing::None, PlainContents::FilesOrStream),
        ];
        for round in 0..600 {
            let (framing, contents) = ways[round % ways.len()];
            let unpacker = || Unpacker::new(framing, contents).expect("it has work");
            let messages: Vec<Vec<u8>> = (0..rng.below(20))
                .map(|number| [vec![number as u8], random(&mut rng, 700)].concat())
                .collect();
            let packets = packed_as(framing, contents, &messages, 16 + rng.below(300) as usize);
            let (mut whole, mut with_losses) = (unpacker(), unpacker());
            let mut all: Vec<Bytes> =
                (5..).zip(&packets).flat_map(|(number, packet)| whole.add(number, packet)).collect();
            all.extend(whole.finish());
            assert_eq!(all, messages);
            let mut from = 0;
            for (number, packet) in (5..).zip(&packets) {
                if rng.chance(0.1) {
                    lost += 1;
                    continue;
                }
                for message in with_losses.add(number, packet) {
                    // The end of a message without a frame may be lost unnoticed.
                    let is_cut = framing == Framing::None;
                    let at = messages[from..]
                        .iter()
                        .position(|one| *one == message || is_cut && one.starts_with(&message));
                    from += at.expect("no message that was not sent, and none out of order") + 1;
                    came += 1;
                }
            }
        }
        assert!(came > 1000 && lost > 100, "{came} messages, {lost} losses");
    }

    #[test]
    fn any_bytes_are_safe_and_bounded() {
        let mut rng = Seeds::new(2).stream("framing");
        let mut unpacker = Unpacker::new(Framing::ZeroMq, PlainContents::Messages).expect("it has work");
        for number in 0..20_000 {
            let packet = random(&mut rng, 40);
            unpacker.add(number, &packet.into());
            assert!(unpacker.open.len() <= MAX_MESSAGE_LEN as usize + 100);
        }
        assert_eq!(
            unpacker.add(0, &Bytes::from_static(&[0, 0, 0, 1])).len(),
            0,
            "a length of 0 has no room for the flags"
        );
        assert_eq!(unpacker.next, None);
        assert_eq!(unpacker.add(1, &Bytes::from_static(&[0, 0, 2, 0, 9])), [&[9][..]]);
    }
}
