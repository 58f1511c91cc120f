//! A world in several parts, which several threads simulate side by side.
//!
//! Every part has the nodes of one part of a [`Partition`] and runs by itself for the lookahead, a *window*. Then the
//! merge finds the order in which the whole world would have taken the steps of all parts: by time, arrivals before
//! timers, and then in the order of insertion, as the queues of a [`World`] have it. Packets go to
//! other parts with their place in that order, so every part does exactly what the whole world would do. The tapes,
//! played in that order, are what its observer would have seen.
//!
//! The method is conservative parallel simulation with synchronous time windows: D. M. Nicol, "The cost of conservative
//! synchronization in parallel discrete event simulations", Journal of the ACM 40 (1993).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carillon_core::{NodeId, Observer, Time};

use crate::graph::{Crossing, Crossings, PacketCopies, Partition};
use crate::network::Network;
use crate::serials::{Queued, Serials, Slot};
use crate::tape::Tape;
use crate::world::{StopReason, World};

/// Part of a world, with its steps of the current window.
#[derive(Debug)]
pub struct Part {
    world: World<Box<dyn Network>, Tape>,
    /// Number of messages with a final outcome at the nodes of this part.
    settled: Arc<AtomicU64>,
    /// The sender, if it is a node of this part.
    sender: Option<NodeId>,
    steps: Vec<Step>,
    /// True if the part paused before the end of the window.
    pauses: bool,
}

/// Step of a part, or the start of a node.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Time of the step.
    pub time: Time,
    source: Source,
    /// Position behind the step.
    end: Position,
    /// Number of messages that got their final outcome.
    pub settled: u32,
    /// State of the sender after the step if it may have changed: true if it has finished.
    pub finished: Option<bool>,
}

/// Cause of a step. They are in the order in which causes of the same time are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Start of a node.
    Start(NodeId),
    /// Event of the network.
    Network(Slot),
    /// Timer.
    Timer(Slot),
}

/// Numbers of calls, queued network events and queued timers of a part in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    calls: u32,
    network: u32,
    timers: u32,
}

/// Steps of all parts in a window, in the order of the whole world.
#[derive(Debug, Default)]
pub struct Window {
    /// Part of each step.
    order: Vec<u16>,
    /// Steps and calls of each part.
    parts: Vec<(Vec<Step>, Tape)>,
    /// Parts that stopped at their last step, and the reason of each.
    halted: Vec<Option<StopReason>>,
}

/// Times of a window, both inclusive.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Time of the first step.
    pub first: Time,
    /// Time up to which no part can affect another one.
    pub last: Time,
}

/// Order of the parts of a world.
#[derive(Debug)]
pub struct Merge {
    partition: Partition,
    /// Next serial numbers of network events and of timers.
    next: [u64; 2],
}

impl Part {
    /// Part from a world [with a part](World::with_part) of a network that is [one](crate::graph::Graph::part).
    /// `settled` counts messages with a final outcome.
    pub fn new(
        world: World<Box<dyn Network>, Tape>,
        settled: Arc<AtomicU64>,
        sender: Option<NodeId>,
    ) -> Self {
        Part { world, settled, sender, steps: Vec::new(), pauses: false }
    }

    /// Starts every machine.
    pub fn start(&mut self) {
        for place in 0..self.world.nodes() {
            if self.world.halted().is_some() {
                return;
            }
            let settled = self.settled.load(Ordering::Relaxed);
            let node = self.world.start_node(place);
            self.note(Some(Source::Start(node)), settled);
        }
    }

    /// Runs through the steps up to this time, inclusive. After `most` steps it pauses, so that a window takes little
    /// memory and the run can be stopped.
    pub fn run(&mut self, last: Time, most: usize) {
        for _ in 0..most {
            let settled = self.settled.load(Ordering::Relaxed);
            match self.world.step_by(last) {
                None => {
                    self.pauses = false;
                    return;
                }
                Some(None) => self.note(None, settled),
                Some(Some(timer)) => self.note(Some(Source::Timer(timer)), settled),
            }
        }
        self.pauses = true;
    }

    /// Notes a step, by default one of the network.
    fn note(&mut self, source: Option<Source>, settled_before: u64) {
        let calls = self.world.observer().len() as u32;
        let (crossings, timers) = self.world.order();
        let end =
            Position { calls, network: crossings.serials.queued() as u32, timers: timers.queued() as u32 };
        let source = source.unwrap_or(Source::Network(crossings.last()));
        let settled = (self.settled.load(Ordering::Relaxed) - settled_before) as u32;
        let moved = self.world.take_senders_moved();
        let finished = self
            .sender
            .filter(|_| moved)
            .map(|sender| self.world.machine(sender).as_sender().is_none_or(|sender| sender.is_finished()));
        self.steps.push(Step { time: self.world.now(), source, end, settled, finished });
    }

    /// Time of the next step that other parts do not know of.
    fn next_time(&self) -> Option<Time> {
        let left = self.steps.first().map(|step| step.time);
        left.or_else(|| self.world.next_step_time())
    }

    /// Moves the steps before this position to a window, which has the memory of a played one. Steps stay if another
    /// part paused before them.
    fn pass_on(
        &mut self,
        count: usize,
        merged: Position,
        (steps, tape): &mut (Vec<Step>, Tape),
    ) -> Vec<Crossing> {
        steps.clear();
        let (crossings, timers) = self.world.order();
        if count == self.steps.len() {
            std::mem::swap(steps, &mut self.steps);
            crossings.serials.end_window();
            timers.end_window();
            let leaving = crossings.take_leaving();
            *tape = self.world.observer().take(std::mem::take(tape));
            return leaving;
        }
        let leaving = crossings.take_some_leaving(merged.network as usize);
        timers.forget(merged.timers as usize);
        steps.extend(self.steps.drain(..count));
        for Step { end, .. } in &mut self.steps {
            end.calls -= merged.calls;
            end.network -= merged.network;
            end.timers -= merged.timers;
        }
        *tape = self.world.observer().take_some(merged.calls as usize, std::mem::take(tape));
        leaving
    }
}

/// Steps of a part that the merge goes through.
struct Sequence<'a> {
    steps: &'a [Step],
    at: usize,
    /// True if the part has more steps in this window, which are not known.
    pauses: bool,
    /// Position behind the steps so far.
    merged: Position,
    crossings: &'a mut Crossings,
    timers: &'a mut Serials,
}

/// Place of a step in the order of the whole world: time, kind of cause, and number of the event.
type Rank = (Time, u8, u64);

impl<'a> Sequence<'a> {
    fn of(part: &'a mut Part) -> Self {
        let (crossings, timers) = part.world.order();
        let (steps, pauses) = (&part.steps, part.pauses);
        Sequence { steps, at: 0, pauses, merged: Position::default(), crossings, timers }
    }

    /// Place of the next step.
    fn rank(&self) -> Option<Rank> {
        let step = self.steps.get(self.at)?;
        Some(match step.source {
            Source::Start(node) => (step.time, 0, node.0.into()),
            Source::Network(slot) => (step.time, 1, self.crossings.serials.number(slot)),
            Source::Timer(slot) => (step.time, 2, self.timers.number(slot)),
        })
    }

    /// Passes the next step, and numbers what was queued in it.
    fn pass(&mut self, next: &mut [u64; 2]) {
        let end = self.steps[self.at].end;
        self.at += 1;
        let begin = std::mem::replace(&mut self.merged, end);
        for index in begin.network..end.network {
            match self.crossings.serials.queued_at(index as usize) {
                Queued::Own(slot) => self.crossings.serials.set(slot, next[0]),
                Queued::Crossing(index) => self.crossings.set_leaving(index, next[0]),
            }
            next[0] += 1;
        }
        for index in begin.timers..end.timers {
            if let Queued::Own(slot) = self.timers.queued_at(index as usize) {
                self.timers.set(slot, next[1]);
            }
            next[1] += 1;
        }
    }
}

impl Merge {
    /// Order of the parts of this partition at the start.
    pub fn new(partition: Partition) -> Self {
        Merge { partition, next: [0; 2] }
    }

    /// Next window, in which every part may run by itself; `None` if nothing is left to do.
    pub fn next_window(&self, parts: &[Part]) -> Option<Span> {
        let first = parts.iter().filter_map(Part::next_time).min()?;
        Some(Span { first, last: first + self.partition.lookahead() })
    }

    /// Ends a window: finds the order of its steps and passes packets on to other parts. The window takes the memory
    /// of a played one.
    pub fn end_window(&mut self, parts: &mut [Part], mut window: Window) -> Window {
        let passed = self.order(parts, &mut window.order);
        window.parts.resize_with(parts.len(), Default::default);
        let mut leaving = Vec::new();
        for ((part, of), (count, merged)) in parts.iter_mut().zip(&mut window.parts).zip(passed) {
            leaving.extend(part.pass_on(count, merged, of));
        }
        let halted = |part: &Part| part.world.halted().filter(|_| part.steps.is_empty());
        window.halted = parts.iter().map(halted).collect();
        leaving.sort_unstable_by_key(|crossing| crossing.serial);
        let mut copies: Vec<PacketCopies> = parts.iter().map(|_| PacketCopies::default()).collect();
        for crossing in leaving {
            let to = crossing.to.index();
            parts[to].world.order().0.arrive(crossing, &mut copies[to]);
        }
        window
    }

    /// Finds the part of each step of the window, in the order of the whole world, up to the first pause of a part.
    /// Returns the number of steps of each part and the position behind them.
    fn order(&mut self, parts: &mut [Part], order: &mut Vec<u16>) -> Vec<(usize, Position)> {
        order.clear();
        let mut sequences: Vec<Sequence<'_>> = parts.iter_mut().map(Sequence::of).collect();
        let mut heads: Vec<Option<Rank>> = sequences.iter().map(Sequence::rank).collect();
        // Mostly many steps of one part follow each other: as long as it is before all others.
        'steps: while let Some((first, limit)) = first_two(&heads) {
            let sequence = &mut sequences[first];
            loop {
                sequence.pass(&mut self.next);
                order.push(first as u16);
                heads[first] = sequence.rank();
                if heads[first].is_none() && sequence.pauses {
                    break 'steps;
                }
                if heads[first].is_none_or(|rank| limit.is_some_and(|limit| rank > limit)) {
                    break;
                }
            }
        }
        sequences.iter().map(|sequence| (sequence.at, sequence.merged)).collect()
    }
}

/// Part with the first of these steps, and the place of the second one.
fn first_two(heads: &[Option<Rank>]) -> Option<(usize, Option<Rank>)> {
    let (mut first, mut second): (Option<(Rank, usize)>, Option<Rank>) = (None, None);
    for (part, rank) in heads.iter().enumerate().filter_map(|(part, rank)| Some((part, (*rank)?))) {
        match first {
            Some((least, _)) if least < rank => {
                second = Some(second.map_or(rank, |second| second.min(rank)));
            }
            _ => {
                second = first.map(|(least, _)| least);
                first = Some((rank, part));
            }
        }
    }
    first.map(|(_, part)| (part, second))
}

impl Window {
    /// Plays the window to an observer, and calls `after` with it after each step, until it returns true. The last
    /// argument is the reason if the world stopped within the step.
    pub fn play<O: Observer>(
        &self,
        observer: &mut O,
        mut after: impl FnMut(&mut O, &Step, Option<StopReason>) -> bool,
    ) {
        let mut at = vec![(0, 0); self.parts.len()];
        for &part in &self.order {
            let part = usize::from(part);
            let (steps, tape) = &self.parts[part];
            let (step, calls) = &mut at[part];
            let this = &steps[*step];
            *step += 1;
            let end = this.end.calls as usize;
            tape.play(std::mem::replace(calls, end)..end, this.time, observer);
            let halts = self.halted[part].filter(|_| *step == steps.len());
            if after(observer, this, halts) {
                return;
            }
        }
    }

    /// Returns true if a part stopped within a step.
    pub fn is_halted(&self) -> bool {
        self.halted.iter().any(Option::is_some)
    }
}

impl Step {
    /// Returns true if the step is the start of a node, which the world does not count as a step.
    pub fn is_start(&self) -> bool {
        matches!(self.source, Source::Start(_))
    }
}
