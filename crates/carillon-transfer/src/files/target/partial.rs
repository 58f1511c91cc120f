//! An incomplete file under a temporary name, a file that is changed in place, or a part of the single output.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::super::draft::Draft;
use super::super::holes;
use super::super::names::{shown_name, shown_path};
use super::super::output::Output;
use super::device::DeviceWriter;
use super::errors::cannot_write;
use super::in_place::InPlace;
use crate::error::{Context as _, LocalError};

/// An incomplete file. Dropping it removes the file, unless it is changed in place.
#[derive(Debug)]
pub struct Partial(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    File { draft: Draft<OwnedFd>, path: PathBuf, overwrite: bool },
    InPlace { file: Box<InPlace>, path: PathBuf },
    Device(Box<DeviceWriter>),
    Output(Output),
}

impl Partial {
    /// Keeps the file after the drop.
    pub(super) fn keep(&mut self) {
        if let Kind::File { draft, .. } = &mut self.0 {
            draft.keep();
        }
    }

    /// Path below this directory, with its temporary name.
    pub(super) fn part(&self, root: &Path) -> Option<Vec<u8>> {
        let Kind::File { draft, path, .. } = &self.0 else { return None };
        let part = path.strip_prefix(root).ok()?.with_file_name(OsStr::from_bytes(draft.part()));
        Some(part.into_os_string().into_vec())
    }

    /// Name of what has neither its old nor its new contents: a file of this name that is changed in place, or a device.
    pub(in crate::files) fn partly_changed(&self, name: &[u8]) -> Option<String> {
        match &self.0 {
            Kind::InPlace { file, .. } => file.is_marked().then(|| shown_name(name).into_owned()),
            Kind::Device(device) => device.partly_changed().map(shown_path),
            Kind::File { .. } | Kind::Output(_) => None,
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LocalError> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.write(bytes).with_context(|| cannot_write(path)),
            Kind::InPlace { file, path } => file.write(bytes).with_context(|| cannot_write(path)),
            Kind::Device(device) => device.write(bytes),
            Kind::Output(output) => output.write(bytes),
        }
    }

    /// Truncates the file to this length; one that is changed in place, and a device, stay as they are.
    pub fn cut(&mut self, len: u64) -> Result<(), LocalError> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.cut(len).with_context(|| cannot_write(path)),
            Kind::InPlace { .. } | Kind::Device(_) | Kind::Output(_) => Ok(()),
        }
    }

    /// Appends zeros as a hole.
    pub fn go_over(&mut self, len: u64) -> Result<(), LocalError> {
        match &mut self.0 {
            Kind::File { draft, path, .. } => draft.go_over(len).with_context(|| cannot_write(path)),
            Kind::InPlace { file, path } => file.go_over(len).with_context(|| cannot_write(path)),
            Kind::Device(device) => device.go_over(len),
            Kind::Output(output) => holes::zeros(len).try_for_each(|zeros| output.write(zeros)),
        }
    }

    /// Removes the file, even if it was kept, unless it is changed in place.
    pub fn discard(self) {
        if let Kind::File { draft, .. } = self.0 {
            draft.discard();
        }
    }
}
