//! Entries of a tree that are not sent, each with its reason.

use std::fmt;
use std::path::PathBuf;

use super::names::{shown, shown_name, shown_path};

/// An entry of a directory that is not sent. The rest of the directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Where it is at the sender.
    pub path: PathBuf,
    /// Why it is not sent.
    pub reason: SkipReason,
}

/// Why an entry is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It was removed while the directory was listed.
    Vanished,
    /// It cannot be read; what the system said.
    Unreadable(String),
    /// It is a FIFO, a socket or a device, as named here.
    Special(&'static str),
    /// It is a file that an earlier transfer has left incomplete.
    Incomplete,
    /// Its path is longer or deeper than a transfer can carry.
    Path,
    /// It is a link to be followed, and there is nothing at its end.
    DanglingLink,
    /// It is a link to be followed, and leads to a directory above it.
    LinkLoop,
    /// It is a link to be kept, and its target, given here, could be outside of the tree.
    LinkLeadsOut(Vec<u8>),
    /// It is a link, and the caller asked to leave links out.
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

    /// Whether the caller asked for it. All other entries that are skipped make the transfer incomplete.
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
