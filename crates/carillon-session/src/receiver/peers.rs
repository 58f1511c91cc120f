//! Knowledge of a member about the others, among peers or in a session with helpers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_core::{
    BuildContext, Config, DropReason, Helper, HelperTable, Identities, Machine, NodeId, ProtocolEntry, Role,
};
use carillon_wire::session::{MemberRole, RosterPage};

use super::failure::ReceiverFailure;
use crate::LOCAL_NODE;
use crate::config::trial_table;

/// Member of a session with a roster, as another member knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMember {
    /// Name of the member.
    pub name: String,
    /// Node of the member; [`LOCAL_NODE`] for this member itself.
    pub node: NodeId,
    /// Role of the member.
    pub part: MemberRole,
    /// Reason why the member is lost, if it is.
    pub lost: Option<String>,
}

/// Other members, as far as this one knows them.
#[derive(Debug)]
pub(super) struct Peers {
    protocol: &'static ProtocolEntry,
    /// Role in the protocol.
    role: Role,
    /// Role that this member wants.
    part: MemberRole,
    config: Config,
    /// Assignment of members to helpers, once this member is ready.
    pub table: Arc<HelperTable>,
    /// Context for the machine; members and identities are added when known.
    pub context: BuildContext,
    edition: u32,
    /// Roster by rank; empty until the first page.
    pub roster: Vec<Option<Entry>>,
    /// Node of each identity received from.
    pub heard: BTreeMap<u64, NodeId>,
    /// Machine, from the time this member is ready until the start.
    pub ready: Option<Box<dyn Machine>>,
    /// Members by rank, once this member is ready.
    members: Vec<PeerMember>,
    /// Rank of each node, once this member is ready.
    ranks: BTreeMap<NodeId, usize>,
}

/// Entry of the roster.
#[derive(Debug)]
pub(super) struct Entry {
    pub identity: u64,
    name: String,
    part: MemberRole,
    /// Rank of the member that it turns to.
    parent: usize,
}

impl Peers {
    pub fn new(
        protocol: &'static ProtocolEntry,
        part: MemberRole,
        config: Config,
        context: BuildContext,
    ) -> Self {
        let role = match part {
            MemberRole::Helps => Role::Helper,
            _ if protocol.roles.contains(&Role::Peer) => Role::Peer,
            _ => Role::Receiver,
        };
        Peers {
            protocol,
            role,
            part,
            config,
            table: Arc::default(),
            context,
            edition: 0,
            roster: Vec::new(),
            heard: BTreeMap::new(),
            ready: None,
            members: Vec::new(),
            ranks: BTreeMap::new(),
        }
    }

    /// Tries the settings with a small group.
    pub fn check(&self) -> Result<(), String> {
        // Any two different identities serve the purpose, as this machine is dropped at once.
        let (sender, own) = (self.context.sender, self.context.identities.own(LOCAL_NODE));
        let table = Arc::new(trial_table(self.protocol));
        self.build(&[(sender, !own), (LOCAL_NODE, own)], &table).map(drop)
    }

    /// Members by rank, once all are known.
    pub fn members(&self) -> &[PeerMember] {
        &self.members
    }

    /// Edition of the roster that this member has.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// Returns true if this node is a member that is not lost.
    pub fn has(&self, node: NodeId) -> bool {
        self.ranks.get(&node).is_some_and(|&rank| self.members[rank].lost.is_none())
    }

    /// Returns true if this node has sent a PRESENT.
    pub fn is_heard(&self, node: NodeId) -> bool {
        self.heard.values().any(|&heard| heard == node)
    }

    /// Returns true if the members are peers.
    pub fn are_peers(&self) -> bool {
        self.role == Role::Peer
    }

    /// Returns true if this node has messages to send, its own or others'.
    pub fn gives(&self, node: NodeId) -> bool {
        self.ranks
            .get(&node)
            .is_some_and(|&rank| self.members[rank].part.offers() || self.members[rank].part.helps())
    }

    /// Returns true if this member accepts the role. A member willing to help may also only receive.
    fn is_as_wanted(&self, part: MemberRole) -> bool {
        part.receives() == self.part.receives() && (!part.helps() || self.part.helps())
    }

    /// Number of members that turn to this one.
    pub fn children(&self) -> usize {
        self.table.children(LOCAL_NODE).len()
    }

    /// Number of other members, including lost ones.
    pub fn others(&self) -> usize {
        self.members.len().saturating_sub(1)
    }

    /// Members that turn to this one.
    pub fn child_members(&self) -> Vec<&PeerMember> {
        let children = self.table.children(LOCAL_NODE);
        self.members.iter().filter(|member| children.contains(&member.node)).collect()
    }

    /// Marks a member as lost. Returns true if that is new.
    pub fn lose(&mut self, node: NodeId, reason: &str) -> bool {
        let Some(&rank) = self.ranks.get(&node) else { return false };
        let lost = &mut self.members[rank].lost;
        let news = lost.is_none();
        lost.get_or_insert_with(|| reason.to_owned());
        news
    }

    /// Reads a page of the roster before the start. Refuses an older edition.
    pub fn read(&mut self, page: &RosterPage<'_>) -> Result<(), DropReason> {
        // Datagrams may be reordered, so a page of an earlier edition can arrive late.
        if page.edition < self.edition {
            return Err(DropReason::OutOfOrder);
        }
        let total = usize::from(page.total);
        // A new edition has new ranks, so everything derived from the former one is void. The addresses stay, as an
        // identity does not depend on the edition.
        if page.edition > self.edition {
            self.edition = page.edition;
            self.roster.clear();
            self.roster.resize_with(total, || None);
            self.ready = None;
            self.members.clear();
            self.ranks.clear();
        }
        // All pages of an edition state the same total.
        if self.roster.len() != total {
            return Err(DropReason::Malformed);
        }
        let places = self.roster.iter_mut().skip(page.first.into());
        for (place, peer) in places.zip(page.peers.iter()) {
            // The first entry of a rank counts until the whole roster proves to be forged.
            place.get_or_insert_with(|| Entry {
                identity: peer.identity.0,
                name: peer.name.to_string(),
                part: peer.part,
                parent: peer.parent.into(),
            });
        }
        if self.roster.iter().all(Option::is_some) {
            // Forget nodes that are not in the roster.
            let known: BTreeSet<u64> = self.roster.iter().flatten().map(|entry| entry.identity).collect();
            self.heard.retain(|identity, _| known.contains(identity));
        }
        Ok(())
    }

    /// Helper table of the roster with these nodes; `None` if it is no tree, or gives this member a role that it does
    /// not accept.
    fn table(&self, nodes: &[NodeId]) -> Option<HelperTable> {
        let (mut helpers, mut members) = (Vec::new(), Vec::new());
        for (rank, (entry, &node)) in self.roster.iter().flatten().zip(nodes).enumerate() {
            // Rank 0 is the organiser, which is no helper: its children have no parent in the table.
            let parent = match entry.parent {
                0 => None,
                parent => Some(*nodes.get(parent)?),
            };
            let is_own = node == LOCAL_NODE;
            let helps = entry.part.helps();
            // The organiser is the root, so it neither helps nor has a parent.
            if (is_own && !self.is_as_wanted(entry.part)) || (rank == 0 && (helps || parent.is_some())) {
                return None;
            }
            match (helps, parent) {
                (true, parent) => helpers.push(Helper { node, parent, delivers: entry.part.receives() }),
                (false, Some(parent)) => members.push((node, parent)),
                (false, None) => {}
            }
        }
        // Some protocols require helpers.
        let fits = self.protocol.helpers.allow(helpers.len());
        HelperTable::new(helpers, members).ok().filter(|_| fits)
    }

    /// Builds the machine once every member is known and was received from. Returns true if it did. Fails if the
    /// settings are invalid.
    pub fn complete(&mut self) -> Result<bool, ReceiverFailure> {
        if self.ready.is_some() || self.roster.is_empty() || self.roster.iter().any(Option::is_none) {
            return Ok(false);
        }
        let own = self.context.identities.own(LOCAL_NODE);
        let entries = || self.roster.iter().flatten();
        if entries().all(|entry| entry.identity != own) {
            // This member may be left out. The organiser says so when asked.
            return Ok(false);
        }
        // The address of the organiser comes from the invitation, and the addresses of the others from their
        // PRESENTs.
        let node = |(rank, entry): (usize, &Entry)| match rank {
            0 => Some(self.context.sender),
            _ if entry.identity == own => Some(LOCAL_NODE),
            _ => self.heard.get(&entry.identity).copied(),
        };
        let nodes: Option<Vec<NodeId>> = entries().enumerate().map(node).collect();
        let Some(nodes) = nodes else { return Ok(false) };
        let Some(table) = self.table(&nodes) else {
            // The roster is forged. The organiser repeats the true one.
            self.roster.iter_mut().for_each(|place| *place = None);
            return Ok(false);
        };
        let table = Arc::new(table);
        let ranks: BTreeMap<NodeId, usize> = nodes.iter().copied().zip(0..).collect();
        // Among peers the organiser is a member. Elsewhere it is the sender, and members are the receivers.
        let are_members = |(rank, (_, entry)): &(usize, (&NodeId, &Entry))| {
            self.are_peers() || (*rank > 0 && entry.part.receives())
        };
        let listed = nodes.iter().zip(entries()).enumerate().filter(are_members);
        let identities: Vec<(NodeId, u64)> =
            listed.map(|(_, (&node, entry))| (node, entry.identity)).collect();
        let machine = self.build(&identities, &table).map_err(ReceiverFailure::BadInvitation)?;
        self.ready = Some(machine);
        self.table = table;
        let entries = || self.roster.iter().flatten();
        let member = |(entry, &node): (&Entry, &NodeId)| PeerMember {
            name: entry.name.clone(),
            node,
            part: entry.part,
            lost: None,
        };
        self.members = entries().zip(&nodes).map(member).collect();
        self.ranks = ranks;
        Ok(true)
    }

    fn build(
        &self,
        members: &[(NodeId, u64)],
        helpers: &Arc<HelperTable>,
    ) -> Result<Box<dyn Machine>, String> {
        let own = self.context.identities.own(LOCAL_NODE);
        let identities = members.iter().map(|&(_, identity)| identity).collect();
        let context = BuildContext {
            members: members.iter().map(|&(node, _)| node).collect(),
            identities: Identities::agreed(own, identities),
            helpers: helpers.clone(),
            ..self.context.clone()
        };
        let mut machine =
            (self.protocol.build)(self.role, &context, &self.config).map_err(|error| error.to_string())?;
        let (sends, receives) = (machine.as_sender().is_some(), machine.as_receiver().is_some());
        match self.role {
            Role::Helper => Ok(machine),
            Role::Peer if sends && receives => Ok(machine),
            Role::Receiver if receives => Ok(machine),
            Role::Receiver => Err(format!("the protocol \"{}\" has no receiver", self.protocol.name)),
            _ => Err(format!("the protocol \"{}\" has no peer that sends and receives", self.protocol.name)),
        }
    }
}

/// Error text for an additional sender in a protocol with a single one.
pub(super) fn one_sender(name: &str, protocols: &[&ProtocolEntry]) -> String {
    let several = protocols.iter().filter(|entry| entry.roles.contains(&Role::Peer));
    let several: Vec<&str> = several.map(|entry| entry.name).collect();
    match several[..] {
        [] => format!("the protocol \"{name}\" has one sender"),
        _ => format!("the protocol \"{name}\" has one sender; several have: {}", several.join(", ")),
    }
}
