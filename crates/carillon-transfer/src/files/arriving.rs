//! A file that is being received: hashed, compared with the sender's digests and written, then renamed when verified.

use carillon_wire::file::SUBTREE_BYTES;

use super::PIECE_BYTES;
use super::holes;
use super::names::shown_name;
use super::problem::{Problem, in_order, ours, relative, stored};
use super::target::{Partial, Position, Target};
use super::times::Attributes;
use super::tree::Tree;
use super::unstorable::Unstorable;
use crate::error::LocalError;

/// A complete file under its final name.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Its name below the directory, in bytes.
    pub name: Vec<u8>,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 over its bytes.
    pub digest: blake3::Hash,
}

/// An entry that this receiver cannot store, while the others are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstored {
    /// Its name below the directory, in bytes.
    pub name: Vec<u8>,
    /// Reason, which follows the name in a message.
    pub reason: String,
}

/// The file that is being received.
#[derive(Debug)]
pub struct Open {
    /// Temporary file; `None` for a small file, which is written when it is complete.
    pub partial: Option<Partial>,
    pub name: Vec<u8>,
    pub attributes: Attributes,
    pub size: Option<u64>,
    /// Bytes received.
    pub offset: u64,
    /// Bytes that were present at the beginning.
    pub had: u64,
    /// Length of the prefix that was compared with the sender's subtree values, in bytes.
    pub verified: u64,
    pub spare: Box<Spare>,
}

/// Buffers that successive files reuse.
#[derive(Debug, Default)]
pub struct Spare {
    pub tree: Tree,
    /// Latest received bytes, not hashed and written yet.
    pub buffer: Vec<u8>,
}

impl Open {
    /// Appends a piece.
    pub fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        let again = self.admit(offset, bytes.len() as u64)?;
        self.put(&bytes[again as usize..])
    }

    /// Appends zeros; full write units of them become holes of the file.
    pub fn go_over(&mut self, offset: u64, len: u64) -> Result<(), Problem> {
        let mut left = len - self.admit(offset, len)?;
        while left > 0 {
            let Spare { tree, buffer } = &mut *self.spare;
            let gathered = (tree.count() % WRITE_BYTES as u64) as usize + buffer.len();
            let whole = left / WRITE_BYTES as u64 * WRITE_BYTES as u64;
            let taken = match &mut self.partial {
                Some(partial) if gathered == 0 && whole > 0 => {
                    holes::hash(tree, whole);
                    partial.go_over(whole).map_err(ours)?;
                    whole
                }
                _ => {
                    let zeros =
                        holes::zeros(left.min((WRITE_BYTES - gathered) as u64)).next().unwrap_or_default();
                    self.put(zeros)?;
                    zeros.len() as u64
                }
            };
            left -= taken;
        }
        Ok(())
    }

    /// Checks that the bytes are next in order. Returns the number of them that are present already and are not
    /// written.
    fn admit(&mut self, offset: u64, len: u64) -> Result<u64, Problem> {
        in_order(&self.name, self.offset, offset)?;
        self.offset += len;
        if self.size.is_some_and(|size| self.offset > size) {
            let name = shown_name(&self.name);
            return Err(Problem::Damaged(format!("{name} is larger than announced")));
        }
        Ok(self.had.saturating_sub(offset).min(len))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let Some(partial) = &mut self.partial else {
            self.spare.buffer.extend_from_slice(bytes);
            return Ok(());
        };
        let Spare { tree, buffer } = &mut *self.spare;
        let mut bytes = bytes;
        loop {
            if buffer.is_empty() && tree.count() % PIECE_BYTES as u64 == 0 {
                let (pieces, rest) = bytes.split_at(bytes.len() / PIECE_BYTES * PIECE_BYTES);
                write(tree, pieces, partial)?;
                bytes = rest;
            }
            let room = WRITE_BYTES - (tree.count() % WRITE_BYTES as u64) as usize - buffer.len();
            let Some((first, rest)) = bytes.split_at_checked(room) else { break };
            buffer.extend_from_slice(first);
            write(tree, buffer, partial)?;
            buffer.clear();
            bytes = rest;
        }
        buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Compares the value of the next subtree with the sender's.
    pub fn compare(&mut self, end: u64, value: [u8; blake3::OUT_LEN]) -> Result<(), Problem> {
        let is_next = end == self.verified + SUBTREE_BYTES;
        let name = || shown_name(&self.name);
        let Some(found) = self.spare.tree.value(end).filter(|_| is_next) else {
            return Err(Problem::Damaged(format!(
                "{} is incomplete: a digest of its first {end} bytes arrived too early",
                name()
            )));
        };
        if found != value {
            let text =
                format!("{} differs from the sender's file in bytes {} to {end}", name(), self.verified);
            return Err(Problem::Damaged(text));
        }
        self.verified = end;
        Ok(())
    }

    /// Compares size and digest of the whole file with the sender's.
    pub fn verify(&mut self, size: u64, digest: blake3::Hash) -> Result<(), Problem> {
        let whole = match &mut self.partial {
            Some(partial) => {
                let Spare { tree, buffer } = &mut *self.spare;
                write(tree, buffer, partial)?;
                tree.finalize()
            }
            None => blake3::hash(&self.spare.buffer),
        };
        let (offset, name) = (self.offset, shown_name(&self.name));
        if size != offset || self.size.is_some_and(|announced| announced != size) {
            return Err(Problem::Damaged(format!("{name} is incomplete: {offset} of {size} bytes arrived")));
        }
        if whole != digest {
            return Err(Problem::Damaged(format!(
                "{name} differs from the sender's file: its digest is wrong"
            )));
        }
        Ok(())
    }

    /// Statement about a file that is changed in place, or a device, if it has neither its old nor its new contents.
    pub fn partly_changed(&self) -> Option<String> {
        let partly = self.partial.as_ref()?.partly_changed(&self.name)?;
        Some(format!("{partly} is partly changed"))
    }

    /// Discards the bytes behind the last compared subtree, where another attempt resumes.
    pub fn take_back(&mut self) -> Result<(), LocalError> {
        self.spare.buffer.clear();
        self.partial.as_mut().map_or(Ok(()), |partial| partial.cut(self.verified))
    }

    /// Discards the file, for this reason.
    pub fn leave(self, reason: &Unstorable) -> (Result<Completed, Unstored>, Box<Spare>) {
        if let Some(partial) = self.partial {
            partial.discard();
        }
        (Err(Unstored { name: self.name, reason: reason.to_string() }), self.spare.cleared())
    }

    /// Gives the verified file its final name.
    pub fn close(
        self,
        target: &mut Target,
        position: &mut Position,
        digest: blake3::Hash,
    ) -> Result<(Result<Completed, Unstored>, Box<Spare>), Problem> {
        let Open { partial, name, attributes, offset, spare, .. } = self;
        let written = match partial {
            Some(partial) => target.commit(partial, &relative(&name)?, attributes),
            None => target.write(position, &relative(&name)?, attributes, &spare.buffer),
        };
        let completed = match stored(written)? {
            Ok(()) => Ok(Completed { name, bytes: offset, digest }),
            Err(reason) => Err(Unstored { name, reason: reason.to_string() }),
        };
        Ok((completed, spare.cleared()))
    }
}

/// Hashes and writes bytes.
fn write(tree: &mut Tree, bytes: &[u8], partial: &mut Partial) -> Result<(), Problem> {
    if bytes.is_empty() {
        return Ok(());
    }
    tree.update(bytes);
    partial.write(bytes).map_err(ours)
}

impl Spare {
    /// Resets the buffers for the next file.
    pub fn cleared(mut self: Box<Self>) -> Box<Self> {
        self.tree.reset();
        self.buffer.clear();
        self
    }
}

/// Bytes that are collected before hashing and writing, at multiples of this size: large enough to be fast and small
/// enough for the cache. Aligned units are large subtrees of BLAKE3 with leaves that a processor hashes in parallel.
pub const WRITE_BYTES: usize = 256 << 10;
