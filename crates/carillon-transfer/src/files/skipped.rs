//! Entries that are not sent, with their reasons.

use std::fmt;
use std::path::PathBuf;

use super::names::{shown, shown_name, shown_path};

/// An entry of a directory that is not sent, while the rest is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Path at the sender.
    pub path: PathBuf,
    /// Reason.
    pub reason: SkipReason,
}

/// Reason for not sending an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The entry was removed while the directory was listed.
    Vanished,
    /// The entry cannot be read, with the system's message.
    Unreadable(String),
    /// The entry is a FIFO, a socket or a device, as named here.
    Special(&'static str),
    /// The entry is an incomplete file of an earlier transfer.
    Incomplete,
    /// Its path is longer or deeper than a transfer can carry.
    Path,
    /// The link has no target and should be followed.
    DanglingLink,
    /// The link leads to a directory above it and should be followed.
    LinkLoop,
    /// The link should be kept, and its target, given here, may be outside the tree.
    LinkLeadsOut(Vec<u8>),
    /// The entry is a link, and the caller chose to omit links.
    LinkUnwanted,
}

impl SkipReason {
    /// The reason as one word, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            SkipReason::Vanished => "vanished",
            SkipReason::Unreadable(_) => "unreadable",
            SkipReason::Special(_) => "special",
            SkipReason::Incomplete => "incomplete",
            SkipReason::Path => "path",
            SkipReason::DanglingLink => "dangling-link",
            SkipReason::LinkLoop => "link-loop",
            SkipReason::LinkLeadsOut(_) => "link-leads-out",
            SkipReason::LinkUnwanted => "link-unwanted",
        }
    }

    /// Returns true if the caller chose to omit the entry. All other skipped entries make the transfer incomplete.
    pub fn is_wanted(&self) -> bool {
        *self == SkipReason::LinkUnwanted
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Vanished => f.write_str("was removed while the directory was listed"),
            SkipReason::Unreadable(error) => write!(f, "cannot be read: {}", shown(error)),
            SkipReason::Special(what) => write!(f, "is a {what}"),
            SkipReason::Incomplete => f.write_str("is a file that did not arrive completely"),
            SkipReason::Path => f.write_str("has a path that is too long or too deep"),
            SkipReason::DanglingLink => f.write_str("is a symbolic link that leads nowhere"),
            SkipReason::LinkLoop => f.write_str("is a symbolic link to a directory above it"),
            SkipReason::LinkLeadsOut(target) => {
                write!(f, "is a symbolic link that could lead out of the tree, to {}", shown_name(target))
            }
            SkipReason::LinkUnwanted => f.write_str("is a symbolic link"),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: not sent", shown_path(&self.path), self.reason)
    }
}
