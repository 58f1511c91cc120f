//! A file that is being received: hashed and written as it comes, and named when it is what was sent.

use super::PIECE_BYTES;
use super::holes;
use super::names::shown;
use super::problem::{Problem, in_order, ours, relative};
use super::target::{Partial, Position, Target};
use super::times::Attributes;

/// A file that has its name.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Its name below the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 over its bytes.
    pub digest: blake3::Hash,
}

/// The file that is being received.
#[derive(Debug)]
pub struct Open {
    /// Where it is written; a small file is written when it is complete.
    pub partial: Option<Partial>,
    pub name: String,
    pub attributes: Attributes,
    pub size: Option<u64>,
    /// Bytes received.
    pub offset: u64,
    /// Bytes that were there when it was begun.
    pub had: u64,
    pub spare: Box<Spare>,
}

/// What one file after the other uses.
#[derive(Debug, Default)]
pub struct Spare {
    pub hasher: blake3::Hasher,
    /// The last of the bytes received, not hashed and written yet.
    pub buffer: Vec<u8>,
}

impl Open {
    /// A piece.
    pub fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        let again = self.admit(offset, bytes.len() as u64)?;
        self.put(&bytes[again as usize..])
    }

    /// Zeros, of which those that fill what is written at a time take no room.
    pub fn go_over(&mut self, offset: u64, len: u64) -> Result<(), Problem> {
        let mut left = len - self.admit(offset, len)?;
        while left > 0 {
            let Spare { hasher, buffer } = &mut *self.spare;
            let gathered = (hasher.count() % WRITE_BYTES as u64) as usize + buffer.len();
            let whole = left / WRITE_BYTES as u64 * WRITE_BYTES as u64;
            let taken = match &mut self.partial {
                Some(partial) if gathered == 0 && whole > 0 => {
                    holes::hash(hasher, whole);
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

    /// So many bytes come in their turn: how many of them are there already, and not written again.
    fn admit(&mut self, offset: u64, len: u64) -> Result<u64, Problem> {
        in_order(&self.name, self.offset, offset)?;
        self.offset += len;
        if self.size.is_some_and(|size| self.offset > size) {
            let name = shown(&self.name);
            return Err(Problem::Transfer(format!("{name} is larger than it was said to be")));
        }
        Ok(self.had.saturating_sub(offset).min(len))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let Some(partial) = &mut self.partial else {
            self.spare.buffer.extend_from_slice(bytes);
            return Ok(());
        };
        let Spare { hasher, buffer } = &mut *self.spare;
        let mut bytes = bytes;
        loop {
            if buffer.is_empty() && hasher.count() % PIECE_BYTES as u64 == 0 {
                let (pieces, rest) = bytes.split_at(bytes.len() / PIECE_BYTES * PIECE_BYTES);
                write(hasher, pieces, partial)?;
                bytes = rest;
            }
            let room = WRITE_BYTES - (hasher.count() % WRITE_BYTES as u64) as usize - buffer.len();
            let Some((first, rest)) = bytes.split_at_checked(room) else { break };
            buffer.extend_from_slice(first);
            write(hasher, buffer, partial)?;
            buffer.clear();
            bytes = rest;
        }
        buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Gives it its name if all of it is there.
    pub fn close(
        mut self,
        target: &mut Target,
        position: &mut Position,
        size: u64,
        digest: blake3::Hash,
    ) -> Result<(Completed, Box<Spare>), Problem> {
        let whole = match &mut self.partial {
            Some(partial) => {
                let Spare { hasher, buffer } = &mut *self.spare;
                write(hasher, buffer, partial)?;
                hasher.finalize()
            }
            None => blake3::hash(&self.spare.buffer),
        };
        let Open { partial, name, attributes, offset, spare, .. } = self;
        if size != offset || self.size.is_some_and(|announced| announced != size) {
            let name = shown(&name);
            return Err(Problem::Transfer(format!("{name} is incomplete: {offset} of {size} bytes arrived")));
        }
        if whole != digest {
            let name = shown(&name);
            return Err(Problem::Transfer(format!("{name} is not what was sent: its digest differs")));
        }
        let written = match partial {
            Some(partial) => partial.commit(attributes.modified),
            None => target.write(position, &relative(&name)?, attributes, &spare.buffer),
        };
        written.map_err(ours)?;
        Ok((Completed { name, bytes: offset, digest }, spare.cleared()))
    }
}

/// Hashes and writes.
fn write(hasher: &mut blake3::Hasher, bytes: &[u8], partial: &mut Partial) -> Result<(), Problem> {
    if bytes.is_empty() {
        return Ok(());
    }
    hasher.update(bytes);
    partial.write(bytes).map_err(ours)
}

impl Spare {
    /// For the next file.
    pub fn cleared(mut self: Box<Self>) -> Box<Self> {
        self.hasher.reset();
        self.buffer.clear();
        self
    }
}

/// Bytes that are gathered before they are hashed and written, from a multiple of them on: enough to be fast, little enough to stay in the cache.
/// From other places on the tree of a digest has no large parts, and a processor hashes many of its leaves at once only in those.
pub const WRITE_BYTES: usize = 256 << 10;
