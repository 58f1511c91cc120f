//! Reads the lines of a JSON trace into a recording.
//!
//! A JSON trace has neither the network nor the arrival of frames. The links are the ones that events name. A frame on
//! a link has arrived when the node at its end receives, loses, or forwards the packet; links keep the order of
//! packets. The message of a frame is the one of the event that its machine recorded with it, or of the frame that its
//! router forwards. A recording of the run itself knows all of this exactly.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use carillon_core::{NodeId, PacketKind, Time};
use serde::Deserialize;
use thiserror::Error;

use super::columns::{self, Row, Table};
use super::{NetworkKind, NodeRole, RecordedLink, RecordedNetwork, RecordedNode, Recording};

/// Reader of a JSON trace.
#[derive(Debug)]
pub struct JsonImport {
    recording: Recording,
    links: BTreeMap<(u32, u32), i32>,
    /// Links in the order of their first use.
    ends: Vec<(u32, u32)>,
    nodes: BTreeMap<u32, NodeRole>,
    /// Frames on each direction of a link that have not arrived, by the numbers of their events.
    flying: BTreeMap<(u32, u32), VecDeque<usize>>,
    /// Nodes with a link to each node.
    neighbors: BTreeMap<u32, BTreeSet<u32>>,
    /// Frame that each node has forwarded last: time, packet, and the event of the frame that arrived.
    forwarded: BTreeMap<u32, (u64, u8, usize)>,
    /// Frames of the last node that seem to be forwarded: event, and link and event of the frame that arrived. They are
    /// its own if its machine records them.
    inherited: Vec<(usize, (u32, u32), usize)>,
    /// Last frame on a shared medium.
    on_air: Option<usize>,
    lines: u64,
}

/// Line that is no event of a trace.
#[derive(Debug, Error)]
#[error("line {line}: {problem}")]
pub struct ImportError {
    /// Number of the line, from 1.
    line: u64,
    problem: String,
}

/// Fields of all events.
#[derive(Deserialize)]
struct Line<'a> {
    time_ns: u64,
    node: u32,
    #[serde(borrow)]
    event: Cow<'a, str>,
    message: Option<u64>,
    bytes: Option<u32>,
    source: Option<u32>,
    member: Option<u32>,
    receiver: Option<u32>,
    #[serde(borrow)]
    packet: Option<Cow<'a, str>>,
    #[serde(borrow)]
    link: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    state: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
    repair: Option<bool>,
    frames: Option<u32>,
    messages: Option<u32>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    fields: Option<Vec<(String, serde_json::Value)>>,
}

impl JsonImport {
    /// Reader of a trace of at most `limit` events; further ones are left out. `kinds` has the kinds of packets by
    /// name.
    pub fn new(kinds: BTreeMap<String, PacketKind>, limit: usize) -> Self {
        let network = RecordedNetwork::new(NetworkKind::Real, Vec::new(), Vec::new());
        JsonImport {
            recording: Recording::named(network, kinds, limit),
            links: BTreeMap::new(),
            ends: Vec::new(),
            nodes: BTreeMap::new(),
            flying: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            inherited: Vec::new(),
            on_air: None,
            lines: 0,
        }
    }

    /// Reads a line. Empty lines are ignored.
    ///
    /// # Errors
    ///
    /// Fails if the line is no event of a trace.
    pub fn line(&mut self, text: &str) -> Result<(), ImportError> {
        self.lines += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        let failed = |line, problem: String| Err(ImportError { line, problem });
        let line: Line<'_> = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) => return failed(self.lines, format!("no event of a trace: {error}")),
        };
        let link = match line.link.as_deref().map(|link| (link, ends(link))) {
            None => None,
            Some((_, Some(ends))) => Some(ends),
            Some((link, None)) => {
                return failed(self.lines, format!("no link {link:?}: a link is two nodes, such as 3>7"));
            }
        };
        self.note_node(&line);
        let last = self.recording.len().checked_sub(1);
        if last.is_some_and(|last| self.recording.columns.node[last] != line.node) {
            self.inherited.clear();
        }
        let row = self.row(&line, link);
        let before = self.recording.len();
        self.recording.push(Time::from_nanos(line.time_ns), NodeId(line.node), &line.event, |_, to| {
            *to = Row { event: to.event, ..row };
        });
        if self.recording.len() > before {
            self.follow(&line, link, before);
        }
        Ok(())
    }

    /// Recording of the lines.
    pub fn finish(mut self) -> Recording {
        self.estimate_arrivals();
        let nodes = self.nodes.iter().map(|(&id, &role)| RecordedNode { id, role, name: None });
        let links = self.ends.iter().map(|&(a, b)| RecordedLink { a, b, rate: None, latency_ns: None });
        let center = self.ends.first().map(|&(a, b)| [a, b]).into_iter().flatten();
        let is_star = center.into_iter().any(|end| self.ends.iter().all(|&(a, b)| a == end || b == end));
        let kind = match (self.ends.is_empty(), self.on_air) {
            (false, _) if is_star => NetworkKind::Star,
            (false, _) => NetworkKind::Graph,
            (true, Some(_)) => NetworkKind::Lan,
            (true, None) => NetworkKind::Real,
        };
        self.recording.network = RecordedNetwork::new(kind, nodes.collect(), links.collect());
        self.recording
    }

    /// Notes the role of the node of an event.
    fn note_node(&mut self, line: &Line<'_>) {
        let role = self.nodes.entry(line.node).or_insert(NodeRole::Router);
        *role = match (&*line.event, *role) {
            ("offered" | "sent", _) | (_, NodeRole::Source) => NodeRole::Source,
            ("delivered" | "loss_found", _) | (_, NodeRole::Receiver) => NodeRole::Receiver,
            ("frame_sent" | "frame_lost" | "frame_discarded" | "collision", role) => role,
            (_, _) => NodeRole::Node,
        };
    }

    /// Number of a link and its direction; a new link is added.
    fn link(&mut self, (from, to): (u32, u32)) -> i32 {
        if let Some(&number) = self.links.get(&(from, to)) {
            return number;
        }
        let number = 2 * self.ends.len() as i32;
        self.ends.push((from, to));
        self.links.insert((from, to), number);
        self.links.insert((to, from), number + 1);
        for (node, neighbor) in [(from, to), (to, from)] {
            self.neighbors.entry(node).or_default().insert(neighbor);
            self.nodes.entry(node).or_insert(NodeRole::Router);
        }
        number
    }

    /// Values of an event.
    fn row(&mut self, line: &Line<'_>, link: Option<(u32, u32)>) -> Row {
        let mut row = Row::new(Time::from_nanos(line.time_ns), line.node);
        row.message = line.message.map_or(columns::NO_NUMBER, columns::number);
        row.bytes = line.bytes.unwrap_or(0);
        row.other = line.receiver.or(line.source).or(line.member).unwrap_or(columns::NO_NUMBER);
        row.link = link.map_or(-1, |link| self.link(link));
        if let Some(packet) = &line.packet {
            row.packet = self.recording.packets.code(packet, None);
        }
        let word =
            line.timer.as_ref().or(line.state.as_ref()).or(line.reason.as_ref()).or(line.outcome.as_ref());
        row.text = match (word, &line.name, line.frames, line.messages, line.repair) {
            (Some(word), ..) => self.recording.text(word),
            (_, Some(name), ..) => {
                let mut text = name.to_string();
                for (field, value) in line.fields.iter().flatten() {
                    let _ = match value {
                        serde_json::Value::String(value) => write!(text, " {field} {value}"),
                        value => write!(text, " {field} {value}"),
                    };
                    if field == "message" {
                        row.message = value.as_u64().map_or(columns::NO_NUMBER, columns::number);
                    }
                }
                self.recording.note(&text, name)
            }
            (_, _, Some(frames), ..) => self.recording.text(&format!("{frames} frames")),
            (_, _, _, Some(messages), _) => self.recording.text(&format!("{messages} messages")),
            (.., Some(true)) => self.recording.text("repair"),
            _ => columns::NO_TEXT,
        };
        row
    }

    /// Derives arrivals and messages of frames from an event.
    fn follow(&mut self, line: &Line<'_>, link: Option<(u32, u32)>, at: usize) {
        let columns = &mut self.recording.columns;
        match (&*line.event, link) {
            ("frame_sent", Some((from, to))) => {
                if let Some(came) = self.forwarded_frame(line.time_ns, from, at) {
                    let columns = &mut self.recording.columns;
                    (columns.message[at], columns.packet[at]) = (columns.message[came], columns.packet[came]);
                }
                self.flying.entry((from, to)).or_default().push_back(at);
            }
            ("frame_sent", None) => self.on_air = Some(at),
            // Right after it was sent: lost on the link.
            ("frame_lost", Some(link))
                if self.flying.get(&link).and_then(VecDeque::back) == at.checked_sub(1).as_ref() =>
            {
                if let Some(sent) = self.flying.get_mut(&link).and_then(VecDeque::pop_back) {
                    (columns.message[at], columns.packet[at]) = (columns.message[sent], columns.packet[sent]);
                }
            }
            ("received" | "dropped" | "frame_lost", Some(link)) => {
                if let Some(sent) = self.confirm_arrival(link).or_else(|| self.arrive(link, at)) {
                    let Recording { columns, packets, .. } = &mut self.recording;
                    let is_control = packets.kind(columns.packet[sent]) == Some(PacketKind::Control);
                    if line.event != "received" {
                        columns.message[at] = columns.message[sent];
                    } else if columns.message[sent] == columns::NO_NUMBER && !is_control {
                        columns.message[sent] = columns.message[at];
                    }
                    columns.packet[at] = columns.packet[sent];
                }
            }
            ("received" | "dropped" | "frame_lost", None) => {
                let sent = self.on_air.filter(|&sent| {
                    columns.node[sent] != line.node && columns.packet[sent] == columns.packet[at]
                });
                if let Some(sent) = sent {
                    columns.arrival[sent] = columns.time[at];
                    if line.event == "received" {
                        columns.message[sent] = columns.message[at];
                    }
                }
            }
            ("sent" | "continued", _) => self.name_frames(at, None),
            ("repair_sent", _) => self.name_frames(at, Some(PacketKind::Repair)),
            ("forwarded", _) => {
                let kind = line.repair.unwrap_or(false).then_some(PacketKind::Repair);
                self.name_frames(at, kind);
            }
            ("control_sent", _) => self.name_frames(at, None),
            _ => {}
        }
    }

    /// Frame that this frame of a router forwards, which has arrived with it; `None` if the node is its origin.
    fn forwarded_frame(&mut self, time: u64, from: u32, at: usize) -> Option<usize> {
        let name = self.recording.columns.packet[at];
        if let Some(&(when, packet, came)) = self.forwarded.get(&from)
            && (when, packet) == (time, name)
        {
            return Some(came);
        }
        // A source forwards nothing, and that of a star has many neighbors.
        if self.nodes.get(&from) == Some(&NodeRole::Source) {
            return None;
        }
        let neighbors = self.neighbors.remove(&from)?;
        let came =
            neighbors.iter().find_map(|&neighbor| Some((neighbor, self.arrive((neighbor, from), at)?)));
        self.neighbors.insert(from, neighbors);
        let (neighbor, came) = came?;
        self.forwarded.insert(from, (time, name, came));
        self.inherited.push((at, (neighbor, from), came));
        Some(came)
    }

    /// Frame on this link that its receiver seems to have forwarded, and now records as received.
    fn confirm_arrival(&mut self, link: (u32, u32)) -> Option<usize> {
        let place = self.inherited.iter().position(|&(_, came, _)| came == link)?;
        Some(self.inherited.swap_remove(place).2)
    }

    /// Takes the oldest frame on a link with the same packet as an event, which has arrived with it.
    fn arrive(&mut self, link: (u32, u32), at: usize) -> Option<usize> {
        let packets = &self.recording.packets;
        let columns = &mut self.recording.columns;
        let flying = self.flying.get_mut(&link)?;
        let is_same = |&sent: &usize| packets.same_name(columns.packet[sent], columns.packet[at]);
        let place = flying.iter().take(MAX_FRAMES_ON_LINK).position(is_same)?;
        let sent = flying.remove(place)?;
        columns.arrival[sent] = columns.time[at];
        Some(sent)
    }

    /// Gives the message of an event to the frames that its node has just sent.
    fn name_frames(&mut self, at: usize, kind: Option<PacketKind>) {
        let sent = self.recording.events.known("frame_sent").map_or(u8::MAX, |code| code as u8);
        let Recording { columns, packets, .. } = &mut self.recording;
        for before in (0..at).rev().take(MAX_COPIES) {
            if columns.node[before] != columns.node[at] || columns.time[before] != columns.time[at] {
                break;
            }
            let control = columns.packet[at];
            let inherited = self.inherited.iter().position(|&(frame, ..)| frame == before);
            let is_one = columns.event[before] == sent
                && (columns.message[before] == columns::NO_NUMBER || inherited.is_some())
                && if control == columns::NO_PACKET {
                    matches!(
                        packets.kind(columns.packet[before]),
                        Some(PacketKind::Data | PacketKind::Repair)
                    )
                } else {
                    control == columns.packet[before]
                };
            if is_one {
                // The frame that seemed to have arrived is still on its way.
                if let Some((_, link, came)) = inherited.map(|place| self.inherited.swap_remove(place)) {
                    columns.arrival[came] = f64::NAN;
                    self.flying.entry(link).or_default().push_front(came);
                    self.forwarded.remove(&columns.node[at]);
                }
                let is_about_one = !matches!(
                    packets.kind(columns.packet[before]),
                    Some(PacketKind::Control | PacketKind::Acknowledgment)
                );
                columns.message[before] = if is_about_one { columns.message[at] } else { columns::NO_NUMBER };
                if let Some(kind) = kind {
                    columns.packet[before] = packets.with_kind(columns.packet[before], kind);
                }
            }
        }
    }

    /// Gives frames without a known arrival the shortest time that a frame took on their link.
    fn estimate_arrivals(&mut self) {
        let sent = self.recording.events.known("frame_sent").map_or(u8::MAX, |code| code as u8);
        let columns = &mut self.recording.columns;
        // By link and size, and by link alone.
        let mut shortest: BTreeMap<(i32, u32), f64> = BTreeMap::new();
        let frames: Vec<usize> =
            (0..columns.len()).filter(|&at| columns.event[at] == sent && columns.link[at] >= 0).collect();
        for &at in frames.iter().filter(|&&at| !columns.arrival[at].is_nan()) {
            let took = columns.arrival[at] - columns.time[at];
            for size in [columns.bytes[at], u32::MAX] {
                let link = shortest.entry((columns.link[at] / 2, size)).or_insert(took);
                *link = link.min(took);
            }
        }
        for &at in &frames {
            if columns.arrival[at].is_nan()
                && let Some(took) = [columns.bytes[at], u32::MAX]
                    .iter()
                    .find_map(|&size| shortest.get(&(columns.link[at] / 2, size)))
            {
                columns.arrival[at] = columns.time[at] + took;
            }
        }
    }
}

/// Ends of a link in the text of a trace, such as `3>7`.
fn ends(link: &str) -> Option<(u32, u32)> {
    let (from, to) = link.split_once('>')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// Number of frames on a link among which an arriving one is searched.
const MAX_FRAMES_ON_LINK: usize = 64;
/// Number of events before the transmission of a message among which its frames are searched.
const MAX_COPIES: usize = 4096;
