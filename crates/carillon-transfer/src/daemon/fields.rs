//! Events and reports of a session as fields of the frames EVENT, PART and REPORT.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_proto::find;
use carillon_session::UnservedReason;
use carillon_wire::daemon::{FieldList, Fields, Frame};

use super::connection::Connection;
use super::settings::nanos;
use crate::{
    HelperReport, JoinEvent, JoinReport, Omissions, Outcome, ReceiveEvent, ReceiveReport, ReceiverReport,
    SendEvent, SendReport, SenderReport, SentCounts, StreamPart, UnservedReport,
};

/// An event that the daemon forwards to a program, for its socket.
pub(crate) trait Event: Sized + Send + 'static {
    /// Writes the event as frames.
    fn tell(self, connection: &mut Connection);
    /// Parses an event. `names` collects name lists, which arrive one name per frame before their event; `None` until
    /// then.
    fn heard(fields: Fields<'_>, names: &mut Vec<String>) -> Option<Self>;
}

/// A report, transferred as PART frames and a REPORT frame.
pub(crate) trait Report: Sized + Send + 'static {
    /// Writes the report as frames.
    fn tell(self, connection: &mut Connection);
    /// Builds the report from its parts and the final fields.
    fn heard(parts: &Parts, rest: Fields<'_>) -> Self;
}

/// PART frames of a report received so far.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<Vec<(String, Vec<u8>)>>);

/// Maximum number of parts, above the number of members of any session.
const MAX_PARTS: usize = 1 << 17;

impl Parts {
    pub fn push(&mut self, fields: Fields<'_>) {
        if self.0.len() < MAX_PARTS {
            self.0.push(fields.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        }
    }

    /// Converts the parts of this kind.
    fn of<T>(&self, kind: &str, make: impl Fn(Fields<'_>) -> T) -> Vec<T> {
        let lists = self
            .0
            .iter()
            .map(|fields| fields.iter().fold(FieldList::new(), |list, (key, value)| list.with(key, value)));
        lists.filter(|list| list.fields().text("is") == Some(kind)).map(|list| make(list.fields())).collect()
    }
}

impl Event for SendEvent {
    fn tell(self, connection: &mut Connection) {
        let list = match self {
            SendEvent::Joined { name, address, attached } => {
                with_address(event("joined").with("name", name), address).with("attached", attached)
            }
            SendEvent::Left { name } => event("left").with("name", name),
            SendEvent::Gone { name, after, waited, outcome } => {
                let list = event("gone").with("name", name);
                with_outcome(list, &outcome).with("after", nanos(after)).with("waited", nanos(waited))
            }
            SendEvent::Shorter { datagram, name } => {
                event("shorter").with("name", name).with("datagram", datagram.to_string())
            }
            SendEvent::Unreached { datagram, name } => {
                event("unreached").with("name", name).with("datagram", datagram.to_string())
            }
            SendEvent::Started => event("started"),
            // The report contains these.
            SendEvent::Unserved { .. }
            | SendEvent::Missing { .. }
            | SendEvent::Rival { .. }
            | SendEvent::Progress { .. } => return,
        };
        connection.push(&Frame::Event(list.fields()));
    }

    fn heard(fields: Fields<'_>, _: &mut Vec<String>) -> Option<Self> {
        Some(match fields.text("is")? {
            "joined" => SendEvent::Joined {
                name: text(fields, "name"),
                address: address(fields),
                attached: fields.get("attached").unwrap_or_default().to_owned(),
            },
            "left" => SendEvent::Left { name: text(fields, "name") },
            "gone" => SendEvent::Gone {
                name: text(fields, "name"),
                after: time(fields, "after"),
                waited: time(fields, "waited"),
                outcome: outcome(fields),
            },
            "shorter" => {
                let datagram = fields.text("datagram").and_then(|bytes| bytes.parse().ok())?;
                SendEvent::Shorter { datagram, name: text(fields, "name") }
            }
            "unreached" => {
                let datagram = fields.text("datagram").and_then(|bytes| bytes.parse().ok())?;
                SendEvent::Unreached { datagram, name: text(fields, "name") }
            }
            "started" => SendEvent::Started,
            _ => return None,
        })
    }
}

impl Event for JoinEvent {
    fn tell(self, connection: &mut Connection) {
        let list = match self {
            JoinEvent::Joined { organiser, member } => {
                event("joined").with("name", organiser).with("member", member.to_string())
            }
            JoinEvent::Started { members } => {
                encode_names(members, connection);
                event("started")
            }
            JoinEvent::Gone { name, reason } => event("gone").with("name", name).with("reason", reason),
            JoinEvent::Progress { .. } => return,
        };
        connection.push(&Frame::Event(list.fields()));
    }

    fn heard(fields: Fields<'_>, names: &mut Vec<String>) -> Option<Self> {
        Some(match fields.text("is")? {
            "joined" => JoinEvent::Joined { organiser: text(fields, "name"), member: member(fields) },
            "started" => JoinEvent::Started { members: std::mem::take(names) },
            "gone" => JoinEvent::Gone { name: text(fields, "name"), reason: text(fields, "reason") },
            _ => return decode_name(fields, names),
        })
    }
}

impl Event for ReceiveEvent {
    fn tell(self, connection: &mut Connection) {
        let list = match self {
            ReceiveEvent::Joined { sender, member } => {
                event("joined").with("name", sender).with("member", member.to_string())
            }
            ReceiveEvent::Members { names } => {
                encode_names(names, connection);
                event("members")
            }
            ReceiveEvent::Gone { name, reason } => event("gone").with("name", name).with("reason", reason),
            // Sockets transfer no files and do not help.
            ReceiveEvent::Serving { .. } | ReceiveEvent::File { .. } | ReceiveEvent::Progress { .. } => {
                return;
            }
        };
        connection.push(&Frame::Event(list.fields()));
    }

    fn heard(fields: Fields<'_>, names: &mut Vec<String>) -> Option<Self> {
        Some(match fields.text("is")? {
            "joined" => ReceiveEvent::Joined { sender: text(fields, "name"), member: member(fields) },
            "members" => ReceiveEvent::Members { names: std::mem::take(names) },
            "gone" => ReceiveEvent::Gone { name: text(fields, "name"), reason: text(fields, "reason") },
            _ => return decode_name(fields, names),
        })
    }
}

impl Report for SendReport {
    fn tell(self, connection: &mut Connection) {
        for one in self.receivers {
            let list = part("receiver").with("name", one.name).with("attached", one.attached);
            let list = with_outcome(with_address(list, one.address), &one.outcome);
            let list = with_time(list.with("waited", nanos(one.waited)), one.time);
            let list = list.with("sends", flag(one.sends)).with("bytes", one.bytes.to_string());
            let list = with_reason(list, "repairs", one.repairs.map(|repairs| repairs.to_string()));
            let list = with_reason(list, "loss", one.loss.map(|loss| loss.to_string()));
            let first = one.stream.and_then(|part| part.first);
            let list = with_reason(list, "first", first.map(|first| first.to_string()));
            let list = with_reason(list, "missed", one.stream.map(|part| part.missed.to_string()));
            let list = with_reason(list, "restarts", one.stream.map(|part| part.restarts.to_string()));
            connection.push(&Frame::Part(list.fields()));
        }
        for one in self.helpers {
            let list = with_address(part("helper").with("name", one.name), one.address);
            connection.push(&Frame::Part(with_reason(list, "lost", one.lost).fields()));
        }
        for one in self.unserved {
            let list = with_address(part("unserved").with("name", one.name), one.address);
            connection.push(&Frame::Part(list.with("reason", one.reason.to_string()).fields()));
        }
        for (name, address) in self.rivals {
            connection.push(&Frame::Part(with_address(part("rival").with("name", name), address).fields()));
        }
        let rest = FieldList::new()
            .with("protocol", self.protocol)
            .with("bytes", self.bytes.to_string())
            .with("time", nanos(self.time))
            .with("goodput", self.goodput.to_string())
            .with("repairs", self.sent.repairs.to_string())
            .with("datagrams_sent", self.sent.datagrams_sent.to_string())
            .with("bytes_sent", self.sent.bytes_sent.to_string())
            .with("more_unserved", self.more_unserved.to_string())
            .with("more_missing", self.more_missing.to_string())
            .with("waits", flag(self.waits))
            .with("silent", flag(self.silent))
            .with("sessions", self.sessions.to_string());
        let rest = with_reason(rest, "messages", self.messages.map(|messages| messages.to_string()));
        connection.push(&Frame::Report(with_reason(rest, "failure", self.failure).fields()));
    }

    fn heard(parts: &Parts, rest: Fields<'_>) -> Self {
        let receiver = |fields: Fields<'_>| ReceiverReport {
            name: text(fields, "name"),
            address: address(fields),
            path: None,
            sends: fields.number("sends") == Some(1),
            attached: fields.get("attached").unwrap_or_default().to_owned(),
            bytes: number(fields, "bytes"),
            stream: fields.number("missed").map(|missed| StreamPart {
                first: fields.number("first"),
                missed,
                restarts: number(fields, "restarts"),
            }),
            had: None,
            deletes: None,
            repairs: fields.number("repairs"),
            loss: fields.text("loss").and_then(|text| text.parse().ok()),
            time: fields.number("time").map(Duration::from_nanos),
            waited: time(fields, "waited"),
            outcome: outcome(fields),
        };
        let helper = |fields: Fields<'_>| HelperReport {
            name: text(fields, "name"),
            address: address(fields),
            lost: optional(fields, "lost"),
        };
        let unserved = |fields: Fields<'_>| UnservedReport {
            name: text(fields, "name"),
            address: address(fields),
            reason: UnservedReason::Declined(text(fields, "reason")),
        };
        SendReport {
            protocol: rest.text("protocol").and_then(find).map_or("", |entry| entry.name),
            files: 0,
            bytes: number(rest, "bytes"),
            unable: Vec::new(),
            resumed: 0,
            time: time(rest, "time"),
            goodput: rest.text("goodput").and_then(|text| text.parse().ok()).unwrap_or(0.0),
            sent: SentCounts {
                repairs: number(rest, "repairs"),
                datagrams_sent: number(rest, "datagrams_sent"),
                bytes_sent: number(rest, "bytes_sent"),
            },
            receivers: parts.of("receiver", receiver),
            helpers: parts.of("helper", helper),
            unserved: parts.of("unserved", unserved),
            more_unserved: number(rest, "more_unserved"),
            more_missing: number(rest, "more_missing"),
            rivals: parts.of("rival", |fields| (text(fields, "name"), address(fields))),
            omitted: Omissions::default(),
            failure: optional(rest, "failure"),
            waits: rest.number("waits") == Some(1),
            silent: rest.number("silent") == Some(1),
            sessions: rest.number("sessions").and_then(|sessions| sessions.try_into().ok()).unwrap_or(1),
            messages: rest.number("messages"),
        }
    }
}

impl Report for JoinReport {
    fn tell(self, connection: &mut Connection) {
        encode_lost(self.lost, connection);
        let rest = FieldList::new()
            .with("acknowledged", flag(self.acknowledged))
            .with("bytes", self.bytes.to_string())
            .with("time", nanos(self.time))
            .with("datagrams_sent", self.datagrams_sent.to_string())
            .with("bytes_sent", self.bytes_sent.to_string());
        let rest = with_reason(rest, "organiser", self.organiser);
        connection.push(&Frame::Report(with_reason(rest, "failure", self.outcome.err()).fields()));
    }

    fn heard(parts: &Parts, rest: Fields<'_>) -> Self {
        JoinReport {
            organiser: optional(rest, "organiser"),
            outcome: optional(rest, "failure").map_or(Ok(()), Err),
            acknowledged: rest.number("acknowledged") == Some(1),
            bytes: number(rest, "bytes"),
            time: time(rest, "time"),
            lost: lost(parts),
            datagrams_sent: number(rest, "datagrams_sent"),
            bytes_sent: number(rest, "bytes_sent"),
        }
    }
}

impl Report for ReceiveReport {
    fn tell(self, connection: &mut Connection) {
        encode_lost(self.lost, connection);
        for one in self.senders {
            let list = part("sender").with("name", one.name).with("bytes", one.bytes.to_string());
            let list = match one.outcome {
                None => list,
                Some(Ok(())) => list.with("outcome", Outcome::Verified.name()),
                Some(Err(reason)) => list.with("outcome", "failed").with("reason", reason),
            };
            connection.push(&Frame::Part(list.fields()));
        }
        let rest = FieldList::new()
            .with("acknowledged", flag(self.acknowledged))
            .with("bytes", self.bytes.to_string())
            .with("time", nanos(self.time))
            .with("messages", self.messages.to_string())
            .with("first", self.first.to_string())
            .with("missed", self.missed.to_string())
            .with("repairs", self.repairs.to_string())
            .with("datagrams_received", self.datagrams_received.to_string());
        let rest = with_reason(rest, "sender", self.sender);
        connection.push(&Frame::Report(with_reason(rest, "failure", self.outcome.err()).fields()));
    }

    fn heard(parts: &Parts, rest: Fields<'_>) -> Self {
        let sender = |fields: Fields<'_>| SenderReport {
            // Sockets transfer no files.
            signature: None,
            name: text(fields, "name"),
            files: 0,
            bytes: number(fields, "bytes"),
            outcome: fields.text("outcome").map(|outcome| match outcome {
                "verified" => Ok(()),
                _ => Err(text(fields, "reason")),
            }),
        };
        ReceiveReport {
            sender: optional(rest, "sender"),
            outcome: optional(rest, "failure").map_or(Ok(()), Err),
            acknowledged: rest.number("acknowledged") == Some(1),
            files: 0,
            bytes: number(rest, "bytes"),
            resumed: 0,
            copied: 0,
            deleted: None,
            time: time(rest, "time"),
            messages: number(rest, "messages"),
            first: number(rest, "first"),
            missed: number(rest, "missed"),
            senders: parts.of("sender", sender),
            unstored: Vec::new(),
            losses: Vec::new(),
            partly_changed: Vec::new(),
            lost: lost(parts),
            served: Vec::new(),
            repairs: number(rest, "repairs"),
            datagrams_received: number(rest, "datagrams_received"),
        }
    }
}

fn event(is: &str) -> FieldList {
    FieldList::new().with("is", is)
}

fn part(is: &str) -> FieldList {
    FieldList::new().with("is", is)
}

fn flag(set: bool) -> &'static str {
    if set { "1" } else { "0" }
}

fn encode_names(names: Vec<String>, connection: &mut Connection) {
    for name in names {
        connection.push(&Frame::Event(event("name").with("name", name).fields()));
    }
}

fn decode_name<T>(fields: Fields<'_>, names: &mut Vec<String>) -> Option<T> {
    if fields.text("is") == Some("name") && names.len() < MAX_PARTS {
        names.push(text(fields, "name"));
    }
    None
}

fn encode_lost(lost: Vec<(String, String)>, connection: &mut Connection) {
    for (name, reason) in lost {
        connection.push(&Frame::Part(part("lost").with("name", name).with("reason", reason).fields()));
    }
}

fn lost(parts: &Parts) -> Vec<(String, String)> {
    parts.of("lost", |fields| (text(fields, "name"), text(fields, "reason")))
}

fn with_address(list: FieldList, address: Option<SocketAddr>) -> FieldList {
    with_reason(list, "address", address.map(|address| address.to_string()))
}

fn with_reason(list: FieldList, key: &str, value: Option<String>) -> FieldList {
    match value {
        Some(value) => list.with(key, value),
        None => list,
    }
}

fn with_time(list: FieldList, time: Option<Duration>) -> FieldList {
    with_reason(list, "time", time.map(nanos))
}

fn with_outcome(list: FieldList, outcome: &Outcome) -> FieldList {
    let reason = outcome.reason().map(ToOwned::to_owned);
    with_reason(list.with("outcome", outcome.name()), "reason", reason)
}

fn outcome(fields: Fields<'_>) -> Outcome {
    match fields.text("outcome") {
        Some("receiving") => Outcome::Receiving,
        Some("verified") => Outcome::Verified,
        Some("failed") => Outcome::Failed(text(fields, "reason")),
        Some("missing") => Outcome::Missing,
        _ => Outcome::Lost(text(fields, "reason")),
    }
}

fn text(fields: Fields<'_>, key: &str) -> String {
    fields.text(key).unwrap_or_default().to_owned()
}

fn optional(fields: Fields<'_>, key: &str) -> Option<String> {
    fields.text(key).map(ToOwned::to_owned)
}

fn number(fields: Fields<'_>, key: &str) -> u64 {
    fields.number(key).unwrap_or(0)
}

fn member(fields: Fields<'_>) -> u32 {
    fields.number("member").and_then(|number| number.try_into().ok()).unwrap_or(0)
}

fn time(fields: Fields<'_>, key: &str) -> Duration {
    Duration::from_nanos(number(fields, key))
}

fn address(fields: Fields<'_>) -> Option<SocketAddr> {
    fields.text("address").and_then(|text| text.parse().ok())
}
