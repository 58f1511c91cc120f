//! The receivers of a job across its sessions: which of them a JOIN speaks for, and under which name.
//!
//! Names become unique here: of several receivers that call themselves alike the first keeps the name, and the others get their
//! address or a number behind it. A receiver is known again by its node, its process, or the host and the place where its data
//! goes. Only if none of these agrees does the name alone decide, and only for a receiver that is not there any more and is not
//! verified: a machine that was cloned has the name of another one that may be done.

use std::collections::BTreeMap;
use std::net::IpAddr;

use carillon_core::NodeId;
use carillon_wire::session::{Name, Origin};

/// What a JOIN says of the receiver that it speaks for, and where it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applicant<'a> {
    /// The name by which it calls itself.
    pub own: &'a str,
    pub node: NodeId,
    /// Its address, if that is known.
    pub host: Option<IpAddr>,
    pub origin: Option<Origin>,
}

/// One receiver of the job.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The name by which it calls itself.
    own: String,
    /// Its name in the job, which no other receiver of the job has.
    pub name: String,
    pub node: NodeId,
    host: Option<IpAddr>,
    origin: Option<Origin>,
    /// It has everything.
    pub verified: bool,
    /// It got some of what was sent.
    pub has_some: bool,
    /// It was heard in this session, and waits for the next one.
    pub waits: bool,
}

impl Entry {
    /// Whether this is the process that spoke for the receiver last.
    pub fn is_process(&self, origin: Origin) -> bool {
        self.origin.is_some_and(|own| own.process == origin.process)
    }
}

/// Which receiver of the job a JOIN speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This one.
    Entry(usize),
    /// This one, unless that is still heard from where it was: then it is another one, with the same process number.
    Moved(usize),
    /// One that is new to the job.
    Nobody,
}

/// All receivers of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    by_own: BTreeMap<String, Vec<usize>>,
    by_node: BTreeMap<NodeId, usize>,
    by_name: BTreeMap<String, usize>,
}

impl Ledger {
    /// The receiver that this JOIN speaks for; `is_there` says of an entry whether it was heard just now.
    pub fn find(&self, who: &Applicant<'_>, is_there: impl Fn(&Entry) -> bool) -> Found {
        let same_node = self.by_node.get(&who.node).filter(|&&index| self.entries[index].own == who.own);
        if let Some(&index) = same_node {
            return Found::Entry(index);
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
        if let Some(index) = first(&|entry| same_host(entry) && (same_process(entry) || same_place(entry))) {
            return Found::Entry(index);
        }
        if let Some(index) = first(&same_process) {
            return Found::Moved(index);
        }
        // It has another address, and nothing but its name: one that had nothing yet, or has a part, is taken for the one that is gone.
        let may_be = |entry: &Entry| match who.origin {
            Some(origin) => origin.resumes || !entry.has_some,
            None => entry.origin.is_none(),
        };
        let returned =
            first(&|entry| !same_host(entry) && !entry.verified && !is_there(entry) && may_be(entry));
        returned.map_or(Found::Nobody, Found::Entry)
    }

    /// The receiver that declines an invitation because it is late: of an equal name, at this node or else at this host. Nothing else is known of it.
    pub fn declined(&self, who: &Applicant<'_>) -> Option<usize> {
        let same_node = self.at(who.node).filter(|&index| self.entries[index].own == who.own);
        let same_host = |&index: &usize| who.host.is_some() && self.entries[index].host == who.host;
        same_node.or_else(|| self.by_own.get(who.own)?.iter().copied().find(same_host))
    }

    /// Takes down a new receiver under a name that no other has, not even one of `reserved`; `None` if they are too many.
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

    /// The receiver is heard from there now.
    pub fn moved(&mut self, index: usize, who: &Applicant<'_>) {
        let entry = &mut self.entries[index];
        if self.by_node.get(&entry.node) == Some(&index) {
            self.by_node.remove(&entry.node);
        }
        (entry.node, entry.host, entry.origin) = (who.node, who.host, who.origin.or(entry.origin));
        self.by_node.insert(who.node, index);
    }

    /// The receiver of this name in the job.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The receiver that was last heard from this node.
    pub fn at(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    /// The ledger for the next session.
    pub fn next(&self) -> Ledger {
        let mut next = self.clone();
        next.entries.iter_mut().for_each(|entry| entry.waits = false);
        next
    }

    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    pub fn entry_mut(&mut self, index: usize) -> &mut Entry {
        &mut self.entries[index]
    }

    /// The name by which the receiver calls itself, if nobody else has that; else with its address behind it, or a number where others
    /// of that name have the same address.
    fn unique(&self, who: &Applicant<'_>, reserved: impl Fn(&str) -> bool) -> String {
        let is_free = |name: &str| !self.by_name.contains_key(name) && !reserved(name);
        if is_free(who.own) {
            return who.own.to_owned();
        }
        let alike = self.by_own.get(who.own).map_or(&[][..], Vec::as_slice);
        let elsewhere = |host: &IpAddr| alike.iter().all(|&index| self.entries[index].host != Some(*host));
        let by_host = who.host.filter(elsewhere).map(|host| with_suffix(who.own, &format!("@{host}")));
        if let Some(name) = by_host.filter(|name| is_free(name)) {
            return name;
        }
        let numbers = alike.len().max(1) + 1..;
        let mut numbered = numbers.map(|number| with_suffix(who.own, &format!("#{number}")));
        numbered.find(|name| is_free(name)).expect("there are more numbers than receivers")
    }
}

/// The name with this behind it, cut so that both fit.
fn with_suffix(name: &str, suffix: &str) -> String {
    let mut end = name.len().min(Name::MAX_LEN - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
