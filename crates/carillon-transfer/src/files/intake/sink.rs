//! Destination of all senders' data: files, or messages of live streams.

use carillon_session::ListId;
use carillon_wire::file::ResumePoint;

use super::super::archive::Accepted;
use super::super::live::Live;
use super::super::target::Target;
use crate::error::LocalError;

/// Destination of all senders' data.
#[derive(Debug)]
pub enum Sink {
    /// Files.
    Files(Target),
    /// Messages of live streams.
    Live(Live),
}

impl Sink {
    /// Returns messages about the destination, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        match self {
            Sink::Files(target) => target.take_notes(),
            Sink::Live(_) => Vec::new(),
        }
    }

    /// Returns true if it never blocks while it has room.
    pub(in crate::files) fn is_prompt(&self) -> bool {
        match self {
            Sink::Files(_) => false,
            Sink::Live(live) => live.is_prompt(),
        }
    }

    /// Progress of an earlier attempt; asked between transfers. A live stream has always one, which says that it can
    /// be resumed.
    pub fn reached(&mut self, trusted: bool) -> Option<ResumePoint> {
        match self {
            Sink::Files(target) => target.reached(trusted),
            Sink::Live(live) => Some(live.reached()),
        }
    }

    /// Permits senders to delete entries of the directory.
    pub fn permit_deleting(&mut self, deletes: bool) {
        if let Sink::Files(target) = self {
            target.permit_deleting(deletes);
        }
    }

    /// Paths of files that are neither their old nor their new version.
    pub fn partly_changed(&self) -> Vec<Vec<u8>> {
        match self {
            Sink::Files(target) => target.partly_changed(),
            Sink::Live(_) => Vec::new(),
        }
    }

    /// Accepts this part of archives.
    pub fn accept_archives(&mut self, accepts: Accepted) {
        if let Sink::Files(target) = self {
            target.accept_archives(accepts);
        }
    }

    /// Writes everything to the disk, if the destination is to be there.
    pub(super) fn sync(&self) -> Result<(), LocalError> {
        match self {
            Sink::Files(target) => target.sync(),
            Sink::Live(_) => Ok(()),
        }
    }

    /// Waits before the end of a transfer until everything is on the disk.
    pub fn sync_at_end(&mut self, syncs: bool) {
        if let Sink::Files(target) = self {
            target.sync_at_end(syncs);
        }
    }

    /// Identity of the list of the last complete update, zero without one; `None` if this is not a directory, which
    /// alone can be updated.
    pub fn list(&self) -> Option<ListId> {
        match self {
            Sink::Files(target @ Target::Directory(_)) => Some(ListId(target.list().unwrap_or_default())),
            Sink::Files(Target::Output(_) | Target::Device(_)) | Sink::Live(_) => None,
        }
    }

    /// Identifier of the destination: equal in every process of this host for the same directory, otherwise the
    /// number of this process.
    pub fn place(&self, process: u64) -> u64 {
        let place = match self {
            Sink::Files(target) => target.place(),
            Sink::Live(_) => None,
        };
        let digest = |place: Vec<u8>| {
            blake3::hash(&place).as_bytes().iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        place.map_or(process, digest)
    }

    /// Prepares the destination for the next transfer.
    #[must_use]
    pub fn again(self) -> Sink {
        match self {
            Sink::Live(live) => Sink::Live(live.again()),
            files => files,
        }
    }
}
