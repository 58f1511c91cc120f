//! A scenario file as it was read: its points, and what it says as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_core::ProtocolEntry;
use toml::Table;

use super::document::Document;
use super::error::ScenarioError;
use super::inputs::{InputContents, Inputs};
use super::precision::Precision;
use super::sweep::{Axis, Point, get, points, text_of};

/// A scenario file as read, with the settings made on top of it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    pub(super) origin: String,
    /// Files that it names, looked up in its folder.
    pub(super) inputs: Inputs,
    /// The text, to point at lines in it; empty if there is none.
    pub(super) text: String,
    pub(super) table: Table,
    pub(super) document: Document,
    pub(super) axes: Vec<Axis>,
    /// Protocols that the file may name.
    pub(super) protocols: &'static [&'static ProtocolEntry],
}

impl ScenarioFile {
    /// The sweep points in order: the cross product of the axes, the last one running fastest.
    pub fn points(&self) -> Vec<Point> {
        points(&self.axes)
    }

    /// Path from which the file was read.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.document.name
    }

    /// Source that the scenario repeats, if stated.
    pub fn source(&self) -> Option<&str> {
        self.document.source.as_deref()
    }

    /// The value that a key of a section has where it is not swept, as it would be typed.
    pub fn text(&self, key: &str) -> Option<String> {
        get(&self.table, key).map(text_of)
    }

    /// The axes of its sweep.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Number of runs per point, at most if the scenario has a [`precision`](ScenarioFile::precision).
    pub fn replications(&self) -> u32 {
        self.document.run.replications
    }

    /// The precision at which a point needs no more runs, if the scenario has one.
    pub fn precision(&self) -> Option<Precision> {
        let run = &self.document.run;
        run.precision.map(|relative| Precision { relative, metrics: run.precision_of.clone() })
    }

    /// The seed of its random streams.
    pub fn seed(&self) -> u64 {
        self.document.run.seed
    }

    /// Returns true if the document of a manifest repeats this scenario: it is equal except for the swept keys, the
    /// number of messages and the number of runs.
    pub fn repeats(&self, manifest: &serde_json::Value) -> bool {
        let strip = |mut document: serde_json::Value| {
            let swept = self.axes.iter().flat_map(|axis| &axis.keys).map(String::as_str);
            for key in swept.chain(["workload.messages"]) {
                if let Some((section, name)) = key.split_once('.')
                    && let Some(section) = document.get_mut(section).and_then(|table| table.as_object_mut())
                {
                    section.remove(name);
                }
            }
            if let Some(document) = document.as_object_mut() {
                document.remove("sweep");
                document.remove("run");
            }
            document
        };
        serde_json::to_value(&self.table).is_ok_and(|own| strip(own) == strip(manifest.clone()))
    }

    /// Contents of the files that the scenario names, by these names. With them [`ScenarioFile::from_table_with`]
    /// builds the same scenario on a machine that has none of the files.
    pub fn inputs(&self) -> InputContents {
        self.inputs.contents()
    }

    /// Text files among [`inputs`](ScenarioFile::inputs).
    pub fn text_inputs(&self) -> BTreeMap<String, String> {
        let text = |(name, content): (String, Arc<[u8]>)| {
            Some((name, std::str::from_utf8(&content).ok()?.to_owned()))
        };
        self.inputs().into_iter().filter_map(text).collect()
    }

    /// The document with everything set, as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.table)
            .unwrap_or_else(|error| unreachable!("the table was read from TOML: {error}"))
    }

    /// The document with everything set, for the manifest.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Error for the value of a key.
    pub(super) fn bad(&self, key: &str, what: String) -> ScenarioError {
        ScenarioError::at(&self.origin, &self.text, key, what)
    }
}
