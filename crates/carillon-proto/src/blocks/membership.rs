//! Membership of one node in the successive views of its group, in a protocol with a total order of messages.
//!
//! When the agreement ([`Reformation`]) proposes a new view, the member stops ordering, fetches the part of the log
//! that it misses, and installs the view (virtual synchrony: Birman and Joseph 1987). Thus all members of a view have
//! delivered the same messages before it.

use carillon_core::{DropReason, Event, MessageId};
use carillon_wire::reformation::Ranks;

use super::reformation::{Reformation, Step, View, too_few};
use super::{LogTransfer, MachineContext, OrderLog, Placed, next_numbers};

/// Total order of a protocol, as a new view continues it.
pub trait ViewOrder<K> {
    /// Entry of the order.
    type Entry: Placed;
    /// Knowledge about a place beyond a gap.
    type Early;

    /// Log of the order.
    fn log(&self) -> &OrderLog<Self::Entry, Self::Early>;

    /// Maximum number of messages to fetch. A live member is never further behind others that keep what it misses.
    fn max_fetched(&self) -> u64;

    /// Suspends the order: between views nothing is ordered, acknowledged or delivered.
    fn leave(&mut self) {}

    /// Delivers what is left of the view that ends, and returns the members as the host knows them then. `known` are
    /// the members of the last view.
    fn conclude(&mut self, _context: &mut MachineContext<K>, known: Ranks) -> Ranks {
        known
    }

    /// Replaces the log from place `from` on by the entries that other members hold. `skipped` gives the members'
    /// next sequence numbers at `from` if nothing before it is available.
    fn replace(
        &mut self,
        context: &mut MachineContext<K>,
        from: u64,
        skipped: Option<Vec<u64>>,
        entries: impl Iterator<Item = Self::Entry>,
    );

    /// Joins a view without any state, and accepts nothing before this place. Returns false if that is not allowed.
    fn join(&mut self, context: &mut MachineContext<K>, place: u64, numbers: Vec<u64>) -> bool;

    /// Installs a view: the log is accepted as a whole, and messages outside it have no place.
    fn install(&mut self, context: &mut MachineContext<K>, view: &View);
}

/// Agreement on the view, and the log transfer before one is accepted.
#[derive(Debug)]
pub struct Membership<T> {
    /// Agreement of the group on its views.
    agreement: Reformation,
    /// Agreement in the state of a member that lost its state, if a member that can fetch nothing may join like that.
    stateless: Option<Reformation>,
    /// Members of the last view that was installed here.
    known: Ranks,
    /// Log transfer in progress for the promised ballot.
    transfer: Option<LogTransfer<T>>,
}

/// Change of a member's part in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The member is in no view.
    Left,
    /// Another view is in force.
    Installed,
}

impl<T: Placed> Membership<T> {
    /// Creates the membership in the first view.
    pub fn new(agreement: Reformation, stateless: Option<Reformation>) -> Self {
        let known = agreement.view().members;
        Membership { agreement, stateless, known, transfer: None }
    }

    /// Performs the steps of the agreement up to the next change. Call this until it returns `None` after each call
    /// that touches the agreement.
    pub fn follow<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
    ) -> Option<Change> {
        // A transfer for another ballot may be of another order.
        let ballot = self.agreement.promised().number;
        self.transfer.take_if(|transfer| transfer.ballot() != ballot);
        while let Some(step) = self.agreement.poll_step() {
            let change = self.on_step(context, order, step);
            // Record the state after each step, so that observers see all transitions.
            context.events.push(Event::StateChanged { state: self.agreement.state().state });
            // The protocol first resets its parts for this change. The next step may concern a later view.
            if change.is_some() {
                return change;
            }
        }
        None
    }

    /// Handles a log entry that another member sent.
    pub fn on_fetched<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
        from: usize,
        place: u64,
        entry: T,
    ) {
        // The bound keeps memory finite, whatever length of the log the coordinator has announced.
        if let Some(transfer) = &mut self.transfer
            && transfer.len() < order.max_fetched()
            && transfer.insert(from, place, entry)
        {
            // At the coordinator, each entry restarts the count of timeouts after which the ballot fails.
            self.agreement.progress();
            self.complete(context, order);
        }
    }

    /// Handles the notice of the polled member that nothing before this place is available. `numbers` are the
    /// members' next sequence numbers there.
    pub fn on_gone<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
        place: u64,
        numbers: Vec<u64>,
    ) {
        // A place outside of this range comes from a late notice, or from a forged one.
        if let Some(transfer) = &mut self.transfer
            && (transfer.missing() + 1..=transfer.length()).contains(&place)
        {
            transfer.skip_to(place, numbers);
            self.agreement.progress();
            self.complete(context, order);
        }
    }

    /// Handles the notice that the polled member does not keep the places before `below`. Another member of the new
    /// view may keep them, since the coordinator can be one that lost its state. If none does, this member joins as
    /// if it had lost its state.
    pub fn on_purged<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &impl ViewOrder<K, Entry = T>,
        below: u64,
    ) {
        // A late notice about places that have arrived meanwhile changes nothing.
        if let Some(transfer) = &mut self.transfer
            && transfer.missing() < below
            && !transfer.try_another()
        {
            self.rejoin(context, order);
        }
    }

    /// Returns true if the packet's view is in force here and both nodes belong to it. Records a drop otherwise, and
    /// notifies the sender of an older view.
    pub fn admits<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        from: usize,
        number: u32,
    ) -> bool {
        let (view, in_force) = (*self.agreement.view(), self.agreement.takes_part());
        // An older number shows that the sender missed a view change.
        if number < view.number() {
            self.agreement.on_older_view(from);
        }
        let reason = match number == view.number() && in_force {
            true if from != context.rank && view.members.contains(from) => return true,
            true => DropReason::NotAMember,
            // A packet of another view, or between views: the log here stays as this member's vote has stated it.
            false => DropReason::OutOfWindow,
        };
        context.events.dropped(reason);
        false
    }

    /// Handles the timeout of a log request.
    pub fn on_fetch_timeout(&mut self) {
        let coordinator = self.agreement.promised().coordinator.into();
        if let Some(transfer) = &mut self.transfer {
            transfer.retry(coordinator);
        }
    }

    /// Next log request, with the member to send it to: see [`LogTransfer::ask`].
    pub fn ask(&mut self, window: u64, most: u64) -> Option<(usize, std::ops::Range<u64>)> {
        self.transfer.as_mut()?.ask(window, most)
    }

    /// Removes a member that is gone for good.
    pub fn expel<K>(&mut self, context: &MachineContext<K>, rank: usize) {
        // After a rejoin, the agreement without state must not await the node either.
        if let Some(stateless) = &mut self.stateless {
            stateless.expel(context.now, rank);
        }
        self.agreement.expel(context.now, rank);
    }

    /// Removes a member that is gone for good, of which the protocol's order makes a list without it.
    pub fn expel_in_order<K>(&mut self, context: &MachineContext<K>, rank: usize) {
        if let Some(stateless) = &mut self.stateless {
            stateless.expel(context.now, rank);
        }
        self.agreement.expel_from_next(context.now, rank);
    }

    /// Enters a view in force as a member without state, which the protocol's order has admitted at this place.
    /// `numbers` are the members' next sequence numbers there. Returns false if this member cannot enter.
    pub fn enter<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
        view: View,
        (place, numbers): (u64, Vec<u64>),
    ) -> bool {
        let enters = self.agreement.may_enter(&view) && order.join(context, place, numbers);
        if enters {
            self.agreement.enter(context.now, view);
        }
        enters
    }

    /// Agreement, to report packets and time to. Call [`Membership::follow`] afterwards.
    pub fn agreement_mut(&mut self) -> &mut Reformation {
        &mut self.agreement
    }

    /// Agreement on the view.
    pub fn agreement(&self) -> &Reformation {
        &self.agreement
    }

    /// First missing place of the log transfer, if one is in progress.
    pub fn missing(&self) -> Option<u64> {
        self.transfer.as_ref().map(LogTransfer::missing)
    }

    /// Returns true if the log request in progress goes to this member.
    pub fn asks(&self, rank: usize) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.asks(rank))
    }

    /// Returns true if a packet of view `number` shows that the others went on without this member. It then sends a
    /// packet, so that it is notified.
    pub fn is_behind(&self, number: u32) -> bool {
        self.agreement.takes_part() && number > self.agreement.view().number()
    }

    /// Returns true if this member keeps a view from being in force here.
    pub fn awaits(&self, rank: usize) -> bool {
        self.asks(rank) || self.agreement.awaits(rank)
    }

    /// Performs one step of the agreement.
    fn on_step<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
        step: Step,
    ) -> Option<Change> {
        match step {
            Step::Leave => {
                // The timers belong to the order of the view that ends here.
                context.timers.clear();
                order.leave();
                return Some(Change::Left);
            }
            Step::Install => {
                // Nothing that was awaited between the views is awaited in the new one.
                context.timers.clear();
                let view = self.agreement.view();
                // The host learns of the changes since the last view that was in force here. Views in between may have
                // failed.
                let known = order.conclude(context, std::mem::replace(&mut self.known, view.members));
                context.on_view(&known, view);
                order.install(context, view);
                return Some(Change::Installed);
            }
            Step::Short { votes } => context.events.too_few_members(too_few(votes, context.nodes.len())),
            Step::Fetch { length, state: Some(state), .. } => {
                // A joiner fetches no log. It begins at the end of the log, with the sequence number of each member
                // there. If the state is invalid, it is never ready and its ballot times out.
                if let Some(numbers) = next_numbers(&state, context.nodes.len())
                    && order.join(context, length, numbers)
                {
                    self.accept(context, order);
                }
            }
            Step::Fetch { from, length, continues, others, state: None } => {
                let (log, ballot) = (order.log(), self.agreement.promised().number);
                // A view that continues the own log needs only its end. Otherwise everything undelivered may differ.
                let start = if continues { log.length() } else { log.delivered() };
                // The member was away so long that no member has to keep what it misses.
                if self.stateless.is_some() && length.saturating_sub(start) > order.max_fetched() {
                    self.rejoin(context, order);
                } else if length >= log.delivered() {
                    self.transfer = Some(LogTransfer::new(ballot, from, others, start, length));
                    self.complete(context, order);
                }
                // Otherwise ignore the step: no view takes back delivered messages.
            }
        }
        None
    }

    /// Replaces the log once the transfer is complete.
    fn complete<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &mut impl ViewOrder<K, Entry = T>,
    ) {
        // The log changes in one step. Until then it is the one that this member's vote has stated.
        if let Some(transfer) = self.transfer.take_if(|transfer| transfer.is_complete()) {
            let (start, skipped, entries) = transfer.into_parts();
            order.replace(context, start, skipped, entries);
            self.accept(context, order);
        }
    }

    /// Reports to the agreement that the log of the proposed view is complete here.
    fn accept<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &impl ViewOrder<K, Entry = T>,
    ) {
        // The state describes the end of the log: a coordinator sends it to nodes that join without a log.
        let log = order.log();
        self.agreement.fetched(context.now, log.state_at(log.length()));
    }

    /// Restarts as a member without state, since no member keeps the log it would have to fetch. It is asked to
    /// leave, and asks to join.
    fn rejoin<K: Ord + Copy>(
        &mut self,
        context: &mut MachineContext<K>,
        order: &impl ViewOrder<K, Entry = T>,
    ) {
        let Some(stateless) = &self.stateless else { return };
        for rank in self.known.iter() {
            // The next message of each member may be lost here.
            let message = MessageId(order.log().next(rank));
            context.events.loss_found(None, message);
        }
        // The copy stems from the start of the run, so its timer is overdue. Fire it now, which arms it for the present
        // time.
        self.agreement = stateless.clone();
        self.agreement.handle_timeout(context.now, order.log().length());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carillon_core::{BitRate, BuildContext, GroupId, NodeId, Rng, Seeds, Time};

    use super::super::reformation::{Terms, To};
    use super::*;

    type Entry = Option<(usize, u64)>;

    /// Order of a member that delivers everything given to it.
    #[derive(Debug)]
    struct Toy(OrderLog<Entry, ()>);

    impl ViewOrder<()> for Toy {
        type Entry = Entry;
        type Early = ();

        fn log(&self) -> &OrderLog<Entry, ()> {
            &self.0
        }

        fn max_fetched(&self) -> u64 {
            1000
        }

        fn leave(&mut self) {}

        fn replace(
            &mut self,
            _context: &mut MachineContext<()>,
            from: u64,
            _skipped: Option<Vec<u64>>,
            entries: impl Iterator<Item = Entry>,
        ) {
            self.0.truncate(from);
            entries.for_each(|entry| self.0.push(entry));
        }

        fn join(&mut self, _context: &mut MachineContext<()>, place: u64, numbers: Vec<u64>) -> bool {
            self.0.skip_to(place, numbers);
            true
        }

        fn install(&mut self, _context: &mut MachineContext<()>, _view: &View) {
            while self.0.deliver_if(|_| true).is_some() {}
        }
    }

    struct Member {
        context: MachineContext<()>,
        membership: Membership<Entry>,
        order: Toy,
        alive: bool,
    }

    const COUNT: usize = 5;

    fn group(seed: u64) -> Vec<Member> {
        let members: Vec<NodeId> = (0..COUNT as u32).map(NodeId).collect();
        let member = |rank: usize| {
            let build = BuildContext {
                association: carillon_core::AssociationId(7),
                node: members[rank],
                sender: members[0],
                members: members.clone().into(),
                helpers: Default::default(),
                identities: Default::default(),
                addresses: Default::default(),
                group: GroupId(0),
                seeds: Seeds::new(seed),
                bit_rate: BitRate::mbps(10),
                link_overhead: 0,
                max_payload: 100,
                memory: usize::MAX,
                rejoining: false,
            };
            let terms = Terms {
                interval: Duration::from_millis(10),
                tries: 3,
                resilience: 1,
                min_members: 0,
                admits_in_order: false,
            };
            let rng = Seeds::new(seed).part(&format!("node {rank}")).stream("membership");
            let agreement = Reformation::new(rank, COUNT, terms, rng, false).expect("a group");
            Member {
                context: MachineContext::new(&build),
                membership: Membership::new(agreement, None),
                order: Toy(OrderLog::new(COUNT)),
                alive: true,
            }
        };
        (0..COUNT).map(member).collect()
    }

    /// Exchanges all packets and answers all fetches until no member has any left.
    fn settle(members: &mut [Member], now: Time) {
        loop {
            let mut said = false;
            for rank in (0..COUNT).filter(|&rank| members[rank].alive).collect::<Vec<_>>() {
                let Member { context, membership, order, .. } = &mut members[rank];
                context.now = now;
                while membership.follow(context, order).is_some() {}
                let length = order.0.length();
                if let Some((from, run)) = membership.ask(8, 8) {
                    said = true;
                    for place in run {
                        let Some(&entry) = members[from].order.0.get(place).filter(|_| members[from].alive)
                        else {
                            continue;
                        };
                        let Member { context, membership, order, .. } = &mut members[rank];
                        membership.on_fetched(context, order, from, place, entry);
                    }
                    continue;
                }
                let Some((to, packet)) = membership.agreement_mut().poll_transmit(length) else { continue };
                said = true;
                let (kind, mut bytes) = (packet.packet_type(), Vec::new());
                packet.emit(&mut bytes);
                for other in (0..COUNT).filter(|&other| other != rank) {
                    if members[other].alive && (to == To::Group || to == To::Rank(other)) {
                        let packet = carillon_wire::reformation::Packet::parse(kind, &bytes).expect("whole");
                        members[other].membership.agreement_mut().handle(now, rank, &packet);
                    }
                }
            }
            if !said {
                return;
            }
        }
    }

    /// Advances the time until the live members are in one view of these and nothing is in flight.
    fn reform(members: &mut [Member], now: &mut Time) {
        for _ in 0..2000 {
            settle(members, *now);
            let live = || members.iter().filter(|member| member.alive);
            let ranks: Ranks = live().map(|member| member.context.rank).collect();
            let in_force = |member: &Member| {
                let agreement = member.membership.agreement();
                agreement.takes_part() && !agreement.is_busy() && agreement.view().members == ranks
            };
            if live().all(in_force) {
                return;
            }
            *now += Duration::from_millis(1);
            for member in members.iter_mut().filter(|member| member.alive) {
                let length = member.order.0.length();
                member.membership.on_fetch_timeout();
                member.membership.agreement_mut().handle_timeout(*now, length);
            }
        }
        panic!("those who live come to a view");
    }

    /// Lets one member order messages, which reach each of the others up to a random place.
    fn order(members: &mut [Member], rng: &mut Rng) {
        for _ in 0..rng.below(20) {
            let lengths: Vec<u64> = members.iter().map(|member| member.order.0.length()).collect();
            let longest = (0..COUNT).filter(|&rank| members[rank].alive).max_by_key(|&rank| lengths[rank]);
            let longest = longest.expect("somebody lives");
            let source = rng.below(COUNT as u64) as usize;
            let next = members[longest].order.0.next(source);
            members[longest].order.0.push(Some((source, next)));
            for rank in (0..COUNT).filter(|&rank| rank != longest && members[rank].alive).collect::<Vec<_>>()
            {
                if rng.below(2) == 0 {
                    let place = members[rank].order.0.length();
                    let entry = members[longest].order.0.get(place).copied();
                    entry.into_iter().for_each(|entry| members[rank].order.0.push(entry));
                }
            }
        }
    }

    #[test]
    fn delivered_order_survives_crashes_at_all_members() {
        for seed in 0..60 {
            let mut rng = Seeds::new(seed).stream("model");
            let (mut members, mut now) = (group(seed), Time::ZERO);
            settle(&mut members, now);
            let mut delivered: Vec<Entry> = Vec::new();
            for crashes in 0..2 {
                order(&mut members, &mut rng);
                // A message that two members hold may be delivered, as it survives one crash.
                let mut lengths: Vec<u64> =
                    members.iter().filter(|m| m.alive).map(|m| m.order.0.length()).collect();
                lengths.sort_unstable_by(|a, b| b.cmp(a));
                let accepted = lengths[1];
                for member in members.iter_mut().filter(|member| member.alive) {
                    while member.order.0.delivered() < accepted
                        && let Some(&entry) = member.order.0.deliver_if(|_| true)
                    {
                        let place = member.order.0.delivered() as usize - 1;
                        if place == delivered.len() {
                            delivered.push(entry);
                        }
                        assert_eq!(delivered[place], entry);
                    }
                }
                let crashed = rng.below(COUNT as u64) as usize;
                members[crashed].alive = false;
                for member in members.iter_mut().filter(|member| member.alive) {
                    member.membership.agreement_mut().begin(now);
                }
                reform(&mut members, &mut now);
                let mut live = members.iter().filter(|member| member.alive);
                let first = live.next().expect("somebody lives");
                let order: Vec<Entry> = first.order.0.iter().copied().collect();
                assert!(live.all(|member| member.order.0.iter().copied().eq(order.iter().copied())));
                assert!(order.starts_with(&delivered), "seed {seed}, crash {crashes}");
                delivered = order;
            }
        }
    }
}
