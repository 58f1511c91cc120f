//! Recording: the events of a run in columns, with the network, for the viewer in the browser.
//!
//! A JSON trace has only the events, as text. A recording has what an animation needs beside them: nodes and links,
//! the time at which the first bit of each frame leaves and its last bit arrives, and the kind of each packet. The
//! columns are binary, so that a viewer maps a million events without parsing them. `docs/reference/recording.md`
//! describes the format.

mod columns;
mod file;
mod import;
mod machines;
mod names;
mod network;

use std::collections::BTreeMap;

use carillon_core::{
    Event, Format, Frame, Machine, NodeId, Observer, PacketKind, PacketSummary, Passage, Time, Value,
};

use columns::{Columns, Row, Table};
use machines::Machines;
use names::{Names, PacketNames};

pub use file::{Description, RecordedMetric, RecordingError, RecordingHeader, check};
pub use import::{ImportError, JsonImport};
pub use network::{NetworkKind, NodeRole, RecordedLink, RecordedNetwork, RecordedNode};

use super::parsed::LastParsed;
use crate::scenario::Scenario;

/// Default for the maximum number of events of a recording.
pub const DEFAULT_EVENT_LIMIT: usize = 1_000_000;

/// Observer that records the events of a run.
///
/// Events beyond the limit are left out, and the recording says that it is truncated; the run goes on.
#[derive(Debug)]
pub struct Recording {
    title: String,
    protocol: String,
    network: RecordedNetwork,
    packets: PacketNames,
    events: Names,
    strings: Names,
    columns: Columns,
    machines: Machines,
    limit: usize,
    truncated: bool,
    /// Frames of events; `None` if packets are known by name only.
    frames: Option<Frames>,
}

impl Recording {
    /// Empty recording of a network with packets of a format, for at most `limit` events.
    pub fn new(network: RecordedNetwork, format: &'static Format, limit: usize) -> Self {
        let recording = Recording::named(network, format.kinds_by_name(), limit);
        Recording { frames: Some(Frames::new(format)), ..recording }
    }

    /// Empty recording of packets that are known by name only.
    fn named(network: RecordedNetwork, kinds: BTreeMap<String, PacketKind>, limit: usize) -> Self {
        Recording {
            title: String::new(),
            protocol: String::new(),
            network,
            packets: PacketNames::new(kinds),
            events: Names::new(usize::from(u8::MAX)),
            strings: Names::new(usize::from(columns::NO_TEXT)),
            columns: Columns::default(),
            machines: Machines::new(limit),
            limit,
            truncated: false,
            frames: None,
        }
    }

    /// Empty recording of a run of this scenario, for at most `limit` events.
    pub fn of(scenario: &Scenario, limit: usize) -> Self {
        let protocol = scenario.protocol;
        let receivers = scenario.receiving().len();
        let plural = if receivers == 1 { "" } else { "s" };
        let mut recording = Recording::new(RecordedNetwork::of(scenario), protocol.packets.format, limit);
        if let Some(frames) = &mut recording.frames {
            frames.marks_originals = protocol.study.marks_originals;
        }
        recording.titled(format!("{}, {receivers} receiver{plural}", protocol.name), protocol.name)
    }

    /// Sets the title and the name of the protocol.
    pub fn titled(self, title: String, protocol: &str) -> Self {
        Recording { title, protocol: protocol.to_owned(), ..self }
    }

    /// Marks the recording as one of a part of the run.
    pub fn truncated(self) -> Self {
        Recording { truncated: true, ..self }
    }

    /// Sets the destination of the last event, the frame of a datagram to one node.
    pub fn set_destination(&mut self, node: NodeId) {
        if let Some(other) = self.columns.other.last_mut() {
            *other = node.0;
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns true if there is no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the run had more events than the limit.
    pub fn is_truncated(&self) -> bool {
        self.truncated || self.machines.is_truncated()
    }

    /// Marks the recording as truncated, of a run that was stopped before its end.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Adds an event.
    fn push(&mut self, time: Time, node: NodeId, name: &str, fill: impl FnOnce(&mut Self, &mut Row)) {
        if self.len() >= self.limit {
            self.truncated = true;
            return;
        }
        let mut row = Row::new(time, node.0);
        row.event = self.events.code(name).map_or(u8::MAX, |code| code as u8);
        fill(self, &mut row);
        self.columns.push(&row);
    }

    /// Code of a text, such as a reason; a text beyond the limit of the table has none.
    fn text(&mut self, text: &str) -> u16 {
        self.strings.code(text).map_or(columns::NO_TEXT, |code| code as u16)
    }

    /// Code of a note: of its text, or of its name alone once many different notes have been recorded.
    fn note(&mut self, text: &str, name: &str) -> u16 {
        match self.strings.known(text) {
            Some(code) => code as u16,
            None if self.strings.len() < MAX_NOTE_TEXTS => self.text(text),
            None => self.text(name),
        }
    }

    /// Fills in the packet that is in a frame.
    fn fill_frame(&mut self, row: &mut Row, frame: &NotedFrame) {
        row.link = frame.link.map_or(-1, |link| self.network.link(link.from.0, link.to.0));
        if let Some(summary) = frame.summary {
            row.packet = self.packets.code(summary.name, Some(summary.kind));
            row.message = summary.message.map_or(columns::NO_NUMBER, |message| columns::number(message.0));
        }
    }

    /// Fills in the fields of an event.
    fn fill(&mut self, row: &mut Row, event: &Event, frame: Option<&NotedFrame>) {
        if let Some(frame) = frame {
            self.fill_frame(row, frame);
        }
        let kind = frame.and_then(|frame| Some(frame.summary?.kind));
        match *event {
            Event::Offered { message, .. } | Event::RequestSuppressed { message } => row.about(message),
            Event::Sent { message, bytes }
            | Event::Continued { message, bytes }
            | Event::RepairSent { message, bytes } => {
                row.about(message);
                row.bytes = bytes;
            }
            Event::Forwarded { source, message, bytes, repair } => {
                row.about(message);
                (row.other, row.bytes) = (source.0, bytes);
                row.text = if repair { self.text("repair") } else { columns::NO_TEXT };
            }
            Event::ControlSent { packet, message } | Event::Received { packet, message } => {
                row.about(message);
                row.packet = self.packets.code(packet, kind);
            }
            Event::Delivered { source, message }
            | Event::Requested { source, message }
            | Event::LossRepaired { source, message }
            | Event::LossFinal { source, message } => {
                row.about(message);
                row.other = source.0;
            }
            Event::LossFound { source, message } => {
                row.about(message);
                row.other = source.map_or(columns::NO_NUMBER, |source| source.0);
            }
            Event::Completed { message, outcome, .. } => {
                row.about(message);
                row.text = self.text(outcome.name());
            }
            Event::RepairNeeded { member, messages } => {
                row.other = member.0;
                row.text = self.text(&format!("{messages} messages"));
            }
            Event::MemberJoined { member } | Event::MemberLost { member } => row.other = member.0,
            Event::TimerArmed { timer } | Event::TimerFired { timer } => row.text = self.text(timer),
            Event::StateChanged { state } => row.text = self.text(state),
            Event::Dropped { reason } => row.text = self.text(reason.name()),
            Event::FrameSent { bytes } => {
                row.bytes = bytes;
                if let Some(Passage { starts, arrives }) = frame.and_then(|frame| frame.passage) {
                    (row.start, row.arrival) = (columns::nanos(starts), columns::nanos(arrives));
                }
            }
            Event::FrameLost { receiver, .. } => {
                row.other = receiver.map_or(columns::NO_NUMBER, |receiver| receiver.0);
            }
            Event::Collision { frames } => row.text = self.text(&format!("{frames} frames")),
            Event::Note(ref note) => {
                row.text = self.note(&note.to_string(), note.name);
                let message = note.fields.iter().find(|(name, _)| *name == "message");
                if let Some((_, Value::Count(message))) = message {
                    row.message = columns::number(*message);
                }
            }
            // An event that is added later has no further fields here.
            _ => {}
        }
    }
}

impl Observer for Recording {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        let frame = self.frames.as_mut().and_then(|frames| frames.next.take());
        self.push(time, node, event.name(), |recording, row| recording.fill(row, event, frame.as_ref()));
    }

    fn watches_frames(&self) -> bool {
        self.frames.is_some()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if let Some(frames) = &mut self.frames {
            frames.note(frame);
        }
    }

    fn watches_machines(&self) -> bool {
        true
    }

    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        // Nothing is shown beyond the last event.
        if self.len() < self.limit {
            self.machines.note(time, node, machine, deadline, &mut self.strings);
        }
    }
}

/// Frames of events.
#[derive(Debug)]
struct Frames {
    format: &'static Format,
    /// True if the protocol marks first transmissions, so that data without the mark is a repair.
    marks_originals: bool,
    next: Option<NotedFrame>,
    /// Summary of the last datagram.
    last: LastParsed<Option<PacketSummary>>,
}

/// Frame of the next event.
#[derive(Debug)]
struct NotedFrame {
    link: Option<carillon_core::LinkDirection>,
    passage: Option<Passage>,
    summary: Option<PacketSummary>,
}

impl Frames {
    fn new(format: &'static Format) -> Self {
        Frames { format, marks_originals: false, next: None, last: LastParsed::new() }
    }

    fn note(&mut self, frame: &Frame<'_>) {
        let &Frame { link, bytes, passage, original } = frame;
        let summary = *self.last.of(bytes, |bytes| (self.format.summary)(bytes));
        let summary = summary.map(|summary| match summary.kind {
            PacketKind::Data if self.marks_originals && !original => {
                PacketSummary { kind: PacketKind::Repair, ..summary }
            }
            _ => summary,
        });
        self.next = Some(NotedFrame { link, passage, summary });
    }
}

/// Number of texts above which notes are recorded by their name only.
const MAX_NOTE_TEXTS: usize = 16_384;

#[cfg(test)]
mod tests;
