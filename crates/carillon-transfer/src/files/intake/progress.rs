//! Progress and result of a sender's data.

use super::super::arriving::{Completed, Unstored};
use super::{Intake, Stage};

impl Intake {
    /// The sender's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes received so far, including withdrawn files.
    pub fn bytes(&self) -> u64 {
        match &self.stage {
            Stage::Contents(open) => self.counts.bytes + open.offset,
            Stage::PriorFile(had) => self.counts.bytes + had.offset,
            Stage::Unwritten(file) => self.counts.bytes + file.offset,
            _ => self.counts.bytes,
        }
    }

    /// Returns true if the sender has ended its live stream and messages are missing.
    pub fn is_short(&self) -> bool {
        self.result.is_none() && self.stream.is_short()
    }

    /// Bytes that were present before.
    pub fn resumed(&self) -> u64 {
        self.counts.resumed
    }

    /// Bytes of changed files that were copied from their earlier versions.
    pub fn copied(&self) -> u64 {
        self.counts.copied
    }

    /// Total bytes of all files, once announced.
    pub fn total(&self) -> Option<u64> {
        self.announced.and_then(|(_, bytes)| bytes)
    }

    /// Files completed.
    pub fn files(&self) -> u32 {
        self.counts.files
    }

    /// Returns true if it failed by damaged data and the verified part is kept.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Result, once it has ended.
    pub fn result(&self) -> Option<&Result<(), String>> {
        self.result.as_ref()
    }

    /// Completed files since the last call, if they are listed.
    pub fn take_completed(&mut self) -> Vec<Completed> {
        self.completed.take()
    }

    /// Returns true if there are completed files to take.
    pub fn has_completed(&self) -> bool {
        self.completed.has_some()
    }

    /// Entries that cannot be stored, since the last call.
    pub fn take_unstored(&mut self) -> Vec<Unstored> {
        std::mem::take(&mut self.missing.unstored)
    }
}
