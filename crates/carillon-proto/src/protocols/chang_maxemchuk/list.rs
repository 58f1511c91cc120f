//! The token list, and what a change of it does to a site: the reformation phase.
//!
//! The agreement itself is [`Reformation`](crate::blocks::reformation::Reformation); here is what this protocol does at its steps. Who takes
//! part in a reformation neither acknowledges nor accepts the token nor delivers anything until a list
//! is in force; then all of the log that goes on is committed, and the coordinator is the token site.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use carillon_core::{Event, MessageId, Time};
use carillon_wire::chang_maxemchuk::{Ack, Body};
use carillon_wire::reformation::Ranks;

use super::peer::{Peer, Timer};
use super::requests::{RUN, Requests};
use super::token::Token;
use super::watch::Watch;
use crate::blocks::reformation::{Step, too_few};

/// What a site fetches before it accepts a list: the log that goes on, from where its own may differ.
#[derive(Debug)]
pub(super) struct Fetch {
    from: u16,
    /// Who may have it if that one has not.
    others: Ranks,
    start: u64,
    length: u64,
    /// What has come.
    entries: BTreeMap<u64, (Ack, Bytes)>,
    /// What is missing below this has been asked for.
    asked_below: u64,
}

impl Fetch {
    /// Whether this site is to answer.
    pub fn asks(&self, site: u16) -> bool {
        self.from == site
    }

    /// The first run that is missing.
    fn gap(&self) -> Option<Range<u64>> {
        let mut from = self.start;
        let mut rest = self.entries.keys();
        while rest.next() == Some(&from) {
            from += 1;
        }
        let below = self.entries.range(from..).next().map_or(self.length, |(&timestamp, _)| timestamp);
        (from < self.length).then_some(from..below)
    }
}

impl Peer {
    /// A site that should have answered has not: the sites that live make a new list.
    pub(super) fn suspect(&mut self, now: Time) {
        self.reformation.begin(now);
    }

    /// Does what the agreement asks for.
    pub(super) fn follow(&mut self, now: Time) {
        while let Some(step) = self.reformation.poll_step() {
            match step {
                Step::Leave => self.leave(),
                Step::Install => self.install(),
                Step::Short { votes } => self.events.too_few(too_few(votes, self.nodes.len())),
                Step::Fetch { length, state: Some(state), .. } => self.join(now, length, &state),
                Step::Fetch { from, length, continues, others, state: None } => {
                    let start = if continues { self.log.length() } else { self.log.committed() };
                    let start = start.min(length);
                    if length - start > self.log.most_apart() {
                        self.begin_anew(now);
                        continue;
                    }
                    let (from, entries) = (from as u16, BTreeMap::new());
                    self.fetch = Some(Fetch { from, others, start, length, entries, asked_below: 0 });
                    self.complete_fetch(now);
                }
            }
        }
    }

    /// Takes part in the old list no more.
    fn leave(&mut self) {
        self.events.push(Event::StateChanged { state: "reformation" });
        self.token = Token::Elsewhere;
        self.answers = Default::default();
        self.announce = false;
        self.fetch = None;
        self.timers.clear();
    }

    /// A list is in force: all of the log is committed.
    fn install(&mut self) {
        let view = *self.reformation.view();
        let ring: Vec<u16> = view.members.iter().map(|rank| rank as u16).collect();
        for &rank in self.ring.iter().filter(|&&rank| !view.members.contains(rank.into())) {
            self.events.member_lost(self.nodes[usize::from(rank)]);
        }
        for rank in view.joiners.iter().filter(|&rank| rank != usize::from(self.rank)) {
            self.events.push(Event::MemberJoined { member: self.nodes[rank] });
        }
        self.ring = ring;
        self.fetch = None;
        self.timers.clear();
        while let Some((id, payload)) = self.log.commit_all() {
            self.deliver(id, payload);
        }
        self.log.begin_view();
        self.inbox.tidy();
        self.requests = Requests::default();
        self.watch = Watch::default();
        self.answers = Default::default();
        self.token = if view.leader() == usize::from(self.rank) { Token::FIRST } else { Token::Elsewhere };
        // What the new list dropped has no place any more: its sources send it again.
        self.source.send_again(self.inbox.expected(self.rank));
        self.events.push(Event::StateChanged { state: "normal" });
    }

    /// Comes to the list without any state: takes nothing before `length`.
    fn join(&mut self, now: Time, length: u64, state: &[u8]) {
        let (numbers, rest) = state.as_chunks::<8>();
        if numbers.len() != self.nodes.len() || !rest.is_empty() {
            return;
        }
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect();
        let own = numbers[usize::from(self.rank)];
        let unsent = own > self.source.next() && !self.source.finished;
        if unsent || numbers.iter().any(|&number| number > MAX_NUMBER) {
            return;
        }
        self.log.restart(length);
        self.inbox.restart(&numbers);
        // Its messages of before may be in the order, unseen by it.
        for number in self.source.forget_before(own) {
            self.complete(MessageId(number));
        }
        self.accept_list(now);
    }

    fn accept_list(&mut self, now: Time) {
        let state = self.inbox.numbers().flat_map(u64::to_be_bytes).collect();
        self.fetch = None;
        self.timers.cancel(Timer::Fetch);
        self.reformation.fetched(now, state);
    }

    /// What this site would have to fetch is kept nowhere any more: it joins as if it had lost all.
    fn begin_anew(&mut self, now: Time) {
        for &rank in &self.ring {
            // Of each source, what comes next may be lost to it.
            let message = MessageId(self.inbox.expected(rank));
            self.events.push(Event::LossFound { source: None, message });
        }
        // It is asked to leave, like any other that has lost what it knew.
        self.reformation = self.strange.clone();
        self.reformation.handle_timeout(now, self.log.length());
    }

    /// The log from where this site's own may differ is complete: it takes its place.
    fn complete_fetch(&mut self, now: Time) {
        let Some(fetch) = self.fetch.take_if(|fetch| fetch.gap().is_none()) else { return };
        // Backwards, so that each source's next number is that of the first message removed.
        for id in self.log.truncate(fetch.start).into_iter().rev() {
            self.inbox.on_dropped(id);
        }
        for (_, (ack, payload)) in fetch.entries {
            self.append(ack, payload);
        }
        for id in self.log.truncate(fetch.length).into_iter().rev() {
            self.inbox.on_dropped(id);
        }
        self.accept_list(now);
    }

    /// A part of the log that is fetched.
    pub(super) fn on_fetched(&mut self, now: Time, from: u16, ack: Ack, payload: Bytes) {
        let Some(fetch) = &mut self.fetch else { return };
        let sites = self.nodes.len();
        let whole = ack.message.is_none_or(|id| usize::from(id.source) < sites && id.number < MAX_NUMBER);
        if from != fetch.from || !whole || !(fetch.start..fetch.length).contains(&ack.timestamp) {
            return;
        }
        fetch.entries.insert(ack.timestamp, (ack, payload));
        self.reformation.progress();
        self.complete_fetch(now);
        self.follow(now);
    }

    /// What is fetched is not kept there any more: perhaps another member of the new list has it, for the
    /// coordinator may be one that had lost what it knew.
    pub(super) fn on_purged(&mut self, now: Time, from: u16, below: u64) {
        let lacking = |fetch: &Fetch| fetch.from == from && fetch.gap().is_some_and(|gap| gap.start < below);
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| lacking(fetch)) else { return };
        if let Some(other) = fetch.others.iter().next() {
            fetch.others.remove(other);
            (fetch.from, fetch.asked_below) = (other as u16, 0);
        } else {
            self.begin_anew(now);
            self.follow(now);
        }
    }

    /// What is asked for next of the log that goes on.
    pub(super) fn poll_fetch(&mut self, now: Time) -> Option<(u16, Body<'static>)> {
        let fetch = self.fetch.as_mut()?;
        let gap = fetch.gap()?;
        let (from, below) = (gap.start.max(fetch.asked_below), gap.end.min(gap.start + RUN));
        if from >= below {
            return None;
        }
        fetch.asked_below = below;
        self.timers.arm(Timer::Fetch, now + self.settings.request_timeout);
        self.events.push(Event::ControlSent { packet: "retrans", message: MessageId(from) });
        Some((fetch.from, Body::Retrans { from, below }))
    }

    /// What was asked for has not come. One that is not the coordinator may never answer: it may not
    /// have accepted the list, and may have failed. Each has its turn.
    pub(super) fn on_fetch_timeout(&mut self) {
        let coordinator = u16::from(self.reformation.promised().coordinator);
        if let Some(fetch) = &mut self.fetch {
            fetch.asked_below = 0;
            let mut others = fetch.others.iter();
            let next = others.find(|&other| other > fetch.from.into()).or(fetch.others.iter().next());
            if let Some(other) = next.filter(|_| fetch.from != coordinator) {
                fetch.others.remove(other);
                fetch.others.insert(fetch.from.into());
                fetch.from = other as u16;
            }
        }
    }
}

/// The greatest number of a message: there is room to count on.
pub(super) const MAX_NUMBER: u64 = u64::MAX / 4;
