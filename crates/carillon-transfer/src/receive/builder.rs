//! Options of a receiver, one by one.

use std::path::PathBuf;

use carillon_core::Duration;
use carillon_monitor::Monitor;

use super::ToReceive;
use crate::end::End;
use crate::files::{Accepted, Finish, VerifyingKey};

impl End<ToReceive> {
    /// Replaces files that exist.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        self.what.overwrite = true;
        self
    }

    /// Replaces files that exist, and changes those of 4 MiB and more in place. That takes the room of one version
    /// instead of two. If the transfer fails, such a file is neither its old nor its new version
    /// ([`ReceiveReport::partly_changed`](crate::ReceiveReport::partly_changed)).
    #[must_use]
    pub fn in_place(mut self) -> Self {
        self.what.overwrite = true;
        self.what.in_place = true;
        self
    }

    /// Lets senders delete files that they do not have, below the directories that they send.
    #[must_use]
    pub fn allow_delete(mut self) -> Self {
        self.what.options.files.allow_delete = true;
        self
    }

    /// Accepts archives: owners, all permission bits, attributes, hard links and special entries.
    #[must_use]
    pub fn allow_archive(mut self, accepted: Accepted) -> Self {
        self.what.options.files.allow_archive = accepted;
        self
    }

    /// Writes everything to the disk before the transfer counts as verified.
    #[must_use]
    pub fn sync(mut self) -> Self {
        self.what.options.files.sync = true;
        self
    }

    /// Calls a function when everything has arrived and is verified, before the sender learns of it. Its error is that
    /// of the transfer.
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Self {
        self.what.options.files.finish = Some(finish);
        self
    }

    /// Sets the silence after which it abandons the sender. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Attaches at most 256 bytes that the sender's program receives in
    /// [`SendEvent::Joined`](crate::SendEvent::Joined). Without a key any host on the network can read them.
    #[must_use]
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.what.options.attached = bytes.into();
        self
    }

    /// Accepts only files signed with this key or another key named by this method ([`End::sign`]). Unsigned data
    /// never gets a final file name.
    #[must_use]
    pub fn trust(mut self, key: VerifyingKey) -> Self {
        self.what.options.trust.keys.push(key);
        self
    }

    /// Stores the signing times of accepted transfers in this file and refuses older transfers of the same name.
    /// Without a file the check covers only the transfers of this process.
    #[must_use]
    pub fn history(mut self, path: impl Into<PathBuf>) -> Self {
        self.what.options.trust.history = Some(path.into());
        self
    }

    /// Accepts transfers that were signed before an accepted one.
    #[must_use]
    pub fn allow_older(mut self) -> Self {
        self.what.options.trust.allow_older = true;
        self
    }

    /// Accepts only the sender of this name, or others named by this method. Names are not authenticated; use
    /// [`trust`](Self::trust) against forgery.
    #[must_use]
    pub fn listening_to(mut self, sender: impl Into<String>) -> Self {
        self.what.options.from.insert(sender.into());
        self
    }

    /// Serves as a designated receiver, if the protocol has helpers and the sender permits it ([`End::helpers`]);
    /// otherwise only receives.
    #[must_use]
    pub fn helping(mut self) -> Self {
        self.what.options.helps = true;
        self
    }

    /// Sends nothing and accepts senders that do not wait for receivers ([`End::silent_receivers`]), for links
    /// without a return path. Such senders are authenticated only by [`trust`](Self::trust).
    #[must_use]
    pub fn one_way(mut self) -> Self {
        self.what.options.one_way = true;
        self
    }

    /// Sends snapshots of the receiver and its senders to this monitor, a few times a second.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }
}
