//! Sender: the rate of a group, which the receiver with the lowest rate limits.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{BitRate, Config, ConfigError, Time, TokenBucket};
use carillon_wire::norm::{Congestion, ProbeNode, decode_rate, encode_grtt, encode_rate};

use crate::blocks::congestion::packets_per_round_trip;
use crate::protocols::norm::cycle::Probing;

/// Rate of a group.
#[derive(Debug)]
pub(in crate::protocols::norm) struct GroupRate {
    /// Rate in bytes per second.
    rate: f64,
    /// Greatest rate in bytes per second.
    most: f64,
    /// Bytes of a full packet.
    packet: f64,
    /// Receivers with the lowest rates.
    nodes: BTreeMap<u32, Node>,
    limiting: Option<u32>,
    /// Time of the last increase, or of the last answer of the limiting receiver.
    changed: Time,
}

/// Receiver that has answered.
#[derive(Clone, Copy, Debug)]
struct Node {
    trip: Duration,
    /// Rate that it allows, in bytes per second.
    rate: f64,
    starts: bool,
    heard: Time,
}

impl GroupRate {
    /// Rate control of a group with these settings; `None` if it is off.
    pub fn new(
        settings: &Config,
        (rate, packet): (BitRate, u64),
        grtt: Duration,
    ) -> Result<Option<Self>, ConfigError> {
        if settings.choice("congestion") != "equation" {
            return Ok(None);
        }
        let (most, packet) = (rate.bps() as f64 / 8.0, packet as f64);
        // RFC 5740, 5.5.2: some packets per round-trip time, until a receiver answers.
        let rate = (FIRST_PACKETS * packet / grtt.as_secs_f64()).min(most);
        let nodes = BTreeMap::new();
        Ok(Some(GroupRate { rate, most, packet, nodes, limiting: None, changed: Time::ZERO }))
    }

    /// Rate with all headers.
    pub fn bit_rate(&self) -> Option<BitRate> {
        BitRate::new(((self.rate * 8.0) as u64).max(1))
    }

    /// Rate as packets carry it.
    pub fn code(&self) -> u16 {
        encode_rate(self.rate)
    }

    /// Round-trip time to the limiting receiver.
    pub fn trip(&self) -> Option<Duration> {
        Some(self.nodes.get(&self.limiting?)?.trip)
    }

    /// Identifier of the limiting receiver.
    #[cfg(test)]
    pub fn limiting(&self) -> Option<u32> {
        self.limiting
    }

    /// Handles the answer of a receiver; `trip` is the round-trip time that it shows.
    pub fn on_answer(&mut self, now: Time, id: u32, state: Congestion, trip: Option<Duration>) {
        let known = self.nodes.get(&id).copied();
        let trip = match (known.map(|node| node.trip), trip) {
            // EWMA with a weight of 0.1 for the sample (RFC 5348, 4.3).
            (Some(mean), Some(trip)) => mean * 9 / 10 + trip / 10,
            (Some(trip), None) | (None, Some(trip)) => trip,
            (None, None) => return,
        };
        let trip = trip.max(MIN_TRIP);
        let starts = state.flags & Congestion::STARTING != 0;
        let loss = f64::from(state.loss.max(1)) / 65535.0;
        let rate = match starts || state.flags & Congestion::MEASURED != 0 {
            true => decode_rate(state.rate),
            // The receiver does not know its round-trip time yet.
            false => self.packet * packets_per_round_trip(loss) / trip.as_secs_f64(),
        };
        let rate = rate.max(self.least());
        if known.is_none() && self.nodes.len() >= MAX_NODES && !self.replace(rate) {
            return;
        }
        self.nodes.insert(id, Node { trip, rate, starts, heard: now });
        self.elect();
        if self.limiting != Some(id) {
            return;
        }
        if rate <= self.rate {
            self.rate = rate;
        } else {
            // RFC 4654, 2.4: one packet per round-trip time more in each round-trip time; twice as much before a loss.
            let seconds = trip.as_secs_f64();
            let trips = (now.since(self.changed).as_secs_f64() / seconds).min(MAX_TRIPS);
            let more = if starts { self.rate } else { trips * self.packet / seconds };
            self.rate = rate.min(self.rate + more).min(self.most);
        }
        self.changed = now;
    }

    /// Adapts the rate at the time of a probe, if it is controlled. Returns the shortest interval of probes.
    pub fn probe(
        control: &mut Option<GroupRate>,
        pace: &mut TokenBucket,
        now: Time,
        probing: &Probing,
        shortest: Duration,
    ) -> Duration {
        let Some(rate) = control else { return shortest };
        rate.on_probe(now, (SILENT_PROBES * probing.interval).max(MIN_SILENCE));
        pace.set_rate(now, rate.bit_rate());
        // RFC 5740, 5.5.2.1: once per round-trip time of the limiting receiver.
        rate.trip().map_or(shortest, |trip| trip.max(MIN_PROBE_INTERVAL))
    }

    /// Handles the time of a probe: a limiting receiver that is silent for `limit` is one no more.
    pub fn on_probe(&mut self, now: Time, limit: Duration) {
        self.nodes.retain(|_, node| now.since(node.heard) < limit);
        if self.limiting.is_some_and(|id| self.nodes.contains_key(&id)) || now.since(self.changed) < limit {
            return;
        }
        self.elect();
        // RFC 4654, 2.4.2: half of the rate without answers.
        (self.rate, self.changed) = ((self.rate / 2.0).max(self.least()), now);
    }

    /// Receivers for the next probe, the limiting one first.
    pub fn nodes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let others = self.nodes.keys().copied().filter(|&id| Some(id) != self.limiting);
        for id in self.limiting.into_iter().chain(others) {
            let Some(node) = self.nodes.get(&id) else { continue };
            let role = match self.limiting == Some(id) {
                true => Congestion::LIMITING,
                false => Congestion::CANDIDATE,
            };
            let starting = if node.starts { Congestion::STARTING } else { 0 };
            let flags = role | Congestion::MEASURED | starting;
            let (rtt, rate) = (encode_grtt(node.trip), encode_rate(node.rate));
            ProbeNode { node: id, flags, rtt, rate }.push(&mut bytes);
        }
        bytes
    }

    /// Minimum rate: a packet per second.
    fn least(&self) -> f64 {
        self.packet.min(self.most)
    }

    /// Makes room for a receiver with this rate. Returns false if all others have lower rates.
    fn replace(&mut self, rate: f64) -> bool {
        let fastest = self.nodes.iter().max_by(|one, other| one.1.rate.total_cmp(&other.1.rate));
        let Some((&id, _)) = fastest.filter(|(_, node)| node.rate > rate) else { return false };
        self.nodes.remove(&id);
        true
    }

    fn elect(&mut self) {
        let lowest = self.nodes.iter().min_by(|one, other| one.1.rate.total_cmp(&other.1.rate));
        self.limiting = lowest.map(|(&id, _)| id);
    }
}

/// Packets per round-trip time at the start.
const FIRST_PACKETS: f64 = 4.0;
/// Number of probe intervals without an answer after which the limiting receiver counts as silent.
const SILENT_PROBES: u32 = 10;
/// Shortest silence after which it does.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// Shortest interval of probes.
const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of receivers that are followed.
const MAX_NODES: usize = 4;
/// Maximum number of round-trip times for which a rate grows at once.
const MAX_TRIPS: f64 = 4.0;
/// Shortest round-trip time, for a division.
const MIN_TRIP: Duration = Duration::from_micros(100);
