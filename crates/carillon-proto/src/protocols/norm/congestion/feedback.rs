//! Receiver: loss events, receive rate, and answers to probes.

use std::time::Duration;

use carillon_core::{Time, expand};
use carillon_wire::norm::{
    Body, Command, Congestion, Extensions, Packet, ProbeNode, decode_grtt, decode_rate, encode_grtt,
    encode_rate,
};

use crate::blocks::MachineContext;
use crate::blocks::congestion::{LossIntervals, loss_for, packets_per_round_trip};
use crate::protocols::norm::timing::{Timer, Timing};

/// State of a receiver for the congestion control of its sender.
#[derive(Debug, Default)]
pub(in crate::protocols::norm) struct Feedback {
    /// Sequence number of the next packet; `None` before the first one.
    next: Option<u64>,
    losses: LossIntervals,
    /// Data packets since the last measurement of the receive rate, and their bytes.
    packets: u64,
    bytes: u64,
    /// Time of the last measurement, and of the last data.
    since: Option<(Time, Time)>,
    /// Receive rate in bytes per second; that of the sender until it is measured.
    received: f64,
    /// Mean length of a data packet in bytes.
    length: f64,
    /// Round-trip time as the sender has measured it.
    trip: Option<Duration>,
    /// Sequence number of the last probe; `None` without one that states a rate.
    probe: Option<u16>,
    /// Flags that the sender has given to this receiver.
    flags: u8,
    /// True if an answer is to be sent.
    due: bool,
}

/// Reaction to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Answer at once.
    Answer,
    /// Answer after a random wait, unless a later probe says that others limit the rate.
    Wait,
    /// Do not answer.
    Silence,
}

impl Feedback {
    /// Records a packet of the sender. All its packets share one sequence.
    pub fn on_packet(&mut self, now: Time, packet: &Packet<'_>, timing: &Timing) {
        let sequence = packet.sequence;
        let expected = self.next.unwrap_or(u64::from(sequence) + (1 << 16));
        let number = expand(sequence.into(), 1 << 16, expected);
        let trip = self.trip.unwrap_or(timing.grtt).max(MIN_TRIP);
        if matches!(packet.body, Body::Data { .. }) {
            self.on_data(now, packet.wire_len(), trip);
        }
        if number < expected && self.next.is_some() {
            // A packet that was overtaken is no loss less: that was counted.
            return;
        }
        let lost = number - expected.min(number);
        // RFC 4654, 2.5.3: the first loss event stands for the loss at which TCP has half of the receive rate.
        let packets = (self.received / 2.0 / self.length.max(1.0) * trip.as_secs_f64()).max(0.5);
        self.losses.note(now, lost + 1, lost, trip, || 1.0 / loss_for(packets));
        self.next = Some(number + 1);
    }

    /// Measures the receive rate. A sender that pauses tells nothing about the path.
    fn on_data(&mut self, now: Time, length: usize, trip: Duration) {
        self.length += (length as f64 - self.length) * if self.length == 0.0 { 1.0 } else { 0.1 };
        let (since, last) = self.since.unwrap_or((now, now));
        if self.since.is_none() || now.since(last) > MAX_PAUSE {
            (self.packets, self.bytes, self.since) = (0, 0, Some((now, now)));
            return;
        }
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + length as u64);
        self.since = Some((since, now));
        let span = now.since(since);
        if span >= trip.max(RATE_INTERVAL) && self.packets >= MIN_PACKETS {
            self.received = self.bytes as f64 / span.as_secs_f64();
            (self.packets, self.bytes, self.since) = (0, 0, Some((now, now)));
        }
    }

    /// Handles a probe that states a rate: it is answered at once, after a random wait, or not at all.
    pub fn handle_probe(
        &mut self,
        context: &mut MachineContext<Timer>,
        packet: &Packet<'_>,
        own: u32,
        timing: &mut Timing,
    ) {
        let Body::Command { command: Command::Probe { sequence, nodes, .. }, .. } = packet.body else {
            return;
        };
        let Some(rate) = packet.extensions.rate() else { return };
        if self.received == 0.0 {
            self.received = decode_rate(rate);
        }
        match self.on_probe(sequence, nodes, own, timing) {
            Reaction::Answer => self.answer(),
            Reaction::Wait if context.timers.armed(Timer::Feedback).is_none() => {
                context.timers.arm(Timer::Feedback, context.now + timing.draw_feedback_wait());
            }
            Reaction::Wait => {}
            Reaction::Silence => drop(context.timers.cancel(Timer::Feedback)),
        }
    }

    /// Decides on the answer to a probe of this receiver.
    pub(super) fn on_probe(&mut self, sequence: u16, nodes: &[u8], own: u32, timing: &Timing) -> Reaction {
        self.probe = Some(sequence);
        self.flags = 0;
        let mut limit = None;
        for node in ProbeNode::each(nodes) {
            if node.node == own {
                self.flags = node.flags & (Congestion::LIMITING | Congestion::CANDIDATE);
                if node.flags & Congestion::MEASURED != 0 {
                    self.trip = Some(decode_grtt(node.rtt));
                }
            }
            if node.flags & Congestion::LIMITING != 0 {
                limit = Some(decode_rate(node.rate));
            }
        }
        if self.flags != 0 {
            return Reaction::Answer;
        }
        // RFC 5740, 5.5.2.2: a receiver that allows as much as the limiting one need not answer.
        match limit {
            Some(limit) if self.rate(timing) >= 0.9 * limit => Reaction::Silence,
            _ => Reaction::Wait,
        }
    }

    /// Lets the next transmission be an answer.
    pub fn answer(&mut self) {
        self.due = self.probe.is_some();
    }

    /// Takes the answer that is due.
    pub fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Rate that this receiver allows, in bytes per second.
    fn rate(&self, timing: &Timing) -> f64 {
        match self.losses.rate() {
            0.0 => 2.0 * self.received,
            loss => {
                let trip = self.trip.unwrap_or(timing.grtt).max(MIN_TRIP);
                self.length * packets_per_round_trip(loss) / trip.as_secs_f64()
            }
        }
    }

    /// Extension with the state, for NACKs and answers; empty if the sender does not control its rate.
    pub fn extension(&self, timing: &Timing) -> Vec<u8> {
        let (mut bytes, Some(sequence)) = (Vec::new(), self.probe) else { return Vec::new() };
        let loss = self.losses.rate();
        let measured = if self.trip.is_some() { Congestion::MEASURED } else { 0 };
        let starting = if loss == 0.0 { Congestion::STARTING } else { 0 };
        let state = Congestion {
            sequence,
            flags: self.flags | measured | starting,
            rtt: encode_grtt(self.trip.unwrap_or(timing.grtt)),
            loss: (loss * 65535.0) as u16,
            rate: encode_rate(self.rate(timing)),
        };
        Extensions::push_congestion(&mut bytes, state);
        bytes
    }
}

/// Shortest round-trip time, for a division.
const MIN_TRIP: Duration = Duration::from_micros(100);
/// Number of data packets from which the receive rate is measured.
const MIN_PACKETS: u64 = 4;
/// Time without data after which the measurement begins anew.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Shortest interval in which the receive rate is measured.
const RATE_INTERVAL: Duration = Duration::from_millis(50);
