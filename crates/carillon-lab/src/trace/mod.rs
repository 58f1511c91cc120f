//! Traces in files: everything that happened as JSON, or every datagram as a packet capture.

pub mod pcapng;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use carillon_core::{Bytes, Dest, Event, Frame, NodeId, Observer, Time};
use thiserror::Error;

pub use carillon_run::trace::{JsonLines, Recording, frame, recording};
pub use pcapng::{Capture, CaptureOptions};

/// A trace in a file, in the format its extension names.
///
/// The file grows as the run goes, so that a run that is stopped leaves what it saw. The last of
/// it is in a buffer until [`TraceFile::finish`], which also tells of errors.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    format: Format,
}

/// Why there is no trace, or not all of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The extension names no format.
    #[error("cannot tell the format of the trace {}: its name must end in .jsonl or .pcapng", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error("cannot write the trace {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl TraceFile {
    /// Creates or truncates the file. `.jsonl` receives the events, `.pcapng` the datagrams; `options` apply to a
    /// capture.
    pub fn create(path: &Path, options: CaptureOptions) -> Result<TraceFile, TraceError> {
        let in_file = |source| TraceError::Io { path: path.into(), source };
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("jsonl") => Format::JsonLines(JsonLines::new(File::create(path).map_err(in_file)?)),
            Some("pcapng") => {
                let file = File::create(path).map_err(in_file)?;
                Format::Capture(Box::new(Capture::new(file, options).map_err(in_file)?))
            }
            _ => return Err(TraceError::UnknownFormat { path: path.into() }),
        };
        Ok(TraceFile { path: path.into(), format })
    }

    /// Names the links and packet types of events, by the format of the protocol; a capture has them in its packets.
    pub fn naming_frames(self, format: &'static carillon_core::Format) -> Self {
        let format = match self.format {
            Format::JsonLines(trace) => Format::JsonLines(trace.naming_frames(format)),
            capture => capture,
        };
        TraceFile { format, ..self }
    }

    /// Sets the address of a node from now on; in a real run addresses become known as it proceeds.
    pub fn name_node(&mut self, node: NodeId, address: SocketAddr) {
        if let Format::Capture(capture) = &mut self.format {
            capture.name_node(node, address);
        }
    }

    /// Completes the file, and tells the first error there was.
    pub fn finish(self) -> Result<(), TraceError> {
        let finished = match self.format {
            Format::JsonLines(trace) => trace.finish(),
            Format::Capture(capture) => capture.finish(),
        };
        finished.map_err(|source| TraceError::Io { path: self.path, source })
    }
}

impl Observer for TraceFile {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match &mut self.format {
            Format::JsonLines(trace) => trace.event(time, node, event),
            Format::Capture(capture) => capture.event(time, node, event),
        }
    }

    fn watches_frames(&self) -> bool {
        matches!(&self.format, Format::JsonLines(trace) if trace.watches_frames())
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if let Format::JsonLines(trace) = &mut self.format {
            trace.frame(frame);
        }
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        match &mut self.format {
            Format::JsonLines(trace) => trace.datagram(time, from, to, bytes),
            Format::Capture(capture) => capture.datagram(time, from, to, bytes),
        }
    }
}

#[derive(Debug)]
enum Format {
    JsonLines(JsonLines<File>),
    Capture(Box<Capture<File>>),
}
