//! Expected fields of a packet, from the decoders of the crates.

use std::collections::BTreeMap;

use carillon_wire::session::{Body, Cookie, Invite, MemberRole, Origin, Peer, RefuseReason, State};
use carillon_wire::{carillon, rra, session};

use super::hex;

/// Values by the dissector's names of their fields, in the order in which they stand in the packet.
pub type Fields = BTreeMap<&'static str, Vec<String>>;

/// Names of all fields. Fields that a packet does not have are not shown.
pub const NAMES: &[&str] = &[
    "carillon.association",
    "carillon.padding",
    "carillon.rest",
    "carillon.session.type",
    "carillon.session.state",
    "carillon.session.protocol_len",
    "carillon.session.reason_len",
    "carillon.session.settings_len",
    "carillon.session.name_len",
    "carillon.session.text_len",
    "carillon.session.max_payload",
    "carillon.session.progress_interval",
    "carillon.session.relays",
    "carillon.session.longest",
    "carillon.session.least",
    "carillon.session.protocol",
    "carillon.session.setting",
    "carillon.session.reason",
    "carillon.session.nonce",
    "carillon.session.receive_buffer",
    "carillon.session.part",
    "carillon.session.largest",
    "carillon.session.name",
    "carillon.session.attached",
    "carillon.session.cookie",
    "carillon.session.job",
    "carillon.session.job_name",
    "carillon.session.list",
    "carillon.session.question",
    "carillon.session.answer_len",
    "carillon.session.answer_offset",
    "carillon.session.holdings",
    "carillon.session.answered",
    "carillon.session.process",
    "carillon.session.place",
    "carillon.session.origin_flags",
    "carillon.session.member",
    "carillon.session.terms",
    "carillon.session.refused",
    "carillon.session.text",
    "carillon.session.bytes",
    "carillon.session.verdict",
    "carillon.session.edition",
    "carillon.session.total",
    "carillon.session.first",
    "carillon.session.count",
    "carillon.session.identity",
    "carillon.session.flags",
    "carillon.session.parent",
    "carillon.session.proof",
    "carillon.session.token",
    "carillon.session.distances",
    "carillon.session.rank",
    "carillon.session.micros",
    "carillon.own.type",
    "carillon.own.sequence",
    "carillon.own.index",
    "carillon.own.block",
    "carillon.own.length",
    "carillon.own.count",
    "carillon.own.number",
    "carillon.own.planned",
    "carillon.own.more",
    "carillon.own.message",
    "carillon.own.symbol",
    "carillon.own.sum",
    "carillon.own.next",
    "carillon.own.first",
    "carillon.own.question",
    "carillon.own.after",
    "carillon.own.span",
    "carillon.own.blocks",
    "carillon.own.asked",
    "carillon.own.identity",
    "carillon.own.expected",
    "carillon.own.arrived",
    "carillon.own.room",
    "carillon.own.lacks",
    "carillon.own.form",
    "carillon.own.words",
    "carillon.own.map",
    "carillon.own.places",
    "carillon.own.place",
    "carillon.rra.type",
    "carillon.rra.sequence",
    "carillon.rra.first",
    "carillon.rra.acker",
    "carillon.rra.question",
    "carillon.rra.message",
    "carillon.rra.expected",
    "carillon.rra.arrived",
    "carillon.rra.room",
    "carillon.rra.words",
    "carillon.rra.map",
];

/// Expected fields of a packet of the session, of `carillon` or of `rra`, or the decoding error. `None` for other
/// protocols.
pub fn shown(bytes: &[u8]) -> Option<Result<Fields, String>> {
    let read = match bytes {
        [0xCA, 1 | 2, 0, ..] => return None,
        [0xCA, _, 0, ..] => of_session(bytes),
        [0xCA, _, 3, ..] => of_rra(bytes),
        [0xCA, _, 50, ..] => of_carillon(bytes),
        _ => return None,
    };
    Some(read.map(|fields| fields.0))
}

#[derive(Default)]
struct Shown(Fields);

impl Shown {
    fn with(&mut self, name: &'static str, value: impl ToString) -> &mut Self {
        assert!(NAMES.contains(&name), "{name}");
        self.0.entry(name).or_default().push(value.to_string());
        self
    }

    /// Adds a text; an empty one is not shown.
    fn text(&mut self, name: &'static str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.with(name, text) }
    }

    fn bytes(&mut self, name: &'static str, bytes: &[u8]) -> &mut Self {
        if bytes.is_empty() { self } else { self.with(name, hex(bytes)) }
    }

    fn named(&mut self, name: &str) -> &mut Self {
        self.with("carillon.session.name_len", name.len()).text("carillon.session.name", name)
    }

    fn said(&mut self, text: &str) -> &mut Self {
        self.with("carillon.session.text_len", text.len()).text("carillon.session.text", text)
    }
}

fn state(state: State) -> u8 {
    match state {
        State::Gathering => 0,
        State::Running => 1,
        State::Closing => 2,
        State::Finished => 3,
        State::Aborted => 4,
        State::Assembling => 5,
    }
}

fn part(part: MemberRole) -> u8 {
    match part {
        MemberRole::Receives => 0,
        MemberRole::Offers => 1,
        MemberRole::Helps => 2,
        MemberRole::ReceivesAndHelps => 3,
    }
}

fn reason(reason: RefuseReason) -> u8 {
    match reason {
        RefuseReason::AlreadyStarted => 1,
        RefuseReason::NameTaken => 2,
        RefuseReason::NotExpected => 3,
        RefuseReason::Full => 4,
        RefuseReason::Expelled => 5,
        RefuseReason::Nonce => 6,
        RefuseReason::Later => 7,
        RefuseReason::Done => 8,
    }
}

fn of_session(bytes: &[u8]) -> Result<Shown, String> {
    let packet = session::Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut to = Shown::default();
    to.with("carillon.session.type", bytes[3]).with("carillon.association", packet.association.0);
    let (nonce, bytes, edition) =
        ("carillon.session.nonce", "carillon.session.bytes", "carillon.session.edition");
    match packet.body {
        Body::Invite(Invite {
            state: phase,
            max_payload,
            progress_interval,
            relays,
            sizes,
            protocol,
            sender,
            settings,
            reason,
            job,
            asks: _,
            job_name,
        }) => {
            to.with("carillon.session.state", state(phase));
            to.with("carillon.session.protocol_len", protocol.len());
            to.with("carillon.session.reason_len", reason.len());
            to.with("carillon.session.max_payload", max_payload);
            to.with("carillon.session.settings_len", settings.len());
            to.with("carillon.session.progress_interval", progress_interval);
            to.with("carillon.session.relays", u8::from(relays));
            to.with("carillon.session.longest", sizes.longest).with("carillon.session.least", sizes.least);
            to.named(&sender).text("carillon.session.protocol", &protocol);
            for (key, value) in settings.pairs() {
                to.with("carillon.session.setting", format_args!("{key}={value}"));
            }
            to.text("carillon.session.reason", &reason);
            if let Some(job) = job {
                to.bytes("carillon.session.job", &job.0);
            }
            if let Some(name) = job_name {
                to.text("carillon.session.job_name", &name);
            }
        }
        Body::Join {
            nonce: own,
            receive_buffer,
            part: does,
            largest,
            name,
            attached,
            cookie,
            origin,
            list,
        } => {
            to.with(nonce, own.0).with("carillon.session.receive_buffer", receive_buffer);
            to.with("carillon.session.part", part(does));
            to.with("carillon.session.largest", largest).named(&name);
            if !attached.bytes().is_empty() {
                to.bytes("carillon.session.attached", attached.bytes());
            }
            if let Some(Cookie(cookie)) = cookie {
                to.with("carillon.session.cookie", cookie);
            }
            if let Some(Origin { process, place, resumes, is_done }) = origin {
                to.with("carillon.session.process", process).with("carillon.session.place", place);
                to.with("carillon.session.origin_flags", u8::from(resumes) + 2 * u8::from(is_done));
            }
            if let Some(list) = list {
                to.bytes("carillon.session.list", &list.0);
            }
        }
        Body::Challenge { nonce: own, cookie } => {
            to.with(nonce, own.0).with("carillon.session.cookie", cookie.0);
        }
        Body::Welcome { nonce: own, member, terms } => {
            to.with(nonce, own.0).with("carillon.session.member", member);
            to.with("carillon.session.terms", terms.0);
        }
        Body::Refuse { nonce: own, reason: why, text } => {
            to.with(nonce, own.0).with("carillon.session.refused", reason(why)).said(&text);
        }
        Body::Progress { nonce: own, bytes: so_far } => _ = to.with(nonce, own.0).with(bytes, so_far),
        Body::Report { nonce: own, bytes: all, verdict, text } => {
            to.with(nonce, own.0).with(bytes, all);
            to.with("carillon.session.verdict", verdict as u8).said(&text);
        }
        Body::ReportAck { nonce: own } | Body::Ask { nonce: own } => _ = to.with(nonce, own.0),
        Body::Leave { nonce: own, text } => _ = to.with(nonce, own.0).said(&text),
        Body::Roster(page) => {
            to.with(edition, page.edition).with("carillon.session.total", page.total);
            to.with("carillon.session.first", page.first).with("carillon.session.count", page.peers.len());
            for Peer { identity, part, gone, parent, name } in page.peers.iter() {
                let flags = [
                    (part.offers(), 1),
                    (gone, 2),
                    (part.helps(), 4),
                    (parent > 0, 8),
                    (part == MemberRole::ReceivesAndHelps, 16),
                ];
                let flags: u8 = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag).sum();
                to.with("carillon.session.identity", identity.0).with("carillon.session.flags", flags);
                if parent > 0 {
                    to.with("carillon.session.parent", parent);
                }
                to.named(&name);
            }
        }
        Body::Present { proof } => _ = to.with("carillon.session.proof", proof.0),
        Body::Ready { nonce: own, edition: which } => _ = to.with(nonce, own.0).with(edition, which),
        Body::Decline { name, text } => {
            to.with("carillon.session.name_len", name.len()).with("carillon.session.text_len", text.len());
            to.text("carillon.session.name", &name).text("carillon.session.text", &text);
        }
        Body::Answer { nonce: own, state: phase, terms, text } => {
            to.with(nonce, own.0).with("carillon.session.state", state(phase));
            to.with("carillon.session.terms", terms.0).said(&text);
        }
        Body::Measure { edition: which } => _ = to.with(edition, which),
        Body::Probe { token } | Body::Echo { token } => _ = to.with("carillon.session.token", token),
        Body::Distances { nonce: own, edition: which, distances } => {
            to.with(nonce, own.0).with(edition, which);
            to.with("carillon.session.distances", distances.iter().count());
            for one in distances.iter() {
                to.with("carillon.session.rank", one.rank).with("carillon.session.micros", one.micros);
            }
        }
        Body::Holdings { nonce: own, part } => {
            to.with(nonce, own.0).with("carillon.session.question", part.question);
            to.with("carillon.session.answer_len", part.total);
            to.with("carillon.session.answer_offset", part.offset)
                .bytes("carillon.session.holdings", part.bytes);
        }
        Body::HoldingsAck { nonce: own, question, bytes: so_far } => {
            to.with(nonce, own.0).with("carillon.session.question", question);
            to.with("carillon.session.answered", so_far);
        }
        Body::Size(padding) => _ = to.bytes("carillon.padding", &vec![0; padding.0]),
    }
    Ok(to)
}

fn of_carillon(bytes: &[u8]) -> Result<Shown, String> {
    use carillon::{CodedBlock, Packet, Poll, Status};
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut to = Shown::default();
    to.with("carillon.own.type", bytes[3]).with("carillon.association", association.0);
    let (block, of, count) = ("carillon.own.block", "carillon.own.length", "carillon.own.count");
    // Polls and statuses may be followed by padding.
    let padding = bytes.get(packet.wire_len()..).unwrap_or_default();
    match packet {
        Packet::Data { sequence, index, length, count: sent, payload } => {
            to.with("carillon.own.sequence", sequence).with("carillon.own.index", index);
            to.with(of, length).with(count, sent).bytes("carillon.own.message", payload);
        }
        Packet::Repair {
            block: CodedBlock { first, length, planned },
            number,
            count: sent,
            more,
            symbol,
        } => {
            to.with(block, first).with(of, length).with("carillon.own.number", number);
            to.with("carillon.own.planned", planned).with(count, sent).with("carillon.own.more", more);
            to.bytes("carillon.own.symbol", symbol);
        }
        Packet::Xor { first, length, count: sent, places, sum } => {
            to.with(block, first).with(of, length).with(count, sent);
            to.with("carillon.own.places", places.as_slice().len());
            places.as_slice().iter().for_each(|place| _ = to.with("carillon.own.place", place));
            to.bytes("carillon.own.sum", sum);
        }
        Packet::Poll { poll: Poll { next, first, question, after, span }, blocks, asked } => {
            to.with("carillon.own.next", next).with("carillon.own.first", first);
            to.with("carillon.own.question", question).with("carillon.own.after", after);
            to.with("carillon.own.span", span).with("carillon.own.blocks", blocks.count());
            to.with("carillon.own.asked", asked.count());
            for one in blocks.iter() {
                to.with(block, one.first).with(of, one.length).with(count, one.count);
            }
            asked.iter().for_each(|identity| _ = to.with("carillon.own.identity", identity));
            to.bytes("carillon.padding", padding);
        }
        Packet::Status { status: Status { expected, question, arrived, room }, lacking } => {
            to.with("carillon.own.expected", expected).with("carillon.own.question", question);
            to.with("carillon.own.arrived", arrived).with("carillon.own.room", room);
            to.with("carillon.own.blocks", lacking.count());
            for one in lacking.iter() {
                to.with(block, one.first).with(count, one.count).with("carillon.own.lacks", one.lacks);
                to.with("carillon.own.form", u8::from(one.plain))
                    .with("carillon.own.words", one.missing.count());
                one.missing.words().for_each(|word| _ = to.with("carillon.own.map", word));
            }
            to.bytes("carillon.padding", padding);
        }
    }
    Ok(to)
}

fn of_rra(bytes: &[u8]) -> Result<Shown, String> {
    use rra::Packet;
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut to = Shown::default();
    to.with("carillon.rra.type", bytes[3]).with("carillon.association", association.0);
    let padding = bytes.get(packet.wire_len()..).unwrap_or_default();
    match packet {
        Packet::Data { sequence, first, asks, payload } => {
            to.with("carillon.rra.sequence", sequence).with("carillon.rra.first", first);
            to.with("carillon.rra.acker", asks.map_or(0, |asks| asks.acker));
            to.with("carillon.rra.question", asks.map_or(0, |asks| asks.question));
            to.bytes("carillon.rra.message", payload);
        }
        Packet::Poll { sequence, first, asks } => {
            to.with("carillon.rra.sequence", sequence).with("carillon.rra.first", first);
            to.with("carillon.rra.acker", asks.acker).with("carillon.rra.question", asks.question);
            to.bytes("carillon.padding", padding);
        }
        Packet::Ack { expected, question, arrived, room, received } => {
            to.with("carillon.rra.expected", expected).with("carillon.rra.question", question);
            to.with("carillon.rra.arrived", arrived).with("carillon.rra.room", room);
            to.with("carillon.rra.words", received.count());
            received.words().for_each(|word| _ = to.with("carillon.rra.map", word));
            to.bytes("carillon.padding", padding);
        }
    }
    Ok(to)
}
