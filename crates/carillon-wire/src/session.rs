//! The session: the opening and closing exchange shared by protocols that need a member list.
//!
//! Every packet stands behind the [common envelope](crate::envelope) with the protocol number
//! `SESSION`; the figures show what follows it. Texts are UTF-8 without hidden characters. A
//! datagram ends with the last field of its packet: bytes after it are refused, so that what parses
//! is emitted again byte for byte.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!
//! INVITE (1), sender to group: the opening with the sender's name, then
//! +---------------+---------------+---------------+---------------+
//! |     state     | protocol len  |  reason len   |    relays     |
//! +---------------+---------------+---------------+---------------+
//! |                          max payload                          |
//! +-------------------------------+-------------------------------+
//! |         settings len          |     progress interval, ms     |
//! +-------------------------------+-------------------------------+
//! |       longest datagram        |        least datagram         |
//! +-------------------------------+-------------------------------+
//! |  protocol name, settings ("key=value" lines parted by line
//! +---------------------------------------------------------------+
//!    feeds), reason, extensions                                   |
//! +---------------------------------------------------------------+
//!
//! JOIN (2), receiver to sender: the opening with the receiver's name, then
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                     receive buffer, bytes                     |
//! +---------------+-------------------------------+---------------+
//! |     part      |    largest datagram heard     |  extensions ...
//! +---------------+-------------------------------+---------------+
//!    part: 0 receives, 1 offers too, 2 only helps, 3 receives and helps
//!
//! WELCOME (3), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                         member number                         |
//! +---------------------------------------------------------------+
//! |                             terms                             |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! REFUSE (4), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |    reason     |   text len    |  text ...
//! +---------------+---------------+-------------------------------+
//!
//! PROGRESS (5), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                         bytes so far                          |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! REPORT (6), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                             bytes                             |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |    verdict    |   text len    |  text ...
//! +---------------+---------------+-------------------------------+
//!
//! REPORT_ACK (7), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! LEAVE (8), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+-----------------------------------------------+
//! |   text len    |  text ...
//! +---------------+-----------------------------------------------+
//!
//! ROSTER (9), sender to group, where members are peers, or helpers may be among them
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +-------------------------------+-------------------------------+
//! |             total             |             first             |
//! +-------------------------------+-------------------------------+
//! |             count             |  for each member from the rank
//! +-------------------------------+
//!    `first` on: identity, 8 bytes; flags 1 byte (1: offers,
//!    2: gone, 4: helps, 8: turns to a helper, 16 beside 4: receives); with flag 8 that
//!    helper's rank, 2 bytes; name len 1 byte; name ...            |
//! +---------------------------------------------------------------+
//!
//! PRESENT (10), member to group
//! +---------------------------------------------------------------+
//! |                           proof                               |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! READY (11), member to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +---------------------------------------------------------------+
//!
//! DECLINE (12), receiver to sender: the opening with the receiver's name, then
//! +---------------+-----------------------------------------------+
//! |   text len    |  text, extensions                             |
//! +---------------+-----------------------------------------------+
//!
//! ASK (13), receiver to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! ANSWER (14), sender to receiver
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------+---------------+-------------------------------+
//! |     state     |  terms, 8 bytes
//! +---------------+-----------------------------------------------+
//! |   text len    |  text ...
//! +---------------+-----------------------------------------------+
//!
//! MEASURE (15), sender to group: edition, 4 bytes
//! PROBE (16), member to member or sender: token, 8 bytes
//! ECHO (17), back to it: token, 8 bytes
//!
//! DISTANCES (18), member to sender
//! +---------------------------------------------------------------+
//! |                            nonce                              |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                            edition                            |
//! +---------------+-----------------------------------------------+
//! |     count     |  for each: rank, 2 bytes; microseconds, 4 bytes
//! +---------------+-----------------------------------------------+
//!
//! SIZE (19), sender to group: zeros, as many as make a datagram of the size that is shown
//!
//! CHALLENGE (20), sender to receiver: nonce, 8 bytes; cookie, 8 bytes
//! ```
//!
//! The opening is 6 bytes and a name, see [`Opening`]; like the envelope it never changes again. Extensions are typed fields
//! of which a node skips unknown ones unless their type forbids it: 1 is the job of an INVITE (16 bytes), 2 is what an
//! application attaches to a JOIN (1 to 288 bytes), 3 the cookie of the CHALLENGE that a JOIN answers (8 bytes), 4 whom a
//! JOIN speaks for ([`Origin`], 17 bytes).

use std::fmt;

use carillon_core::AssociationId;

use crate::ParseError;
use crate::envelope::{Envelope, protocol};
use crate::reader::Reader;
use extension::Extensions;

mod attachment;
mod datagram_sizes;
mod distances;
mod earlier_release;
mod extension;
mod job;
mod member_role;
mod opening;
mod origin;
mod peers;
mod state;
mod terms;
mod text;

pub use attachment::Attachment;
pub use datagram_sizes::{DatagramSizes, Padding};
pub use distances::{DistanceTo, Distances};
pub use earlier_release::{EarlierBody, EarlierPacket, emit_answer, emit_decline, emit_notices};
pub use job::JobId;
pub use member_role::MemberRole;
pub use opening::{Opening, OtherRelease, Release, WIRE_VERSION};
pub use origin::Origin;
pub use peers::{MAX_PEERS, Peer, PeerList, RosterPage};
pub use state::{RefuseReason, State, Verdict};
pub use terms::Terms;
pub use text::{Name, Settings, Text, is_hidden};

/// A packet of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The session it belongs to.
    pub association: AssociationId,
    /// What it says.
    pub body: Body<'a>,
}

/// What a packet of the session says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The sender invites the group, and later tells it that the session is alive.
    Invite(Invite<'a>),
    /// A receiver asks to be a member.
    Join {
        /// Drawn at random by the receiver; names it in all that follows.
        nonce: Nonce,
        /// Bytes the receiver can hold for an application that does not read them.
        receive_buffer: u32,
        /// What it will do.
        part: MemberRole,
        /// Bytes of the largest SIZE that has come; 0 if none was to be heard.
        largest: u16,
        /// The receiver's name.
        name: Name<'a>,
        /// What its application says to the sender's.
        attached: Attachment<'a>,
        /// The cookie of the CHALLENGE that it answers, if it answers one.
        cookie: Option<Cookie>,
        /// Whom it speaks for, in a session of a job.
        origin: Option<Origin>,
    },
    /// A receiver has to say again, with the cookie, that it wants to join: whoever does so receives at its address.
    Challenge {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Of this nonce, address and time.
        cookie: Cookie,
    },
    /// The receiver is a member.
    Welcome {
        /// The receiver's nonce.
        nonce: Nonce,
        /// The number the sender gave it.
        member: u32,
        /// To what it was invited.
        terms: Terms,
    },
    /// The receiver is not a member, or no longer.
    Refuse {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Why.
        reason: RefuseReason,
        /// Detail for people.
        text: Text<'a>,
    },
    /// The receiver is still busy with what has arrived.
    Progress {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Bytes it has dealt with so far.
        bytes: u64,
    },
    /// The receiver is done.
    Report {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Bytes it has dealt with.
        bytes: u64,
        /// Whether everything is there and verified.
        verdict: Verdict,
        /// Why not, if not.
        text: Text<'a>,
    },
    /// The sender has the report.
    ReportAck {
        /// The receiver's nonce.
        nonce: Nonce,
    },
    /// The receiver gives up.
    Leave {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Why.
        text: Text<'a>,
    },
    /// The sender tells the members who all of them are.
    Roster(RosterPage<'a>),
    /// A member makes itself heard, so that the others learn where it is.
    Present {
        /// From which the name in the roster is derived.
        proof: Proof,
    },
    /// The member knows all of the roster, and has heard all of them.
    Ready {
        /// The receiver's nonce.
        nonce: Nonce,
        /// Which roster.
        edition: u32,
    },
    /// The receiver was invited but does not take part.
    Decline {
        /// The receiver's name.
        name: Name<'a>,
        /// Why.
        text: Text<'a>,
    },
    /// The receiver heard in the group that the session is over: is it?
    Ask {
        /// The receiver's nonce.
        nonce: Nonce,
    },
    /// How far the session is.
    Answer {
        /// The receiver's nonce.
        nonce: Nonce,
        /// The sender's state.
        state: State,
        /// To what it was invited.
        terms: Terms,
        /// Why the session was aborted; empty in other states, and to those who are no members.
        text: Text<'a>,
    },
    /// The sender asks the members how far they are from those who help, and from it.
    Measure {
        /// By the ranks of which roster.
        edition: u32,
    },
    /// A member asks another, or the sender, to answer at once.
    Probe {
        /// Which probe it is.
        token: u64,
    },
    /// The answer.
    Echo {
        /// To which probe.
        token: u64,
    },
    /// The member has measured.
    Distances {
        /// The receiver's nonce.
        nonce: Nonce,
        /// By the ranks of which roster.
        edition: u32,
        /// To whom, and how far; who did not answer is not among them.
        distances: Distances<'a>,
    },
    /// A datagram of a certain size.
    Size(Padding),
}

/// What an INVITE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invite<'a> {
    /// How far the session is.
    pub state: State,
    /// The largest payload of one message; never zero.
    pub max_payload: u32,
    /// Milliseconds that a member lets pass between two PROGRESS.
    pub progress_interval: u16,
    /// Routers of the protocol may help, which are no members and speak to them.
    pub relays: bool,
    /// Which datagrams are shown.
    pub sizes: DatagramSizes,
    /// The protocol that carries the messages.
    pub protocol: Name<'a>,
    /// The sender's name.
    pub sender: Name<'a>,
    /// The protocol's settings.
    pub settings: Settings<'a>,
    /// Why the session was aborted; empty in other states.
    pub reason: Text<'a>,
    /// The job that the session belongs to.
    pub job: Option<JobId>,
}

/// Names one attempt of one receiver to join. A secret of the two: it goes by unicast only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce(pub u64);

/// What a sender gives to whoever wants to join, and wants back before it remembers anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Shows that an identity is one's own: what names a member in the group is derived from it, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proof(pub u64);

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names a member where all the group hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub u64);

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram, envelope included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (envelope, mut reader) = Reader::behind_envelope(protocol::SESSION, bytes)?;
        let body = match envelope.packet_type {
            packet_type::INVITE => Body::Invite(Invite::parse(&mut reader)?),
            packet_type::JOIN => {
                let name = Opening::parse(&mut reader)?.name;
                let (nonce, receive_buffer) = (reader.nonce()?, reader.u32()?);
                let part = MemberRole::parse(&mut reader)?;
                let largest = reader.u16()?;
                let (mut attached, mut cookie, mut origin) = (Attachment::default(), None, None);
                let mut extensions = Extensions::of(&mut reader);
                while let Some((kind, value)) = extensions.next()? {
                    match kind {
                        extension::ATTACHED => attached = Attachment::parse(value)?,
                        extension::COOKIE => cookie = Some(cookie_of(value)?),
                        extension::ORIGIN => origin = Some(Origin::parse(value)?),
                        unknown => extension::skip(unknown)?,
                    }
                }
                Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin }
            }
            packet_type::CHALLENGE => {
                Body::Challenge { nonce: reader.nonce()?, cookie: reader.u64().map(Cookie)? }
            }
            packet_type::WELCOME => {
                Body::Welcome { nonce: reader.nonce()?, member: reader.u32()?, terms: reader.terms()? }
            }
            packet_type::REFUSE => {
                let nonce = reader.nonce()?;
                let reason = RefuseReason::from_code(reader.u8()?)?;
                Body::Refuse { nonce, reason, text: reader.text()? }
            }
            packet_type::PROGRESS => Body::Progress { nonce: reader.nonce()?, bytes: reader.u64()? },
            packet_type::REPORT => {
                let (nonce, bytes) = (reader.nonce()?, reader.u64()?);
                let verdict = Verdict::from_code(reader.u8()?)?;
                Body::Report { nonce, bytes, verdict, text: reader.text()? }
            }
            packet_type::REPORT_ACK => Body::ReportAck { nonce: reader.nonce()? },
            packet_type::LEAVE => Body::Leave { nonce: reader.nonce()?, text: reader.text()? },
            packet_type::ROSTER => Body::Roster(RosterPage::parse(&mut reader)?),
            packet_type::PRESENT => Body::Present { proof: reader.u64().map(Proof)? },
            packet_type::READY => Body::Ready { nonce: reader.nonce()?, edition: reader.u32()? },
            packet_type::DECLINE => {
                let name = Opening::parse(&mut reader)?.name;
                let text = reader.text()?;
                Extensions::of(&mut reader).skip_all()?;
                Body::Decline { name, text }
            }
            packet_type::ASK => Body::Ask { nonce: reader.nonce()? },
            packet_type::ANSWER => {
                let nonce = reader.nonce()?;
                let state = State::from_code(reader.u8()?)?;
                Body::Answer { nonce, state, terms: reader.terms()?, text: reader.text()? }
            }
            packet_type::MEASURE => Body::Measure { edition: reader.u32()? },
            packet_type::PROBE => Body::Probe { token: reader.u64()? },
            packet_type::ECHO => Body::Echo { token: reader.u64()? },
            packet_type::DISTANCES => {
                let (nonce, edition) = (reader.nonce()?, reader.u32()?);
                Body::Distances { nonce, edition, distances: Distances::parse(&mut reader)? }
            }
            packet_type::SIZE => Body::Size(Padding::parse(&mut reader)?),
            other => return Err(ParseError::Type(other)),
        };
        reader.end("bytes after the packet")?;
        Ok(Packet { association: envelope.association, body })
    }

    /// Appends the packet, envelope included.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let association = self.association;
        Envelope { protocol: protocol::SESSION, packet_type: self.body.packet_type(), association }.emit(buf);
        match &self.body {
            Body::Invite(invite) => invite.emit(buf),
            Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin } => {
                Opening::of(*name).emit(buf);
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&receive_buffer.to_be_bytes());
                buf.push(part.code());
                buf.extend_from_slice(&largest.to_be_bytes());
                attached.emit(buf);
                if let Some(Cookie(cookie)) = cookie {
                    extension::put(buf, extension::COOKIE, &cookie.to_be_bytes());
                }
                if let Some(origin) = origin {
                    extension::put(buf, extension::ORIGIN, &origin.to_bytes());
                }
            }
            Body::Challenge { nonce, cookie } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&cookie.0.to_be_bytes());
            }
            Body::Welcome { nonce, member, terms } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&member.to_be_bytes());
                buf.extend_from_slice(&terms.0.to_be_bytes());
            }
            Body::Refuse { nonce, reason, text } => {
                put_nonce(buf, *nonce);
                buf.push(reason.code());
                put_text(buf, text);
            }
            Body::Progress { nonce, bytes } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&bytes.to_be_bytes());
            }
            Body::Report { nonce, bytes, verdict, text } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&bytes.to_be_bytes());
                buf.push(*verdict as u8);
                put_text(buf, text);
            }
            Body::ReportAck { nonce } => put_nonce(buf, *nonce),
            Body::Leave { nonce, text } => {
                put_nonce(buf, *nonce);
                put_text(buf, text);
            }
            Body::Roster(page) => page.emit(buf),
            Body::Present { proof } => buf.extend_from_slice(&proof.0.to_be_bytes()),
            Body::Ready { nonce, edition } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&edition.to_be_bytes());
            }
            Body::Decline { name, text } => {
                Opening::of(*name).emit(buf);
                put_text(buf, text);
            }
            Body::Ask { nonce } => put_nonce(buf, *nonce),
            Body::Answer { nonce, state, terms, text } => {
                put_nonce(buf, *nonce);
                buf.push(state.code());
                buf.extend_from_slice(&terms.0.to_be_bytes());
                put_text(buf, text);
            }
            Body::Measure { edition } => buf.extend_from_slice(&edition.to_be_bytes()),
            Body::Probe { token } | Body::Echo { token } => buf.extend_from_slice(&token.to_be_bytes()),
            Body::Distances { nonce, edition, distances } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&edition.to_be_bytes());
                distances.emit(buf);
            }
            Body::Size(padding) => padding.emit(buf),
        }
    }

    /// Bytes of the datagram.
    pub fn wire_len(&self) -> usize {
        Envelope::LEN
            + match &self.body {
                Body::Invite(invite) => invite.wire_len(),
                Body::Join { name, attached, cookie, origin, .. } => {
                    let cookie = cookie.map_or(0, |_| extension::len_of(8));
                    let origin = if origin.is_some() { extension::len_of(Origin::LEN) } else { 0 };
                    Opening::wire_len(name) + 8 + 4 + 1 + 2 + attached.wire_len() + cookie + origin
                }
                Body::Challenge { .. } => 8 + 8,
                Body::Welcome { .. } => 8 + 4 + 8,
                Body::Refuse { text, .. } => 8 + 1 + 1 + text.len(),
                Body::Progress { .. } => 8 + 8,
                Body::Report { text, .. } => 8 + 8 + 1 + 1 + text.len(),
                Body::ReportAck { .. } => 8,
                Body::Leave { text, .. } => 8 + 1 + text.len(),
                Body::Roster(page) => page.wire_len(),
                Body::Present { .. } => 8,
                Body::Ready { .. } => 8 + 4,
                Body::Decline { name, text } => Opening::wire_len(name) + 1 + text.len(),
                Body::Ask { .. } => 8,
                Body::Answer { text, .. } => 8 + 1 + 8 + 1 + text.len(),
                Body::Measure { .. } => 4,
                Body::Probe { .. } | Body::Echo { .. } => 8,
                Body::Distances { distances, .. } => 8 + 4 + distances.wire_len(),
                Body::Size(padding) => padding.0,
            }
    }
}

impl Body<'_> {
    fn packet_type(&self) -> u8 {
        match self {
            Body::Invite(_) => packet_type::INVITE,
            Body::Join { .. } => packet_type::JOIN,
            Body::Challenge { .. } => packet_type::CHALLENGE,
            Body::Welcome { .. } => packet_type::WELCOME,
            Body::Refuse { .. } => packet_type::REFUSE,
            Body::Progress { .. } => packet_type::PROGRESS,
            Body::Report { .. } => packet_type::REPORT,
            Body::ReportAck { .. } => packet_type::REPORT_ACK,
            Body::Leave { .. } => packet_type::LEAVE,
            Body::Roster(_) => packet_type::ROSTER,
            Body::Present { .. } => packet_type::PRESENT,
            Body::Ready { .. } => packet_type::READY,
            Body::Decline { .. } => packet_type::DECLINE,
            Body::Ask { .. } => packet_type::ASK,
            Body::Answer { .. } => packet_type::ANSWER,
            Body::Measure { .. } => packet_type::MEASURE,
            Body::Probe { .. } => packet_type::PROBE,
            Body::Echo { .. } => packet_type::ECHO,
            Body::Distances { .. } => packet_type::DISTANCES,
            Body::Size(_) => packet_type::SIZE,
        }
    }
}

impl<'a> Invite<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let sender = Opening::parse(reader)?.name;
        let state = State::from_code(reader.u8()?)?;
        let protocol_len = reader.u8()?;
        let reason_len = reader.u8()?;
        let relays = reader.flag("relays")?;
        let max_payload = reader.u32()?;
        let settings_len = reader.u16()?;
        let progress_interval = reader.u16()?;
        let sizes = DatagramSizes::parse(reader)?;
        if max_payload == 0 {
            return Err(ParseError::Field { field: "max_payload", value: 0 });
        }
        let mut invite = Invite {
            state,
            max_payload,
            progress_interval,
            relays,
            sizes,
            protocol: Name::parse("protocol", reader.bytes(protocol_len.into())?)?,
            sender,
            settings: Settings::parse("settings", reader.bytes(settings_len.into())?)?,
            reason: Text::parse("reason", reader.bytes(reason_len.into())?)?,
            job: None,
        };
        let mut extensions = Extensions::of(reader);
        while let Some((kind, value)) = extensions.next()? {
            match kind {
                extension::JOB => invite.job = Some(JobId::parse(value)?),
                unknown => extension::skip(unknown)?,
            }
        }
        Ok(invite)
    }

    fn emit(&self, buf: &mut Vec<u8>) {
        Opening::of(self.sender).emit(buf);
        // The text types bound every length below its field.
        buf.push(self.state.code());
        buf.push(self.protocol.len() as u8);
        buf.push(self.reason.len() as u8);
        buf.push(u8::from(self.relays));
        buf.extend_from_slice(&self.max_payload.to_be_bytes());
        buf.extend_from_slice(&(self.settings.len() as u16).to_be_bytes());
        buf.extend_from_slice(&self.progress_interval.to_be_bytes());
        self.sizes.emit(buf);
        for text in [&*self.protocol, &*self.settings, &*self.reason] {
            buf.extend_from_slice(text.as_bytes());
        }
        if let Some(job) = &self.job {
            extension::put(buf, extension::JOB, &job.0);
        }
    }

    fn wire_len(&self) -> usize {
        let texts = [&*self.protocol, &*self.settings, &*self.reason];
        let job = if self.job.is_some() { extension::len_of(JobId::LEN) } else { 0 };
        Opening::wire_len(&self.sender) + 4 + 4 + 2 + 2 + 4 + texts.map(str::len).iter().sum::<usize>() + job
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} ", self.association)?;
        match &self.body {
            Body::Invite(invite) => {
                let Invite { state, max_payload, progress_interval, relays, sizes, .. } = invite;
                let Invite { protocol, sender, settings, reason, .. } = invite;
                write!(f, "invite {state} from \"{sender}\" protocol {protocol} max payload {max_payload}")?;
                write!(f, " progress {progress_interval} ms")?;
                f.write_str(if *relays { " relays" } else { "" })?;
                write!(f, "{sizes}")?;
                for (key, value) in settings.pairs() {
                    write!(f, " {key}={value}")?;
                }
                if let Some(job) = &invite.job {
                    write!(f, " job {job}")?;
                }
                parenthesis(f, reason)
            }
            Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin } => {
                write!(f, "join {nonce} \"{name}\" receive buffer {receive_buffer}")?;
                f.write_str(part.text())?;
                if *largest > 0 {
                    write!(f, " largest datagram {largest}")?;
                }
                write!(f, "{attached}")?;
                cookie.map_or(Ok(()), |cookie| write!(f, " cookie {cookie}"))?;
                origin.map_or(Ok(()), |origin| write!(f, "{origin}"))
            }
            Body::Challenge { nonce, cookie } => write!(f, "challenge {nonce} cookie {cookie}"),
            Body::Welcome { nonce, member, terms } => {
                write!(f, "welcome {nonce} member {member} terms {terms}")
            }
            Body::Refuse { nonce, reason, text } => {
                write!(f, "refuse {nonce} {reason}")?;
                parenthesis(f, text)
            }
            Body::Progress { nonce, bytes } => write!(f, "progress {nonce} bytes {bytes}"),
            Body::Report { nonce, bytes, verdict, text } => {
                write!(f, "report {nonce} {verdict} bytes {bytes}")?;
                parenthesis(f, text)
            }
            Body::ReportAck { nonce } => write!(f, "report ack {nonce}"),
            Body::Leave { nonce, text } => {
                write!(f, "leave {nonce}")?;
                parenthesis(f, text)
            }
            Body::Roster(page) => page.fmt(f),
            Body::Present { proof } => write!(f, "present {proof}"),
            Body::Ready { nonce, edition } => write!(f, "ready {nonce} edition {edition}"),
            Body::Decline { name, text } => {
                write!(f, "decline \"{name}\"")?;
                parenthesis(f, text)
            }
            Body::Ask { nonce } => write!(f, "ask {nonce}"),
            Body::Answer { nonce, state, terms, text } => {
                write!(f, "answer {nonce} {state} terms {terms}")?;
                parenthesis(f, text)
            }
            Body::Measure { edition } => write!(f, "measure edition {edition}"),
            Body::Probe { token } => write!(f, "probe {token:016x}"),
            Body::Echo { token } => write!(f, "echo {token:016x}"),
            Body::Distances { nonce, edition, distances } => {
                write!(f, "distances {nonce} edition {edition}{distances}")
            }
            Body::Size(padding) => write!(f, "size {}", Envelope::LEN + padding.0),
        }
    }
}

fn parenthesis(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if text.is_empty() { Ok(()) } else { write!(f, " ({text})") }
}

fn cookie_of(value: &[u8]) -> Result<Cookie, ParseError> {
    let bytes =
        value.try_into().map_err(|_| ParseError::Field { field: "cookie", value: value.len() as u64 })?;
    Ok(Cookie(u64::from_be_bytes(bytes)))
}

fn put_nonce(buf: &mut Vec<u8>, nonce: Nonce) {
    buf.extend_from_slice(&nonce.0.to_be_bytes());
}

fn put_name(buf: &mut Vec<u8>, name: &Name<'_>) {
    // A name is shorter than 256 bytes by construction.
    buf.push(name.len() as u8);
    buf.extend_from_slice(name.as_bytes());
}

fn put_text(buf: &mut Vec<u8>, text: &Text<'_>) {
    // A text is shorter than 256 bytes by construction.
    buf.push(text.len() as u8);
    buf.extend_from_slice(text.as_bytes());
}

impl<'a> Reader<'a> {
    fn nonce(&mut self) -> Result<Nonce, ParseError> {
        self.u64().map(Nonce)
    }

    fn terms(&mut self) -> Result<Terms, ParseError> {
        self.u64().map(Terms)
    }

    fn identity(&mut self) -> Result<Identity, ParseError> {
        self.u64().map(Identity)
    }

    fn name(&mut self) -> Result<Name<'a>, ParseError> {
        let len = self.u8()?;
        Name::parse("name", self.bytes(len.into())?)
    }

    fn text(&mut self) -> Result<Text<'a>, ParseError> {
        let len = self.u8()?;
        Text::parse("text", self.bytes(len.into())?)
    }
}

mod packet_type {
    pub const INVITE: u8 = 0x01;
    pub const JOIN: u8 = 0x02;
    pub const WELCOME: u8 = 0x03;
    pub const REFUSE: u8 = 0x04;
    pub const PROGRESS: u8 = 0x05;
    pub const REPORT: u8 = 0x06;
    pub const REPORT_ACK: u8 = 0x07;
    pub const LEAVE: u8 = 0x08;
    pub const ROSTER: u8 = 0x09;
    pub const PRESENT: u8 = 0x0A;
    pub const READY: u8 = 0x0B;
    pub const DECLINE: u8 = 0x0C;
    pub const ASK: u8 = 0x0D;
    pub const ANSWER: u8 = 0x0E;
    pub const MEASURE: u8 = 0x0F;
    pub const PROBE: u8 = 0x10;
    pub const ECHO: u8 = 0x11;
    pub const DISTANCES: u8 = 0x12;
    pub const SIZE: u8 = 0x13;
    pub const CHALLENGE: u8 = 0x14;
}
