//! Attributes and special entries of an archive (`send --archive`).
//!
//! The sender puts owners, all permission bits, extended attributes, further hard links, links that lead out, FIFOs
//! and devices into a table before its entries ([`carillon_wire::file::archive`]). The contents are transferred as
//! usual. When everything has arrived, the receiver makes the special entries, then sets the attributes of all entries
//! from handles that follow no link, and directories last. So an interrupted transfer resumes as usual, and no entry
//! is set-user-id before its contents are verified. Each attribute that the system refuses is a [`Loss`]; the others
//! are set.

mod apply;
mod loss;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod unshare;

use std::io;
use std::path::Path;
use std::str::FromStr;

use carillon_session::UnknownWord;

pub use loss::Loss;
pub(super) use loss::Losses;
pub(super) use table::Received;
pub(super) use unshare::Groups as HardLinkGroups;

/// Part of an archive that a receiver accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accepted {
    /// No archive: the receiver declines it.
    #[default]
    Nothing,
    /// Everything that gives no rights to others: set-user-id and set-group-id files, devices, file capabilities and
    /// `trusted` attributes are left out, and reported.
    Ordinary,
    /// Everything.
    Privileged,
}

impl FromStr for Accepted {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "ordinary" => Ok(Accepted::Ordinary),
            "privileged" => Ok(Accepted::Privileged),
            _ => Err(UnknownWord { expected: "ordinary or privileged" }),
        }
    }
}

/// Demand on receivers of an archive.
pub(crate) const ARCHIVE_DEMAND: &str = "archive";

/// Name of the access ACL of POSIX.
pub(super) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// Name of the default ACL of a directory.
pub(super) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Kind of an extended attribute that archives have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeKind {
    /// An attribute of users.
    User,
    /// A POSIX ACL.
    Acl,
    /// File capabilities, or an attribute that only root sees.
    Privileged,
}

impl AttributeKind {
    /// Kind of the attribute of this name; `None` for one that belongs to the policy of a host, such as the label of a
    /// security module.
    pub fn of(name: &[u8]) -> Option<AttributeKind> {
        match name {
            ACCESS_ACL | DEFAULT_ACL => Some(AttributeKind::Acl),
            b"security.capability" => Some(AttributeKind::Privileged),
            _ if name.starts_with(b"user.") => Some(AttributeKind::User),
            _ if name.starts_with(b"trusted.") => Some(AttributeKind::Privileged),
            _ => None,
        }
    }
}

/// Reads the extended attributes of a file or directory that archives have, in order of name. A file system without
/// attributes has none.
#[cfg(target_os = "linux")]
pub(super) fn read_attributes(path: &Path, buffer: &mut Vec<u8>) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    use rustix::fs::{getxattr, listxattr};
    use rustix::io::Errno;

    buffer.resize(MAX_ATTRIBUTE_BYTES, 0);
    let len = match listxattr(path, &mut buffer[..]) {
        Ok(len) => len,
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        Err(error) => return Err(error.into()),
    };
    let names = buffer[..len].split(|&byte| byte == 0);
    let mut names: Vec<Vec<u8>> =
        names.filter(|name| AttributeKind::of(name).is_some()).map(<[u8]>::to_vec).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        match getxattr(path, name.as_slice(), &mut buffer[..]) {
            Ok(len) => found.push((name, buffer[..len].to_vec())),
            // It was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Reads no attributes, which differ between systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_attributes(_: &Path, _: &mut Vec<u8>) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    Ok(Vec::new())
}

/// Maximum bytes of an attribute, and of the list of names, on Linux.
#[cfg(target_os = "linux")]
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;
