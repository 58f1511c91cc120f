//! Table of attributes and special entries of a transfer, which ARCHIVE records carry in pieces.
//!
//! Most entries share their owner and permission bits with their neighbours, so entries refer to *classes* of
//! attributes by runs. Special entries are those that other transfers omit: further hard links to a file, symbolic
//! links that may lead anywhere, FIFOs and devices.
//!
//! ```text
//! classes u32 | each: user u32 | group u32 | mode u16 | count u16 | (name length u8 | name | length u32 | value) ...
//! runs u32    | each: entries u32 | class u32
//! links u32   | each: entry u32 | modified i64
//! specials u32| each: class u32 | modified i64 | kind u8 | name length u16 | name | details
//! ```
//!
//! | kind | entry | details |
//! |---|---|---|
//! | 1 | hard link | index of the file u32 |
//! | 2 | symbolic link | target length u16, target |
//! | 3 | FIFO | |
//! | 4, 5 | character device, block device | major u32, minor u32 |
//!
//! A mode has the bits 07777. Attributes are extended attributes of Linux with their full names; POSIX ACLs are
//! `system.posix_acl_access` and `system.posix_acl_default`, with numeric users and groups. A modification time is in
//! nanoseconds since 1970, or -2^63 if unknown. The runs cover all entries of the transfer in order. A hard link has
//! the attributes of its file, and its class says nothing.

use super::modification_time::time_to_bytes;
use super::path::{self, RelativePath};
use crate::ParseError;
use crate::reader::Reader;

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// Different sets of attributes.
    pub classes: Vec<Class>,
    /// Numbers of consecutive entries with the same class, with the index of the class.
    pub runs: Vec<(u32, u32)>,
    /// Modification times of symbolic links among the entries, by index of the entry.
    pub links: Vec<(u32, Option<i64>)>,
    /// Entries besides those of the transfer.
    pub specials: Vec<Special>,
}

/// Attributes of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class {
    /// Number of the owner.
    pub user: u32,
    /// Number of the group.
    pub group: u32,
    /// Permission bits with set-user-id, set-group-id and sticky bit.
    pub mode: u32,
    /// Extended attributes: names and values.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An entry besides those of the transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Special {
    /// Path below the receiver's directory.
    pub name: Vec<u8>,
    /// Index of its class.
    pub class: u32,
    /// Modification time in nanoseconds since 1970, if known.
    pub modified: Option<i64>,
    /// Kind of the entry.
    pub kind: SpecialKind,
}

/// Kind of a special entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// A further name of this file of the transfer, by its index.
    HardLink(u32),
    /// A symbolic link, which may lead anywhere.
    Link(Vec<u8>),
    /// A FIFO.
    Fifo,
    /// A character device with its major and minor number.
    CharacterDevice(u32, u32),
    /// A block device with its major and minor number.
    BlockDevice(u32, u32),
}

/// Maximum bytes of a table.
pub const MAX_TABLE_BYTES: usize = 64 << 20;

/// Permission bits of a class.
pub const ARCHIVE_MODE_MASK: u32 = 0o7777;

impl Archive {
    /// Parses a whole table.
    pub fn parse(bytes: &[u8]) -> Result<Archive, ParseError> {
        let mut reader = Reader::new(bytes);
        let mut archive = Archive::default();
        for _ in 0..reader.u32()? {
            archive.classes.push(class(&mut reader)?);
        }
        let count = archive.classes.len() as u32;
        for _ in 0..reader.u32()? {
            let (entries, class) = (reader.u32()?, known_class(reader.u32()?, count)?);
            archive.runs.push((entries, class));
        }
        for _ in 0..reader.u32()? {
            archive.links.push((reader.u32()?, reader.modified()?));
        }
        for _ in 0..reader.u32()? {
            archive.specials.push(special(&mut reader, count)?);
        }
        reader.end("bytes after the table")?;
        Ok(archive)
    }

    /// Appends the table.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let put_u32 = |buf: &mut Vec<u8>, value: u32| buf.extend_from_slice(&value.to_be_bytes());
        let put_time = |buf: &mut Vec<u8>, time: Option<i64>| {
            buf.extend_from_slice(&time_to_bytes(time));
        };
        put_u32(buf, self.classes.len() as u32);
        for class in &self.classes {
            put_u32(buf, class.user);
            put_u32(buf, class.group);
            buf.extend_from_slice(&((class.mode & ARCHIVE_MODE_MASK) as u16).to_be_bytes());
            buf.extend_from_slice(&(class.attributes.len() as u16).to_be_bytes());
            for (name, value) in &class.attributes {
                buf.push(name.len() as u8);
                buf.extend_from_slice(name);
                put_u32(buf, value.len() as u32);
                buf.extend_from_slice(value);
            }
        }
        put_u32(buf, self.runs.len() as u32);
        for (entries, class) in &self.runs {
            put_u32(buf, *entries);
            put_u32(buf, *class);
        }
        put_u32(buf, self.links.len() as u32);
        for (entry, modified) in &self.links {
            put_u32(buf, *entry);
            put_time(buf, *modified);
        }
        put_u32(buf, self.specials.len() as u32);
        for special in &self.specials {
            put_u32(buf, special.class);
            put_time(buf, special.modified);
            buf.push(special.kind.code());
            buf.extend_from_slice(&(special.name.len() as u16).to_be_bytes());
            buf.extend_from_slice(&special.name);
            match &special.kind {
                SpecialKind::HardLink(entry) => put_u32(buf, *entry),
                SpecialKind::Link(target) => {
                    buf.extend_from_slice(&(target.len() as u16).to_be_bytes());
                    buf.extend_from_slice(target);
                }
                SpecialKind::Fifo => {}
                SpecialKind::CharacterDevice(major, minor) | SpecialKind::BlockDevice(major, minor) => {
                    put_u32(buf, *major);
                    put_u32(buf, *minor);
                }
            }
        }
    }
}

impl SpecialKind {
    fn code(&self) -> u8 {
        match self {
            SpecialKind::HardLink(_) => 1,
            SpecialKind::Link(_) => 2,
            SpecialKind::Fifo => 3,
            SpecialKind::CharacterDevice(..) => 4,
            SpecialKind::BlockDevice(..) => 5,
        }
    }
}

fn class(reader: &mut Reader<'_>) -> Result<Class, ParseError> {
    let (user, group) = (known_id(reader.u32()?)?, known_id(reader.u32()?)?);
    let mode = u32::from(reader.u16()?);
    if mode & !ARCHIVE_MODE_MASK != 0 {
        return Err(ParseError::Field { field: "mode", value: mode.into() });
    }
    let mut attributes = Vec::new();
    for _ in 0..reader.u16()? {
        let len = reader.u8()?;
        let name = reader.bytes(len.into())?;
        if name.is_empty() || name.contains(&0) {
            return Err(ParseError::Field { field: "attribute name", value: len.into() });
        }
        let len = reader.u32()?;
        attributes.push((name.to_vec(), reader.bytes(len as usize)?.to_vec()));
    }
    Ok(Class { user, group, mode, attributes })
}

fn special(reader: &mut Reader<'_>, classes: u32) -> Result<Special, ParseError> {
    let (class, modified, code) = (known_class(reader.u32()?, classes)?, reader.modified()?, reader.u8()?);
    let len = reader.u16()?;
    let name = RelativePath::parse(reader.bytes(len.into())?)?.as_bytes().to_vec();
    let kind = match code {
        1 => SpecialKind::HardLink(reader.u32()?),
        2 => {
            let len = reader.u16()?;
            SpecialKind::Link(path::target(reader.bytes(len.into())?)?.to_vec())
        }
        3 => SpecialKind::Fifo,
        4 => SpecialKind::CharacterDevice(reader.u32()?, reader.u32()?),
        5 => SpecialKind::BlockDevice(reader.u32()?, reader.u32()?),
        other => return Err(ParseError::Field { field: "kind", value: other.into() }),
    };
    Ok(Special { name, class, modified, kind })
}

/// Refuses the number that stands for an unchanged owner in system calls.
fn known_id(id: u32) -> Result<u32, ParseError> {
    if id == u32::MAX { Err(ParseError::Field { field: "owner", value: id.into() }) } else { Ok(id) }
}

fn known_class(class: u32, classes: u32) -> Result<u32, ParseError> {
    if class < classes { Ok(class) } else { Err(ParseError::Field { field: "class", value: class.into() }) }
}
