//! The trace of a run as a table: a row for each event, a column for each field that some event has.
//!
//! The columns follow the serialized form of [`Event`], which the JSON trace uses too. A new field of an event
//! therefore becomes a column without a change here.

mod columns;
mod fields;

use carillon_core::{Event, NodeId, Observer, Time};

use self::columns::Columns;

/// Observer that appends each event to the columns.
#[derive(Default)]
pub struct TableRecorder {
    pub columns: Columns,
}

impl Observer for TableRecorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.columns.push(time, node, event);
    }
}
