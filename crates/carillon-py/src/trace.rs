//! The trace of a run as a table: a row for each event, a column for each field that some event has.
//!
//! The columns follow the serialized form of [`Event`], which the JSON trace uses too. A new field of an event
//! therefore becomes a column without a change here.

mod columns;
mod fields;

use carillon_core::{Event, Format, Frame, NodeId, Observer, Time};
use carillon_lab::trace::frame::FrameNames;

use self::columns::{Columns, Value};
use self::fields::set_fields;

/// Observer that appends each event to the columns, with the link and the packet type of its frame.
pub struct TableRecorder {
    pub columns: Columns,
    frames: FrameNames,
}

impl TableRecorder {
    /// Recorder without events, for packets of a format.
    pub fn new(format: &'static Format) -> Self {
        TableRecorder { columns: Columns::default(), frames: FrameNames::new(format) }
    }
}

impl Observer for TableRecorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.columns.begin_row(time, node);
        set_fields(&mut self.columns, event);
        let name = self.frames.take(event);
        if let Some(link) = name.link {
            self.columns.set("link", Value::Word(&link.to_string()));
        }
        if let Some(packet) = name.packet {
            self.columns.set("packet", Value::Word(packet));
        }
    }

    fn watches_frames(&self) -> bool {
        true
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.frames.note(frame);
    }
}
