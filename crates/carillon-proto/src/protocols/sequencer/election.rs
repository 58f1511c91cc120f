//! Between two views: what the [reformation](crate::blocks::reformation) asks for.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{DropReason, Event, MessageId, Time};
use carillon_wire::sequencer::Body;

use super::leader::Leader;
use super::log::{Entry, Log};
use super::member::{MOST_ASKED, near};
use super::peer::{Follower, SequencerPeer, Timer};
use crate::blocks::reformation::{Step, too_few};

/// The log of a new view, while it is fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    /// The number of the ballot for which it is fetched.
    ballot: u32,
    /// The rank of who has it.
    pub from: usize,
    /// One past its last place.
    length: u64,
    /// What is fetched, if what this node holds is of another order, or has a gap.
    staging: Option<Log>,
    /// Nothing before this place can be had any more; the next message of each member there.
    skip: Option<(u64, Vec<u64>)>,
    /// Places below this have been asked for.
    pub asked: u64,
}

/// What other nodes lack: places and ranks.
pub(super) type Serve = BTreeSet<(u64, usize)>;

impl SequencerPeer {
    /// Does what the reformation says.
    pub(super) fn step_election(&mut self, now: Time) {
        let promised = self.reformation.promised().number;
        if self.fetching.as_ref().is_some_and(|fetching| fetching.ballot != promised) {
            self.fetching = None;
        }
        while let Some(step) = self.reformation.poll_step() {
            match step {
                Step::Leave => {
                    self.leader = None;
                    self.follower = Follower::default();
                    self.timers.clear();
                    self.reception.unpark_all();
                }
                Step::Fetch { from, length, continues, state, .. } => {
                    self.timers.cancel(Timer::Fetch);
                    self.fetching = None;
                    match state {
                        Some(state) => self.join(now, length, &state),
                        None => {
                            let staging = Log::starting_at(self.reception.delivered());
                            let staging = (!continues).then_some(staging);
                            let ballot = self.reformation.promised().number;
                            self.fetching =
                                Some(Fetching { ballot, from, length, staging, skip: None, asked: 0 });
                            self.finish_fetch(now);
                        }
                    }
                }
                Step::Install => self.install(now),
                Step::Short { votes } => self.events.too_few(too_few(votes, self.members.len())),
            }
            self.events.push(Event::StateChanged { state: self.reformation.state() });
        }
    }

    /// FETCH, FETCHED and GONE.
    pub(super) fn on_transfer(&mut self, now: Time, from: usize, view: u32, body: Body<'_>, bytes: &Bytes) {
        if view != self.reformation.promised().number {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let staging = self.fetching.as_ref().and_then(|fetching| fetching.staging.as_ref());
        let at = staging.unwrap_or(self.reception.log()).contiguous();
        let count = self.members.len();
        match (body, &mut self.fetching) {
            (Body::Fetch { order }, _) => {
                let place = near(order, self.reception.contiguous());
                self.events.push(Event::Received { packet: body.name(), message: MessageId(place) });
                if place < self.reception.contiguous() {
                    self.serve.insert((place, from));
                }
            }
            (Body::Fetched { order, source, message, payload }, Some(fetching))
                if fetching.from == from && usize::from(source) < count =>
            {
                let place = near(order, at);
                let message = near(message, self.reception.heard(source.into()));
                let payload = bytes.slice_ref(payload);
                let entry = Entry { source: source.into(), message, body: Some(payload) };
                self.events.push(Event::Received { packet: body.name(), message: MessageId(message) });
                self.on_fetched(now, place, entry);
            }
            (Body::Gone { order, state }, Some(fetching)) if fetching.from == from => {
                let place = near(order, at);
                let numbers = decode(state, count);
                if let Some(numbers) = numbers.filter(|_| (at + 1..=fetching.length).contains(&place)) {
                    fetching.staging = Some(Log::starting_at(place));
                    fetching.skip = Some((place, numbers));
                    self.reformation.progress();
                    self.finish_fetch(now);
                }
            }
            _ => self.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// The first place that is lacking and has not been asked for.
    pub(super) fn to_fetch(&self) -> Option<(usize, u64)> {
        let fetching = self.fetching.as_ref()?;
        let log = fetching.staging.as_ref().unwrap_or(self.reception.log());
        let start = log.contiguous();
        let end = fetching.length.min(start.saturating_add(MOST_ASKED));
        let place = (start.max(fetching.asked)..end).find(|&place| log.get(place).is_none())?;
        Some((fetching.from, place))
    }

    /// What was asked for has not come: asks again.
    pub(super) fn on_fetch_timer(&mut self) {
        if let Some(fetching) = &mut self.fetching {
            fetching.asked = 0;
        }
    }

    fn on_fetched(&mut self, now: Time, place: u64, entry: Entry) {
        let capacity = 4 * self.settings.history;
        let Some(fetching) = &mut self.fetching else { return };
        if place >= fetching.length {
            return;
        }
        let taken = match &mut fetching.staging {
            Some(staging) if staging.len() < capacity => {
                staging.insert(place, entry);
                true
            }
            Some(_) => false,
            None => self.reception.insert_fetched(place, entry),
        };
        if taken {
            self.reformation.progress();
            self.finish_fetch(now);
        } else {
            self.events.dropped(DropReason::BufferFull);
        }
    }

    /// Makes what was fetched this node's own, once it is all there.
    fn finish_fetch(&mut self, now: Time) {
        let Some(fetching) = &self.fetching else { return };
        // No view takes back what was delivered.
        let held = fetching.staging.as_ref().unwrap_or(self.reception.log()).contiguous();
        let wanted = fetching.length;
        if (held < wanted && fetching.from != self.rank) || wanted < self.reception.delivered() {
            return;
        }
        let Some(Fetching { staging, skip, .. }) = self.fetching.take() else { return };
        if let Some(staging) = staging {
            let keep = self.reception.delivered();
            self.reception.truncate(keep);
            if let Some((place, numbers)) = skip {
                self.skip_to(place, numbers);
            }
            for (place, entry) in staging.range(0) {
                self.reception.insert_fetched(place, entry.clone());
            }
        }
        self.reception.truncate(wanted);
        self.timers.cancel(Timer::Fetch);
        self.reformation.fetched(now, self.state_at(wanted));
    }

    /// Comes to the group without any state.
    fn join(&mut self, now: Time, length: u64, state: &[u8]) {
        let Some(numbers) = decode(state, self.members.len()) else { return };
        if self.outbox.is_empty() {
            self.outbox.number_from(numbers[self.rank]);
        }
        self.reception.start_at(length, numbers);
        self.reformation.fetched(now, Vec::new());
    }

    fn install(&mut self, now: Time) {
        self.quiet_since = now;
        let view = *self.reformation.view();
        self.reception.commit_all();
        self.deliver();
        let length = self.reception.contiguous();
        let numbers = self.reception.numbers_at(length);
        self.outbox.reorder(numbers[self.rank]);
        self.follower = Follower { reported: length, ..Follower::default() };
        self.leader = (view.leader() == self.rank)
            .then(|| Leader::new(self.rank, &view.members, self.settings.resilience, length, numbers));
        for gone in self.known.without(&view.members).iter() {
            self.events.member_lost(self.members[gone]);
        }
        let come = view.members.without(&self.known).or(&view.joiners);
        for new in come.iter().filter(|&rank| rank != self.rank) {
            self.events.push(Event::MemberJoined { member: self.members[new] });
        }
        self.known = view.members;
        self.serve.clear();
    }

    /// What a node that begins at this place must know: the next message of each member.
    pub(super) fn state_at(&self, place: u64) -> Vec<u8> {
        self.reception.numbers_at(place).iter().flat_map(|number| number.to_be_bytes()).collect()
    }
}

/// The next message of each of so many members.
pub(super) fn decode(state: &[u8], members: usize) -> Option<Vec<u64>> {
    let (numbers, rest) = state.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|&bytes| u64::from_be_bytes(bytes)).collect();
    let fits = numbers.len() == members && rest.is_empty();
    (fits && numbers.iter().all(|&number| number <= MAX_NUMBER)).then_some(numbers)
}

/// No member sends more messages than this.
const MAX_NUMBER: u64 = 1 << 62;
