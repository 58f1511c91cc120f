//! Files that were completed, for the functions that want to know them.

use super::super::arriving::Completed;
use super::super::finish::WrittenFiles;

/// Lists of completed files, each only if something asks for it.
#[derive(Debug)]
pub struct CompletedFiles {
    /// Files since the last call of [`take`](Self::take).
    listed: Option<Vec<Completed>>,
    /// Files of the whole transfer, for the function that is called at its end.
    written: Option<WrittenFiles>,
}

impl CompletedFiles {
    /// Begins without a list of the whole transfer; files are listed for [`take`](Self::take) if `lists` is set.
    pub fn new(lists: bool) -> Self {
        CompletedFiles { listed: lists.then(Vec::new), written: None }
    }

    /// Collects all files from now on, if `collects` is set.
    pub fn collect(&mut self, collects: bool) {
        self.written = collects.then(WrittenFiles::default);
    }

    /// Takes the files of the whole transfer, if they were collected.
    pub fn take_written(&mut self) -> Option<WrittenFiles> {
        self.written.take()
    }

    /// Adds a file.
    pub fn add(&mut self, completed: Completed) {
        if let Some(list) = &mut self.written {
            list.add(&completed);
        }
        if let Some(list) = &mut self.listed {
            list.push(completed);
        }
    }

    /// Takes the files since the last call.
    pub fn take(&mut self) -> Vec<Completed> {
        self.listed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns true if there are files to take.
    pub fn has_some(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| !listed.is_empty())
    }
}
