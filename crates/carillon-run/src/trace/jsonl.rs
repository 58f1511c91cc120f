//! The trace as text: one JSON object a line for each event.

use std::io::{self, BufWriter, Write};

use carillon_core::{Event, Format, Frame, NodeId, Observer, Time, TraceEvent};
use serde::Serialize;

use super::frame::FrameNames;

/// Writes each event as one line of JSON: `time_ns`, `node`, `event`, the fields of that event, and `link` and `packet`
/// of the frame that it is about.
///
/// The first error ends the trace and is kept for [`JsonLines::finish`]; the run goes on.
#[derive(Debug)]
pub struct JsonLines<W: Write> {
    out: BufWriter<W>,
    error: Option<io::Error>,
    frames: Option<FrameNames>,
}

/// Line of the trace.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: TraceEvent<&'a Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet: Option<&'a str>,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`, by way of a buffer.
    pub fn new(out: W) -> Self {
        JsonLines { out: BufWriter::new(out), error: None, frames: None }
    }

    /// Names the links and packet types of events, by the format of the protocol.
    pub fn naming_frames(self, format: &'static Format) -> Self {
        JsonLines { frames: Some(FrameNames::new(format)), ..self }
    }

    /// Flushes the buffer and returns the first write error, if any.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, event: TraceEvent<&Event>) -> io::Result<()> {
        match &mut self.frames {
            None => serde_json::to_writer(&mut self.out, &event)?,
            Some(frames) => {
                let name = frames.take(event.event);
                let link = name.link.map(|link| link.to_string());
                serde_json::to_writer(&mut self.out, &Line { event, link, packet: name.packet })?;
            }
        }
        self.out.write_all(b"\n")
    }
}

impl<W: Write + Send> Observer for JsonLines<W> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        if self.error.is_none() {
            self.error = self.line(TraceEvent { time, node, event }).err();
        }
    }

    fn watches_frames(&self) -> bool {
        self.frames.is_some()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if let Some(frames) = &mut self.frames {
            frames.note(frame);
        }
    }
}
