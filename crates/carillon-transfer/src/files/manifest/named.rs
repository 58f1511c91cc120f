//! Lists of names to send (`--files-from`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use carillon_wire::file::MODE_MASK;

use super::super::names::{below, components, is_part_name, shown_name, shown_path};
use super::super::skipped::SkipReason;
use super::super::times;
use super::{Entry, Kind, Manifest};
use crate::error::{Context as _, LocalError, stated};

/// Splits a list of names: by NUL if it contains one, as no name does, otherwise by lines.
pub fn split_names(list: &[u8]) -> Vec<Vec<u8>> {
    let end = if list.contains(&0) { 0 } else { b'\n' };
    list.split(|&byte| byte == end).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

impl Manifest {
    /// Adds the entries of these names below a directory. Directories come without their contents, so that the list
    /// alone decides; names that have vanished are skipped.
    pub(super) fn add_named(&mut self, base: &Path, names: &[Vec<u8>]) -> Result<(), LocalError> {
        if !fs::metadata(base).with_context(|| format!("cannot read {}", shown_path(base)))?.is_dir() {
            return Err(stated!(
                "{} is no directory: names of --files-from are relative to one",
                shown_path(base)
            ));
        }
        self.tree = base.canonicalize().ok();
        let names = names.iter().map(|name| plain(name)).collect::<Result<BTreeSet<_>, LocalError>>()?;
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let path = below(base, &name);
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.skip(&path, SkipReason::Vanished);
                    continue;
                }
                Err(error) => {
                    self.skip(&path, SkipReason::Unreadable(error.to_string()));
                    continue;
                }
                Ok(metadata) => metadata,
            };
            if self.exclude.matches_below(&name, metadata.is_dir()) {
                self.excluded += 1;
                continue;
            }
            if components(&name).any(is_part_name) {
                self.skip(&path, SkipReason::Incomplete);
                continue;
            }
            let metadata = match metadata.is_symlink() {
                true => self.link(&path, &name),
                false => Some(metadata),
            };
            match metadata {
                Some(metadata) if metadata.is_dir() => {
                    let mode = metadata.permissions().mode() & MODE_MASK;
                    let modified = times::carried((metadata.mtime(), metadata.mtime_nsec()));
                    self.push(Entry { name, kind: Kind::Directory { modified }, mode }, &path, &metadata);
                }
                Some(metadata) => self.add(&path, name, &metadata, false)?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Name without `.` and repeated slashes; empty for the directory itself.
fn plain(name: &[u8]) -> Result<Vec<u8>, LocalError> {
    if name.starts_with(b"/") || components(name).any(|part| part == b"..") {
        return Err(stated!(
            "--files-from: \"{}\" leads out of the directory: names are relative to PATH",
            shown_name(name)
        ));
    }
    let parts: Vec<&[u8]> = components(name).filter(|part| !matches!(*part, b"" | b".")).collect();
    Ok(parts.join(&b'/'))
}
