//! Traces in files: everything that happened as JSON, or every datagram as a packet capture.

pub mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use carillon_core::{Bytes, Dest, Event, Frame, Machine, NodeId, Observer, Time};
use recording::Description;
use thiserror::Error;

pub use carillon_run::trace::{JsonLines, Nam, Recording, frame, recording};
pub use pcapng::{Capture, CaptureOptions};

use crate::scenario::Scenario;

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
    #[error("cannot tell the format of the trace {}: its name must end in .jsonl, .pcapng, .carr or .nam", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The format describes a network that is known to the simulator only.
    #[error("cannot write {}: a .{extension} file is a trace of `carillon run`, which knows the network; end its name in .jsonl or .pcapng", path.display())]
    NeedsNetwork {
        /// The file.
        path: PathBuf,
        /// Its extension.
        extension: &'static str,
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
            Some("carr") => return Err(TraceError::NeedsNetwork { path: path.into(), extension: "carr" }),
            Some("nam") => return Err(TraceError::NeedsNetwork { path: path.into(), extension: "nam" }),
            _ => return Err(TraceError::UnknownFormat { path: path.into() }),
        };
        Ok(TraceFile { path: path.into(), format })
    }

    /// Creates or truncates the file for a simulated run of this scenario. Beside the formats of
    /// [`create`](TraceFile::create), `.carr` receives a recording and `.nam` a trace for nam.
    pub fn of_run(path: &Path, scenario: &Scenario) -> Result<TraceFile, TraceError> {
        let in_file = |source| TraceError::Io { path: path.into(), source };
        let file = || File::create(path).map_err(in_file);
        let format = match TraceFile::create(path, CaptureOptions::default()) {
            Ok(trace) => return Ok(trace.naming_frames(scenario.protocol.packets.format)),
            Err(TraceError::NeedsNetwork { extension: "nam", .. }) => {
                Format::Nam(Box::new(Nam::new(scenario, BufWriter::new(file()?))))
            }
            Err(TraceError::NeedsNetwork { .. }) => {
                let recording = Recording::of(scenario, recording::DEFAULT_EVENT_LIMIT);
                Format::Recording(Box::new(recording), BufWriter::new(file()?))
            }
            Err(error) => return Err(error),
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

    /// Returns true if the trace is a recording with less than the whole run.
    pub fn is_truncated(&self) -> bool {
        matches!(&self.format, Format::Recording(recording, _) if recording.is_truncated())
    }

    /// Completes the file, and tells the first error there was.
    pub fn finish(self) -> Result<(), TraceError> {
        self.finish_as(&Description::default())
    }

    /// Completes the file as [`finish`](TraceFile::finish) does; a recording gets this description of the run.
    pub fn finish_as(self, description: &Description<'_>) -> Result<(), TraceError> {
        let finished = match self.format {
            Format::JsonLines(trace) => trace.finish(),
            Format::Capture(capture) => capture.finish(),
            Format::Nam(trace) => trace.finish().map(drop),
            Format::Recording(recording, out) => recording.write(description, out),
        };
        finished.map_err(|source| TraceError::Io { path: self.path, source })
    }
}

impl Observer for TraceFile {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.format.observer_mut().event(time, node, event);
    }

    fn watches_frames(&self) -> bool {
        self.format.observer().watches_frames()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.format.observer_mut().frame(frame);
    }

    fn watches_buffers(&self) -> bool {
        self.format.observer().watches_buffers()
    }

    fn watches_machines(&self) -> bool {
        self.format.observer().watches_machines()
    }

    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        self.format.observer_mut().machine(time, node, machine, deadline);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.format.observer_mut().datagram(time, from, to, bytes);
    }
}

#[derive(Debug)]
enum Format {
    JsonLines(JsonLines<File>),
    Capture(Box<Capture<File>>),
    Nam(Box<Nam<BufWriter<File>>>),
    Recording(Box<Recording>, BufWriter<File>),
}

impl Format {
    fn observer(&self) -> &dyn Observer {
        match self {
            Format::JsonLines(trace) => trace,
            Format::Capture(capture) => capture.as_ref(),
            Format::Nam(trace) => trace.as_ref(),
            Format::Recording(recording, _) => recording.as_ref(),
        }
    }

    fn observer_mut(&mut self) -> &mut dyn Observer {
        match self {
            Format::JsonLines(trace) => trace,
            Format::Capture(capture) => capture.as_mut(),
            Format::Nam(trace) => trace.as_mut(),
            Format::Recording(recording, _) => recording.as_mut(),
        }
    }
}
