//! Several sources in one group, for protocols with one sender.
//!
//! Each source has an association of its own, as each has its own multicast tree. A member runs the sender's machine
//! for its own messages, and a receiver's or helper's machine for each other source; the association of a packet
//! selects the machine. Machines are made when they are needed, so that silent members cost nothing.
//!
//! Source: Paul, Sabnani and Kristol 1994, section 2: "multipoint-to-multipoint multicast is also possible as long as
//! the multicast trees are set up for each source".

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Delivery, DropReason, Event, Events, HelperTable,
    Machine, MessageId, NodeId, Notice, ObservedState, OfferError, ProtocolEntry, Received, Receiver, Role,
    Sender, Time, Transmit,
};

/// Machines of one node, one for each source.
#[derive(Debug)]
pub struct ManySources {
    protocol: &'static ProtocolEntry,
    config: Config,
    context: BuildContext,
    /// True for a node that only helps.
    is_helper: bool,
    table: Arc<HelperTable>,
    /// Machine of each source, by its index among the members.
    machines: BTreeMap<usize, Box<dyn Machine>>,
    /// Index of the machine that may send next: all take turns.
    turn: usize,
    finished: bool,
    /// True if all own messages are complete, after the last call.
    is_done: bool,
    /// Drops of packets that belong to no source.
    events: Events,
}

impl ManySources {
    /// Creates the machines' host at a member, or at a node that only helps. `context.members` are all members, each
    /// a possible source. Fails if a setting is invalid.
    pub fn new(
        protocol: &'static ProtocolEntry,
        role: Role,
        context: &BuildContext,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        let mut node = ManySources {
            protocol,
            config: config.clone(),
            context: context.clone(),
            is_helper: role == Role::Helper,
            table: context.helpers.clone(),
            machines: BTreeMap::new(),
            turn: 0,
            finished: false,
            is_done: false,
            events: Events::default(),
        };
        // A machine for any source shows whether the settings are valid.
        node.machine(0, Time::ZERO)?;
        node.machines.clear();
        Ok(node)
    }

    /// Machine of a source, made and started on first use.
    fn machine(&mut self, source: usize, now: Time) -> Result<&mut Box<dyn Machine>, ConfigError> {
        if !self.machines.contains_key(&source) {
            let sender = self.context.members[source];
            let role = match () {
                _ if self.is_helper => Role::Helper,
                _ if sender == self.context.node => Role::Sender,
                _ => Role::Receiver,
            };
            let others = self.context.members.iter().copied().filter(|&member| member != sender);
            let mut members: Vec<NodeId> = others.collect();
            if role == Role::Sender {
                // Real hosts number the nodes for themselves, and a sender takes its members in ascending order.
                members.sort_unstable();
            }
            let context = BuildContext {
                association: self.association(source),
                sender,
                members: members.into(),
                helpers: self.table_of(sender),
                seeds: self.context.seeds.part(&format!("source.{source}")),
                memory: self.context.memory / self.context.members.len().max(1),
                ..self.context.clone()
            };
            let mut machine = (self.protocol.build)(role, &context, &self.config)?;
            machine.start(now);
            self.machines.insert(source, machine);
        }
        Ok(self.machines.get_mut(&source).expect("it was just made"))
    }

    fn association(&self, source: usize) -> AssociationId {
        AssociationId(self.context.association.0.wrapping_add(source as u32))
    }

    /// Index of the source to which a datagram belongs.
    fn source_of(&self, bytes: &[u8]) -> Option<usize> {
        let association = (self.protocol.session.many_sources?)(bytes)?;
        let source = association.0.wrapping_sub(self.context.association.0) as usize;
        (source < self.context.members.len()).then_some(source)
    }

    /// Table of helpers for a source: it is the root, so its own children are its own again.
    fn table_of(&self, source: NodeId) -> Arc<HelperTable> {
        self.table.without(source).map_or_else(|| self.table.clone(), Arc::new)
    }

    /// Index of this node among the members.
    fn own(&self) -> Option<usize> {
        self.context
            .members
            .iter()
            .position(|&member| member == self.context.node)
            .filter(|_| !self.is_helper)
    }

    /// Sender of this node's own messages, if it has offered any.
    fn sender(&mut self) -> Option<&mut dyn Sender> {
        let own = self.own()?;
        self.machines.get_mut(&own)?.as_sender()
    }

    /// Notes whether all own messages are complete.
    fn check(&mut self) {
        let is_done = self.sender().is_none_or(|sender| sender.is_finished());
        self.is_done = is_done;
    }
}

impl Machine for ManySources {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let Some(source) = self.source_of(datagram.bytes) else {
            return self.events.dropped(DropReason::Foreign);
        };
        // A member that has offered nothing is no source yet.
        if Some(source) == self.own() && !self.machines.contains_key(&source) {
            return self.events.dropped(DropReason::Foreign);
        }
        match self.machine(source, now) {
            Ok(machine) => machine.handle_datagram(now, datagram),
            Err(_) => self.events.dropped(DropReason::Foreign),
        }
        self.check();
    }

    fn handle_timeout(&mut self, now: Time) {
        let due = |machine: &&mut Box<dyn Machine>| machine.poll_timeout().is_some_and(|at| at <= now);
        self.machines.values_mut().filter(due).for_each(|machine| machine.handle_timeout(now));
        self.check();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.machines.values().filter_map(|machine| machine.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let turn = self.turn;
        for range in [turn..usize::MAX, 0..turn] {
            for (&source, machine) in self.machines.range_mut(range) {
                if let Some(transmit) = machine.poll_transmit(now, buf) {
                    self.turn = source + 1;
                    return Some(transmit);
                }
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop().or_else(|| self.machines.values_mut().find_map(|machine| machine.poll_event()))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.machines.values_mut().find_map(|machine| machine.poll_notice())
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        // The blocks of several sources have the same numbers, so only the node's own are reported.
        if let Some(sender) = self.own().and_then(|own| self.machines.get(&own)) {
            sender.report_states(now, tell);
        }
    }

    fn held(&self) -> Option<u64> {
        self.machines.values().filter_map(|machine| machine.held()).reduce(|sum, held| sum + held)
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        if table.edition() <= self.table.edition() {
            return;
        }
        self.table = table.clone();
        let tables: Vec<(usize, Arc<HelperTable>)> = self
            .machines
            .keys()
            .map(|&source| (source, self.table_of(self.context.members[source])))
            .collect();
        for (source, table) in tables {
            if let Some(machine) = self.machines.get_mut(&source) {
                machine.update_helpers(now, &table);
            }
        }
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        (!self.is_helper).then_some(self as _)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        (!self.is_helper).then_some(self as _)
    }
}

impl Sender for ManySources {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let own = self.own().filter(|_| !self.finished).ok_or(OfferError::Finished)?;
        let machine = self.machine(own, now).map_err(|_| OfferError::Finished)?;
        let offered = machine.as_sender().ok_or(OfferError::Finished)?.offer(now, payload);
        self.check();
        offered
    }

    fn finish(&mut self, now: Time) {
        self.finished = true;
        if let Some(sender) = self.sender() {
            sender.finish(now);
        }
        self.check();
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        if let Some(sender) = self.sender() {
            sender.expel(now, member);
        }
        self.check();
    }

    fn is_finished(&self) -> bool {
        self.finished && self.is_done
    }
}

impl Receiver for ManySources {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.machines.values_mut().find_map(|machine| machine.as_receiver()?.poll_delivery())
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::{AssociationId, BitRate, Dest, GroupId, PortId, Scope, Seeds};

    use super::*;
    use crate::find;

    fn context(node: u32) -> BuildContext {
        BuildContext {
            association: AssociationId(7),
            node: NodeId(node),
            sender: NodeId(0),
            members: [0, 1, 2].map(NodeId).into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(10),
            link_overhead: 28,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        }
    }

    fn member(node: u32) -> ManySources {
        let entry = find("snr").expect("a protocol");
        let config = Config::defaults(entry.parameters);
        ManySources::new(entry, Role::Peer, &context(node), &config).expect("valid settings")
    }

    fn receive(machine: &mut ManySources, from: u32, bytes: &[u8]) {
        let (bytes, destination) = (Bytes::copy_from_slice(bytes), Dest::group(GroupId(0)));
        let datagram = Received {
            source: NodeId(from),
            destination: &destination,
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        machine.handle_datagram(Time::ZERO, datagram);
    }

    /// Datagrams that a machine sends now.
    fn sent(machine: &mut ManySources) -> Vec<Vec<u8>> {
        let mut buf = Vec::new();
        let next = || machine.poll_transmit(Time::ZERO, &mut buf).map(|_| std::mem::take(&mut buf));
        std::iter::from_fn(next).collect()
    }

    fn drops(machine: &mut ManySources) -> Vec<DropReason> {
        let drop = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        std::iter::from_fn(|| machine.poll_event()).filter_map(drop).collect()
    }

    #[test]
    fn each_source_has_an_association_of_its_own() {
        let (mut first, mut third) = (member(0), member(2));
        for (machine, association) in [(&mut first, 7), (&mut third, 9)] {
            machine.offer(Time::ZERO, Bytes::from_static(b"x")).expect("there is room");
            let datagrams = sent(machine);
            assert!(!datagrams.is_empty());
            for bytes in datagrams {
                assert_eq!(carillon_wire::envelope::association_of(&bytes), Some(AssociationId(association)));
            }
        }
        assert!(!first.is_finished());
        first.finish(Time::ZERO);
        assert!(!first.is_finished(), "no member has the message");
        let mut silent = member(1);
        silent.finish(Time::ZERO);
        assert!(silent.is_finished(), "it has offered nothing");
    }

    /// On a real host the node itself is number 0, at any place in the list of members.
    #[test]
    fn source_takes_members_in_any_order() {
        for name in ["snr", "dsp", "csp", "cp", "xtp"] {
            let entry = find(name).expect("a protocol");
            let config = Config::defaults(entry.parameters);
            let context = BuildContext { members: [2, 1, 0, 3].map(NodeId).into(), ..context(0) };
            let mut machine = ManySources::new(entry, Role::Peer, &context, &config).expect("valid settings");
            machine.offer(Time::ZERO, Bytes::from_static(b"x")).expect("there is room");
            assert!(!sent(&mut machine).is_empty(), "{name}");
        }
    }

    #[test]
    fn packet_makes_a_receiver_of_its_source_only() {
        let (mut source, mut member) = (member(2), member(1));
        source.offer(Time::ZERO, Bytes::from_static(b"x")).expect("there is room");
        for bytes in sent(&mut source) {
            receive(&mut member, 2, &bytes);
        }
        assert_eq!(member.machines.keys().copied().collect::<Vec<_>>(), [2]);
        let delivery = member.as_receiver().and_then(|receiver| receiver.poll_delivery()).expect("a message");
        assert_eq!((delivery.source, delivery.message), (NodeId(2), MessageId(0)));
        assert!(member.poll_timeout().is_some(), "it will report its state");
    }

    #[test]
    fn packets_of_no_source_are_dropped() {
        let mut machine = member(1);
        let mut rng = Seeds::new(3).stream("noise");
        for _ in 0..1000 {
            let mut noise = vec![0; rng.below(40) as usize];
            rng.fill(&mut noise);
            receive(&mut machine, 2, &noise);
        }
        assert!(machine.machines.is_empty());
        let envelope = |association: u32| {
            let mut bytes = vec![0xca, 1, 40, 5];
            bytes.extend(association.to_be_bytes());
            bytes
        };
        // An association beyond the members, and that of this member, which has offered nothing.
        for association in [10, 6, 8] {
            receive(&mut machine, 2, &envelope(association));
        }
        assert!(machine.machines.is_empty());
        assert_eq!(drops(&mut machine), [DropReason::Foreign; 1003]);
        receive(&mut machine, 2, &envelope(9));
        assert_eq!((machine.machines.len(), drops(&mut machine)), (1, vec![DropReason::Malformed]));
    }
}
