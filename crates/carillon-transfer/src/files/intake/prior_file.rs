//! A file of a resumed transfer that is complete already, and is compared with the sender's digest.

use super::super::arriving::Completed;
use super::super::names::shown_name;
use super::super::problem::{Problem, in_order, ours, refused, relative};
use super::super::target::Position;
use super::Sink;

/// A file that exists already.
#[derive(Debug)]
pub struct PriorFile {
    pub name: Vec<u8>,
    pub size: u64,
    /// Bytes received again.
    pub offset: u64,
}

impl PriorFile {
    /// Passes over a part that is received again.
    pub fn pass(&mut self, offset: u64, len: u64) -> Result<(), Problem> {
        in_order(&self.name, self.offset, offset)?;
        self.offset = self.offset.saturating_add(len);
        Ok(())
    }

    /// Compares the file with the sender's digest and names it.
    pub fn close(
        self,
        sink: &mut Sink,
        position: &mut Position,
        size: u64,
        digest: blake3::Hash,
    ) -> Result<Completed, Problem> {
        let PriorFile { name, size: had, offset } = self;
        let Sink::Files(target) = sink else { return Err(refused("files come")) };
        if size != had || size != offset {
            let name = shown_name(&name);
            return Err(Problem::Transfer(format!("{name} is incomplete: {offset} of {size} bytes arrived")));
        }
        let found = target.existing(position, &relative(&name)?, size).map_err(ours)?;
        let mut hasher = blake3::Hasher::new();
        if !found.is_some_and(|file| hasher.update_reader(file).is_ok() && hasher.finalize() == digest) {
            let text = format!(
                "{} exists and differs from the sender's file: remove it and try again",
                shown_name(&name)
            );
            return Err(refused(&text));
        }
        Ok(Completed { name, bytes: size, digest })
    }
}
