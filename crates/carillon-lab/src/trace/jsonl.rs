//! The trace as text: one JSON object a line for each event.

use std::io::{self, BufWriter, Write};

use carillon_core::{Event, NodeId, Observer, Time, TraceEvent};

/// Writes each event as one line of JSON: `time_ns`, `node`, `event`, and what that event has.
///
/// The first error ends the trace and is kept for [`JsonLines::finish`]; the run goes on.
#[derive(Debug)]
pub struct JsonLines<W: Write> {
    out: BufWriter<W>,
    error: Option<io::Error>,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`, by way of a buffer.
    pub fn new(out: W) -> Self {
        JsonLines { out: BufWriter::new(out), error: None }
    }

    /// Flushes the buffer and returns the first write error, if any.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, event: &TraceEvent<&Event>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write + Send> Observer for JsonLines<W> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        if self.error.is_none() {
            self.error = self.line(&TraceEvent { time, node, event }).err();
        }
    }
}
