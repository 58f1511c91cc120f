//! Call of the receiver's function at the end of a transfer.

use super::super::finish::{Arrived, Finish};
use super::super::problem::{Problem, ours, refused};
use super::{Intake, Sink};

impl Intake {
    /// Sets attributes and deletes, when everything has arrived.
    pub(super) fn conclude(&mut self, sink: &mut Sink) -> Result<(), Problem> {
        self.set_archive(sink)?;
        if let Some(descent) = &mut self.position {
            descent.finish().map_err(ours)?;
        }
        let deleted = if self.has_all_specials() { self.delete(sink) } else { Ok(()) };
        self.set_directories(sink)?;
        deleted?;
        let losses = self.losses().and_then(|losses| losses.text());
        match losses.into_iter().chain(self.missing.text()).collect::<Vec<_>>() {
            texts if texts.is_empty() => Ok(()),
            texts => Err(refused(&texts.join("; "))),
        }
    }

    /// Collects the files that are written, for [`finish`](Self::finish).
    pub fn collecting(mut self, collects: bool) -> Self {
        self.completed.collect(collects);
        self
    }

    /// Calls the function, once, if everything has arrived. Its error becomes the result.
    pub fn finish(&mut self, finish: &Finish, job: [u8; 16]) {
        if self.result() != Some(&Ok(())) {
            return;
        }
        let Some(written) = self.completed.take_written() else { return };
        let arrived = Arrived {
            job,
            sender: &self.name,
            files: self.counts.files,
            bytes: self.counts.bytes,
            written: written.files(),
            deleted: self.deleted().map_or(0, |deleted| deleted.count),
            digest: self.listing.digest(),
        };
        if let Err(text) = finish.call(&arrived) {
            self.result = Some(Err(format!("everything arrived and is verified, but {text}")));
        }
    }
}
