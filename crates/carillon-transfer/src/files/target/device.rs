//! A block device that the contents of one file are written to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::block_device::open_unused;
use super::super::names::{shown_name, shown_path};
use super::comparing::ComparingWriter;
use super::errors::cannot_write;
use crate::error::{LocalError, stated};

/// A device as the destination of transfers. It is open, and thus in use, only while a file arrives, so that a program
/// can mount it afterwards.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    /// True while the device has neither its old nor a complete new content.
    is_partly_changed: Arc<AtomicBool>,
}

/// A file that is being written to a device.
#[derive(Debug)]
pub struct DeviceWriter {
    path: PathBuf,
    writer: ComparingWriter,
    /// Size of the device in bytes.
    size: u64,
    is_partly_changed: Arc<AtomicBool>,
}

impl Device {
    /// Checks that the device exists and can be written, and that nothing uses it.
    pub fn new(path: &Path) -> Result<Device, LocalError> {
        open_unused(path)?;
        Ok(Device { path: path.to_owned(), is_partly_changed: Arc::default() })
    }

    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true while the device has neither its old nor a complete new content.
    pub fn is_partly_changed(&self) -> bool {
        self.is_partly_changed.load(Ordering::Relaxed)
    }

    /// Begins a file of this size, if known. Nothing is written if it does not fit.
    pub fn begin(&self, name: &[u8], size: Option<u64>) -> Result<DeviceWriter, LocalError> {
        let (file, room) = open_unused(&self.path)?;
        if let Some(size) = size.filter(|size| *size > room) {
            let (name, path) = (shown_name(name), shown_path(&self.path));
            return Err(stated!("{name} has {size} bytes, and {path} only {room}: nothing was written"));
        }
        Ok(DeviceWriter {
            path: self.path.clone(),
            writer: ComparingWriter::new(file, room),
            size: room,
            is_partly_changed: self.is_partly_changed.clone(),
        })
    }

    /// Error of an entry that a device cannot hold.
    pub fn refuse<T>(&self, name: &[u8], what: &str) -> Result<T, LocalError> {
        let (name, path) = (shown_name(name), shown_path(&self.path));
        Err(stated!(
            "{name} is a {what}, and {path} takes the contents of one file: send a single file or device"
        ))
    }
}

impl DeviceWriter {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LocalError> {
        self.expect_room(bytes.len() as u64)?;
        let Self { writer, is_partly_changed, .. } = self;
        let written = writer.write(bytes, |_| {
            is_partly_changed.store(true, Ordering::Relaxed);
            Ok(())
        });
        written.map_err(|error| self.failed(error))
    }

    /// Appends zeros.
    pub fn go_over(&mut self, len: u64) -> Result<(), LocalError> {
        self.expect_room(len)?;
        let Self { writer, is_partly_changed, .. } = self;
        let written = writer.go_over(len, |_| {
            is_partly_changed.store(true, Ordering::Relaxed);
            Ok(())
        });
        written.map_err(|error| self.failed(error))
    }

    /// Ends a verified file: waits until it is on the device.
    pub fn finish(self) -> Result<(), LocalError> {
        let file: &File = self.writer.file();
        file.sync_all().map_err(|error| self.failed(error))?;
        self.is_partly_changed.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Path of the device, if it has neither its old nor a complete new content.
    pub fn partly_changed(&self) -> Option<&Path> {
        self.is_partly_changed.load(Ordering::Relaxed).then_some(&self.path)
    }

    /// A stream does not announce its size.
    fn expect_room(&self, len: u64) -> Result<(), LocalError> {
        if self.writer.at().saturating_add(len) > self.size {
            return Err(stated!("more arrives than the {} bytes of {}", self.size, shown_path(&self.path)));
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> LocalError {
        LocalError::from(error).context(cannot_write(&self.path))
    }
}
