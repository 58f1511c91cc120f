//! Transmissions by node and time: rates, repairs and feedback of trees with helpers.

use carillon_core::{Dest, Event, NodeId, Passage, Time, Value};

use crate::run::competitor;
use crate::scenario::Scenario;

/// Counts of a run, and when it sent what.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    source: NodeId,
    /// First transmissions of the source, in order.
    firsts: Vec<Time>,
    /// Times of the first transmission and of the last delivery.
    span: Option<(Time, Time)>,
    /// Repairs of the source, and of others.
    repairs: [u64; 2],
    /// Packets without a message that went to the source.
    to_source: u64,
    /// Seconds from first transmission to delivery: their sum, and how many.
    delays: (f64, u64),
    /// Messages that a receiver held, at most.
    held: u64,
    /// Packets of a competing flow that arrived, and the time of the last delivery or report.
    competing: u64,
    until: Time,
    /// Seconds that packets of the source's node wait for its links: their sum, and how many.
    waits: (f64, u64),
}

impl Traffic {
    /// Creates empty counts.
    pub fn new(scenario: &Scenario) -> Self {
        Traffic { source: scenario.sender(), ..Traffic::default() }
    }

    #[inline]
    pub(super) fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match event {
            Event::Sent { .. } if node == self.source => {
                self.firsts.push(time);
                self.span.get_or_insert((time, time));
            }
            Event::RepairSent { .. } if node == self.source => self.repairs[0] += 1,
            Event::Forwarded { repair: true, .. } => self.repairs[1] += 1,
            Event::Note(note) if note.name == competitor::NOTE => {
                let packets = note.fields.iter().find(|(name, _)| *name == competitor::PACKETS);
                if let Some((_, Value::Count(packets))) = packets {
                    (self.competing, self.until) = (self.competing + packets, time);
                }
            }
            Event::Note(note) if note.name == HELD_NOTE => {
                let messages = note.fields.iter().find(|(name, _)| *name == "messages");
                if let Some((_, Value::Count(messages))) = messages {
                    self.held = self.held.max(*messages);
                }
            }
            _ => {}
        }
    }

    pub(super) fn datagram(&mut self, _time: Time, from: NodeId, to: &Dest) {
        self.to_source += u64::from(from != self.source && *to == Dest::Node(self.source));
    }

    pub(super) fn delivered(&mut self, now: Time, started: Time) {
        self.delays.0 += now.since(started).as_secs_f64();
        self.delays.1 += 1;
        self.until = now;
        if let Some((_, last)) = &mut self.span {
            *last = now;
        }
    }

    /// Records the passage of a frame that a node sent at `time`.
    #[inline]
    pub(super) fn frame(&mut self, time: Time, node: NodeId, passage: Passage) {
        if node == self.source {
            let waited = passage.starts.since(time);
            self.waits = (self.waits.0 + waited.as_secs_f64(), self.waits.1 + 1);
        }
    }

    /// Mean time in seconds that packets of the source's node wait for its links.
    pub(super) fn queueing_delay(&self) -> Option<f64> {
        (self.waits.1 > 0).then(|| self.waits.0 / self.waits.1 as f64)
    }

    /// Packets of a competing flow that arrived, and seconds from `start` to the last delivery of either flow.
    pub(super) fn competing(&self, start: Time) -> (f64, f64) {
        (self.competing as f64, self.until.since(start).as_secs_f64())
    }

    /// Messages sent for the first time in a second, behind the first quarter of them: the source has then met its
    /// window.
    pub(super) fn new_per_second(&self) -> Option<f64> {
        let from = self.firsts.len() / 4;
        let (first, last) = (self.firsts.get(from)?, self.firsts.last()?);
        let span = last.since(*first).as_secs_f64();
        (span > 0.0).then(|| (self.firsts.len() - from - 1) as f64 / span)
    }

    pub(super) fn delay(&self) -> Option<f64> {
        (self.delays.1 > 0).then(|| self.delays.0 / self.delays.1 as f64)
    }

    pub(super) fn global_repairs(&self) -> u64 {
        self.repairs[0]
    }

    pub(super) fn local_repairs(&self) -> u64 {
        self.repairs[1]
    }

    pub(super) fn to_source(&self) -> u64 {
        self.to_source
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Rate of `count` events per second, over the time from the first transmission to the last delivery.
    pub(super) fn per_second(&self, count: u64) -> Vec<f64> {
        let seconds = self.span.map(|(first, last)| last.since(first).as_secs_f64());
        seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds).into_iter().collect()
    }
}

/// Name of the note in which a receiver reports its buffered messages: for its application, out of order, and for
/// others.
const HELD_NOTE: &str = "held";
