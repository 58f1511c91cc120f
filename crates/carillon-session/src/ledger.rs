//! Ledger of the receivers of a job across its sessions: it decides which receiver a JOIN stands for, and under which
//! name.
//!
//! Names become unique here. Of several receivers with equal names the first keeps the name, and the others get their
//! address or a number as a suffix. A receiver is recognised by its node, its process, or its host together with the
//! place of its data. Only if none of these agrees, the name alone decides, and only for a receiver that is no longer
//! present and not verified: a cloned machine has the name of another one, which may be verified.

use std::collections::BTreeMap;
use std::net::IpAddr;

use carillon_core::NodeId;
use carillon_wire::session::{Name, Origin};

/// Identity that a JOIN claims, and where it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applicant<'a> {
    /// Name the receiver gives itself.
    pub own: &'a str,
    pub node: NodeId,
    /// Address of the receiver, if known.
    pub host: Option<IpAddr>,
    pub origin: Option<Origin>,
}

/// A receiver of the job.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Name the receiver gives itself.
    own: String,
    /// Name in the job, which no other receiver has.
    pub name: String,
    pub node: NodeId,
    host: Option<IpAddr>,
    origin: Option<Origin>,
    /// True if the receiver has everything.
    pub verified: bool,
    /// True if the receiver has received some data.
    pub has_some: bool,
    /// True if the receiver was heard in this session and waits for the next one.
    pub waits: bool,
}

impl Entry {
    /// Returns true if this process spoke for the receiver last.
    pub fn is_process(&self, origin: Origin) -> bool {
        self.origin.is_some_and(|own| own.process == origin.process)
    }
}

/// Receiver of the job that a JOIN stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerMatch {
    /// This receiver.
    Entry(usize),
    /// This receiver, unless its old node is still heard: then another receiver has the same process number.
    Moved(usize),
    /// A receiver that is new to the job.
    New,
}

/// Receivers of a job, indexed by own name, node and name in the job.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    by_own: BTreeMap<String, Vec<usize>>,
    by_node: BTreeMap<NodeId, usize>,
    by_name: BTreeMap<String, usize>,
}

impl Ledger {
    /// Receiver of a live stream that a JOIN stands for. The data has no place, so at the same host the name decides,
    /// unless `is_done` says that this receiver has everything.
    pub fn find_live(
        &self,
        who: &Applicant<'_>,
        is_there: impl Fn(&Entry) -> bool,
        is_done: impl Fn(usize) -> bool,
    ) -> LedgerMatch {
        let found = self.find(who, is_there);
        if found != LedgerMatch::New || who.host.is_none() {
            return found;
        }
        let alike = self.by_own.get(who.own).map_or(&[][..], Vec::as_slice);
        let returned =
            alike.iter().copied().find(|&index| self.entries[index].host == who.host && !is_done(index));
        // Another receiver of this name may still be there.
        returned.map_or(LedgerMatch::New, LedgerMatch::Moved)
    }

    /// Receiver that a JOIN stands for. `is_there` tells if an entry was heard just now.
    pub fn find(&self, who: &Applicant<'_>, is_there: impl Fn(&Entry) -> bool) -> LedgerMatch {
        // Another name at the same node is another receiver.
        let same_node = self.by_node.get(&who.node).filter(|&&index| self.entries[index].own == who.own);
        if let Some(&index) = same_node {
            return LedgerMatch::Entry(index);
        }
        let alike = self.by_own.get(who.own).map_or(&[][..], Vec::as_slice);
        let first = |matches: &dyn Fn(&Entry) -> bool| {
            alike.iter().copied().find(|&index| matches(&self.entries[index]))
        };
        let same_host = |entry: &Entry| entry.host.is_some() && entry.host == who.host;
        let both = |entry: &Entry| entry.origin.zip(who.origin);
        let same_process =
            |entry: &Entry| both(entry).is_some_and(|(one, other)| one.process == other.process);
        let same_place = |entry: &Entry| match (entry.origin, who.origin) {
            (Some(one), Some(other)) => one.place == other.place,
            (one, other) => one == other,
        };
        // Several receivers may run at one host, so the process or the place of the data tells them apart.
        if let Some(index) = first(&|entry| same_host(entry) && (same_process(entry) || same_place(entry))) {
            return LedgerMatch::Entry(index);
        }
        // A process number at another host may be a copy of the machine, so the caller has to check.
        if let Some(index) = first(&same_process) {
            return LedgerMatch::Moved(index);
        }
        // Only the name agrees. A receiver that had nothing yet, or resumes a part, counts as the one that is gone.
        let may_be = |entry: &Entry| match who.origin {
            Some(origin) => origin.resumes || !entry.has_some,
            None => entry.origin.is_none(),
        };
        let returned =
            first(&|entry| !same_host(entry) && !entry.verified && !is_there(entry) && may_be(entry));
        returned.map_or(LedgerMatch::New, LedgerMatch::Entry)
    }

    /// Receiver that declines an invitation because it is late: one with this name at this node, or else at this
    /// host.
    pub fn declined(&self, who: &Applicant<'_>) -> Option<usize> {
        let same_node = self.at(who.node).filter(|&index| self.entries[index].own == who.own);
        let same_host = |&index: &usize| who.host.is_some() && self.entries[index].host == who.host;
        same_node.or_else(|| self.by_own.get(who.own)?.iter().copied().find(same_host))
    }

    /// Adds a new receiver under a name that neither another receiver nor `reserved` has. Returns `None` if there are
    /// too many.
    pub fn add(
        &mut self,
        who: &Applicant<'_>,
        limit: usize,
        reserved: impl Fn(&str) -> bool,
    ) -> Option<usize> {
        if self.entries.len() >= limit {
            return None;
        }
        let name = self.unique(who, reserved);
        let index = self.entries.len();
        self.by_own.entry(who.own.to_owned()).or_default().push(index);
        self.by_node.insert(who.node, index);
        self.by_name.insert(name.clone(), index);
        self.entries.push(Entry {
            own: who.own.to_owned(),
            name,
            node: who.node,
            host: who.host,
            origin: who.origin,
            verified: false,
            has_some: false,
            waits: false,
        });
        Some(index)
    }

    /// Records the new node of a receiver.
    pub fn moved(&mut self, index: usize, who: &Applicant<'_>) {
        let entry = &mut self.entries[index];
        // Another receiver may have taken the former node.
        if self.by_node.get(&entry.node) == Some(&index) {
            self.by_node.remove(&entry.node);
        }
        (entry.node, entry.host, entry.origin) = (who.node, who.host, who.origin.or(entry.origin));
        self.by_node.insert(who.node, index);
    }

    /// Receiver with this name in the job.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Receiver last heard from this node.
    pub fn at(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    /// Copies the ledger for the next session.
    pub fn next(&self) -> Ledger {
        let mut next = self.clone();
        next.entries.iter_mut().for_each(|entry| entry.waits = false);
        next
    }

    /// Number of receivers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    pub fn entry_mut(&mut self, index: usize) -> &mut Entry {
        &mut self.entries[index]
    }

    /// Unique name of a receiver: the one it gives itself, or else with its address as a suffix, or a number if
    /// others have that too.
    fn unique(&self, who: &Applicant<'_>, reserved: impl Fn(&str) -> bool) -> String {
        let is_free = |name: &str| !self.by_name.contains_key(name) && !reserved(name);
        // Its own name, if no other receiver has it.
        if is_free(who.own) {
            return who.own.to_owned();
        }
        // The address as a suffix, unless a receiver of the same name has that address.
        let alike = self.by_own.get(who.own).map_or(&[][..], Vec::as_slice);
        let elsewhere = |host: &IpAddr| alike.iter().all(|&index| self.entries[index].host != Some(*host));
        let by_host = who.host.filter(elsewhere).map(|host| with_suffix(who.own, &format!("@{host}")));
        if let Some(name) = by_host.filter(|name| is_free(name)) {
            return name;
        }
        // A number as a suffix.
        let numbers = alike.len().max(1) + 1..;
        let mut numbered = numbers.map(|number| with_suffix(who.own, &format!("#{number}")));
        numbered.find(|name| is_free(name)).expect("there are more numbers than receivers")
    }
}

/// Name with this suffix, cut to the maximum length.
fn with_suffix(name: &str, suffix: &str) -> String {
    let mut end = name.len().min(Name::MAX_LEN - suffix.len());
    // Names are UTF-8, so the cut must not split a character.
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
