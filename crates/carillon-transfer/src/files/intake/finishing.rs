//! Call of the receiver's function at the end of a transfer.

use super::super::finish::{Arrived, Finish, WrittenFiles};
use super::Intake;

impl Intake {
    /// Collects the files that are written, for [`finish`](Self::finish).
    pub fn collecting(self, collects: bool) -> Self {
        Intake { written: collects.then(WrittenFiles::default), ..self }
    }

    /// Calls the function, once, if everything has arrived. Its error becomes the result.
    pub fn finish(&mut self, finish: &Finish, job: [u8; 16]) {
        if self.result() != Some(&Ok(())) {
            return;
        }
        let Some(written) = self.written.take() else { return };
        let arrived = Arrived {
            job,
            sender: &self.name,
            files: self.files,
            bytes: self.bytes,
            written: written.files(),
            deleted: self.deleted().map_or(0, |deleted| deleted.count),
            digest: self.listing.digest(),
        };
        if let Err(text) = finish.call(&arrived) {
            self.result = Some(Err(format!("everything arrived and is verified, but {text}")));
        }
    }
}
