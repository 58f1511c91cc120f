//! Tables of names, of which the columns hold the indices.

use std::collections::BTreeMap;

use carillon_core::PacketKind;
use serde::Serialize;

/// Table of names in the order of their first use.
#[derive(Debug)]
pub(super) struct Names {
    list: Vec<String>,
    codes: BTreeMap<String, usize>,
    limit: usize,
}

impl Names {
    /// Empty table for at most `limit` names.
    pub fn new(limit: usize) -> Self {
        Names { list: Vec::new(), codes: BTreeMap::new(), limit }
    }

    /// Index of a name, which is added if it is new; `None` if the table is full.
    pub fn code(&mut self, name: &str) -> Option<usize> {
        if let Some(code) = self.known(name) {
            return Some(code);
        }
        let code = self.list.len();
        (code < self.limit).then(|| {
            self.list.push(name.to_owned());
            self.codes.insert(name.to_owned(), code);
            code
        })
    }

    /// Index of a name that is in the table.
    pub fn known(&self, name: &str) -> Option<usize> {
        self.codes.get(name).copied()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn as_slice(&self) -> &[String] {
        &self.list
    }
}

/// Table of packets. A name has several entries if its packets are of several kinds, such as first transmissions and
/// retransmissions.
#[derive(Debug)]
pub(super) struct PacketNames {
    list: Vec<PacketName>,
    /// Kinds by name, for packets that are named without their bytes.
    kinds: BTreeMap<String, PacketKind>,
}

/// Entry of the table of packets.
#[derive(Debug, Serialize)]
pub(super) struct PacketName {
    pub name: String,
    #[serde(serialize_with = "kind_name")]
    pub kind: PacketKind,
}

impl PacketNames {
    /// Empty table; `kinds` has the kinds of packets that are named without their bytes.
    pub fn new(kinds: BTreeMap<String, PacketKind>) -> Self {
        PacketNames { list: Vec::new(), kinds }
    }

    /// Index of a packet, which is added if it is new; [`NO_PACKET`](super::columns::NO_PACKET) if the table is full.
    /// The kind defaults to the one that the format lists for this name.
    pub fn code(&mut self, name: &str, kind: Option<PacketKind>) -> u8 {
        let kind = kind.or_else(|| self.kinds.get(name).copied()).unwrap_or(PacketKind::Control);
        let known = self.list.iter().position(|packet| packet.kind == kind && packet.name == name);
        let code = known.unwrap_or(self.list.len());
        if code >= usize::from(super::columns::NO_PACKET) {
            return super::columns::NO_PACKET;
        }
        if known.is_none() {
            self.list.push(PacketName { name: name.to_owned(), kind });
        }
        code as u8
    }

    /// Kind of an entry.
    pub fn kind(&self, code: u8) -> Option<PacketKind> {
        self.list.get(usize::from(code)).map(|packet| packet.kind)
    }

    /// Index of the packet with the name of an entry and another kind.
    pub fn with_kind(&mut self, code: u8, kind: PacketKind) -> u8 {
        match self.list.get(usize::from(code)).map(|packet| packet.name.clone()) {
            Some(name) => self.code(&name, Some(kind)),
            None => code,
        }
    }

    /// Returns true if two entries have the same name.
    pub fn same_name(&self, a: u8, b: u8) -> bool {
        let name = |code: u8| self.list.get(usize::from(code)).map(|packet| &packet.name);
        a == b || name(a).is_some() && name(a) == name(b)
    }

    pub fn as_slice(&self) -> &[PacketName] {
        &self.list
    }
}

fn kind_name<S: serde::Serializer>(kind: &PacketKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}
