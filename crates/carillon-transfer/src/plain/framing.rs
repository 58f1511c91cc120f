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

use std::collections::VecDeque;
use std::str::FromStr;

use carillon_core::Bytes;

/// Framing of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// A message is the data of a packet, or of several where the standard has fragments.
    #[default]
    None,
    /// Frames of ZeroMQ, as PUB and SUB sockets of `epgm://` exchange them.
    ZeroMq,
}

impl FromStr for Framing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Framing::None),
            "zeromq" => Ok(Framing::ZeroMq),
            _ => Err("expected none or zeromq".to_owned()),
        }
    }
}

/// Makes packets of messages.
#[derive(Debug)]
pub(super) struct Packer {
    framing: Framing,
    /// Maximum bytes of a packet.
    limit: usize,
    /// Packet that is not full yet, without its offset.
    open: Vec<u8>,
    /// Offset of the first frame that begins in the open packet.
    first: Option<u16>,
}

impl Packer {
    pub fn new(framing: Framing, limit: usize) -> Self {
        Packer { framing, limit, open: Vec::new(), first: None }
    }

    /// Maximum bytes of a message that fits one packet, whatever its length.
    pub fn whole_message(&self) -> usize {
        match self.framing {
            Framing::None => self.limit,
            Framing::ZeroMq => self.limit.saturating_sub(OFFSET_LEN + MAX_HEAD_LEN),
        }
    }

    /// Adds a message, and appends the packets that are full.
    pub fn add(&mut self, message: Vec<u8>, packets: &mut VecDeque<Bytes>) {
        if self.framing == Framing::None {
            return packets.push_back(message.into());
        }
        let length = message.len() as u64 + 1;
        let mut head = match u8::try_from(length) {
            Ok(short) if short != LONG_FRAME => vec![short],
            _ => [&[LONG_FRAME][..], &length.to_be_bytes()].concat(),
        };
        head.push(0);
        // A frame that would not fit begins in a packet of its own, so that most losses concern one message.
        if head.len() + message.len() > self.room() && head.len() + message.len() <= self.limit - OFFSET_LEN {
            self.flush(packets);
        }
        if self.room() == 0 {
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
    }

    /// Appends the packet that is not full yet, if there is one.
    pub fn flush(&mut self, packets: &mut VecDeque<Bytes>) {
        if !self.open.is_empty() {
            let offset = self.first.take().unwrap_or(NO_OFFSET).to_be_bytes();
            packets.push_back([&offset[..], &self.open].concat().into());
            self.open.clear();
        }
    }

    /// Bytes that the open packet still takes.
    fn room(&self) -> usize {
        (self.limit - OFFSET_LEN).saturating_sub(self.open.len())
    }
}

/// Takes the messages of one source out of its packets.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    /// Number of the next packet, if the place in the stream is known.
    next: Option<u64>,
    /// Begin of a frame.
    open: Vec<u8>,
}

impl Unpacker {
    /// Adds a packet, and returns the messages that it completes. After a lost packet, and after bytes that are no
    /// frame, it goes on with the next packet in which a frame begins.
    pub fn add(&mut self, number: u64, packet: &[u8]) -> Vec<Bytes> {
        let (mut messages, Some((offset, stream))) = (Vec::new(), packet.split_first_chunk()) else {
            self.next = None;
            return Vec::new();
        };
        let offset = u16::from_be_bytes(*offset);
        let stream = match self.next == Some(number) {
            true => Some(stream),
            false => {
                self.open.clear();
                if offset == NO_OFFSET { None } else { stream.get(offset.into()..) }
            }
        };
        self.next = stream.map(|_| number + 1);
        let Some(stream) = stream else { return messages };
        self.open.extend_from_slice(stream);
        let mut taken = 0;
        loop {
            let rest = &self.open[taken..];
            match frame(rest) {
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

fn frame(stream: &[u8]) -> Frame {
    let (length_len, length) = match stream {
        [] => return Frame::Part,
        [LONG_FRAME, rest @ ..] => match rest.first_chunk() {
            Some(length) => (9, u64::from_be_bytes(*length)),
            None => return Frame::Part,
        },
        [length, ..] => (1, u64::from(*length)),
    };
    let Some(body) = length.checked_sub(1).filter(|&body| body <= MAX_MESSAGE_LEN) else {
        return Frame::Wrong;
    };
    let (head, body) = (length_len + 1, body as usize);
    if stream.len() < head + body { Frame::Part } else { Frame::Whole { head, body } }
}

/// Bytes of the offset before each packet's part of the stream.
const OFFSET_LEN: usize = 2;
/// Offset of a packet in which no frame begins.
const NO_OFFSET: u16 = 0xffff;
/// First byte of a frame with a length of eight bytes.
const LONG_FRAME: u8 = 0xff;
/// Maximum bytes before the body of a frame.
const MAX_HEAD_LEN: usize = 10;
/// Maximum bytes of a received message.
const MAX_MESSAGE_LEN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;

    fn packed(messages: &[Vec<u8>], limit: usize) -> Vec<Bytes> {
        let (mut packer, mut packets) = (Packer::new(Framing::ZeroMq, limit), VecDeque::new());
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

    #[test]
    fn messages_survive_packing_and_losses_take_only_their_own() {
        let mut rng = Seeds::new(1).stream("framing");
        let (mut came, mut lost) = (0, 0);
        for _ in 0..500 {
            let messages: Vec<Vec<u8>> = (0..rng.below(20))
                .map(|number| [vec![number as u8], random(&mut rng, 700)].concat())
                .collect();
            let packets = packed(&messages, 16 + rng.below(300) as usize);
            let (mut whole, mut with_losses) = (Unpacker::default(), Unpacker::default());
            let all: Vec<Bytes> =
                (5..).zip(&packets).flat_map(|(number, packet)| whole.add(number, packet)).collect();
            assert_eq!(all, messages);
            let mut from = 0;
            for (number, packet) in (5..).zip(&packets) {
                if rng.chance(0.1) {
                    lost += 1;
                    continue;
                }
                for message in with_losses.add(number, packet) {
                    let at = messages[from..].iter().position(|one| *one == message);
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
        let mut unpacker = Unpacker::default();
        for number in 0..20_000 {
            let packet = random(&mut rng, 40);
            unpacker.add(number, &packet);
            assert!(unpacker.open.len() <= MAX_MESSAGE_LEN as usize + 100);
        }
        assert_eq!(unpacker.add(0, &[0, 0, 0, 1]).len(), 0, "a length of 0 has no room for the flags");
        assert_eq!(unpacker.next, None);
        assert_eq!(unpacker.add(1, &[0, 0, 2, 0, 9]), [&[9][..]]);
    }
}
