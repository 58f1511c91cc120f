//! Binary form of a recording: magic, version, header in JSON, and columns.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::columns::{Section, Table};
use super::names::PacketName;
use super::{RecordedNetwork, Recording};
use crate::metrics::{METRICS, Samples};

/// First bytes of the file.
const MAGIC: [u8; 4] = *b"CARR";
/// Version of the format.
const VERSION: u32 = 1;
/// Bytes before the header: magic, version, and length of the header.
const PREFIX: usize = 12;
/// The header and each column start at a multiple of this.
const ALIGNMENT: usize = 8;

/// Description of the run of a recording.
#[derive(Clone, Debug, Default)]
pub struct Description<'a> {
    /// Seed of the run, if known.
    pub seed: Option<u64>,
    /// Scenario in TOML, with which a viewer can run it again.
    pub scenario: Option<&'a str>,
    /// Text files that the scenario names, such as topologies.
    pub files: BTreeMap<String, String>,
    /// Metrics of the run.
    pub metrics: Vec<RecordedMetric>,
}

/// Mean of a metric in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedMetric {
    name: &'static str,
    unit: &'static str,
    value: f64,
}

impl RecordedMetric {
    /// Means of the metrics with samples.
    pub fn means(samples: &[Samples]) -> Vec<Self> {
        let mean = |(name, values): &Samples| {
            let metric = METRICS.iter().find(|metric| metric.name == *name)?;
            let value = values.iter().sum::<f64>() / values.len() as f64;
            (!values.is_empty()).then_some(RecordedMetric { name, unit: metric.unit, value })
        };
        samples.iter().filter_map(mean).collect()
    }
}

#[derive(Serialize)]
struct Header<'a> {
    title: &'a str,
    version: &'static str,
    protocol: &'a str,
    seed: Option<u64>,
    scenario: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: &'a BTreeMap<String, String>,
    duration_ns: f64,
    count: usize,
    truncated: bool,
    network: &'a RecordedNetwork,
    packets: &'a [PacketName],
    events: &'a [String],
    strings: &'a [String],
    metrics: &'a [RecordedMetric],
    columns: Places<'a>,
    states: TableHeader<'a>,
    timers: TableHeader<'a>,
}

/// Table beside the events.
#[derive(Serialize)]
struct TableHeader<'a> {
    count: usize,
    columns: Places<'a>,
}

/// Places of the columns of a table, by name.
type Places<'a> = BTreeMap<&'a str, Place<'a>>;

/// Place of a column: type, and offset from the end of the header.
#[derive(Serialize)]
struct Place<'a> {
    #[serde(rename = "type")]
    value: &'a str,
    offset: usize,
}

impl Recording {
    /// Writes the recording in its binary form.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn write(&self, description: &Description<'_>, mut out: impl Write) -> io::Result<()> {
        let sorted = self.columns.sorted();
        let columns = sorted.as_ref().unwrap_or(&self.columns);
        let states = self.machines.states();
        let timers = self.machines.timers();
        let [event_sections, state_sections, timer_sections] =
            [columns.sections(), states.sections(), timers.sections()];
        let mut end = 0;
        let places = place(&event_sections, &mut end);
        let states = TableHeader { count: states.len(), columns: place(&state_sections, &mut end) };
        let timers = TableHeader { count: timers.len(), columns: place(&timer_sections, &mut end) };
        let header = Header {
            title: &self.title,
            version: env!("CARGO_PKG_VERSION"),
            protocol: &self.protocol,
            seed: description.seed,
            scenario: description.scenario,
            files: &description.files,
            duration_ns: columns.time.last().copied().unwrap_or(0.0),
            count: columns.len(),
            truncated: self.is_truncated(),
            network: &self.network,
            packets: self.packets.as_slice(),
            events: self.events.as_slice(),
            strings: self.strings.as_slice(),
            metrics: &description.metrics,
            columns: places,
            states,
            timers,
        };
        let mut header = serde_json::to_vec(&header)?;
        header.resize((PREFIX + header.len()).next_multiple_of(ALIGNMENT) - PREFIX, b' ');
        let length = u32::try_from(header.len()).map_err(|_| io::Error::other("the header exceeds 4 GiB"))?;
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&header)?;
        let sections = [event_sections, state_sections, timer_sections];
        for Section { bytes, write, .. } in sections.into_iter().flatten() {
            write(&mut out)?;
            out.write_all(&[0; ALIGNMENT][..bytes.next_multiple_of(ALIGNMENT) - bytes])?;
        }
        out.flush()
    }

    /// Returns the recording in its binary form.
    pub fn to_bytes(&self, description: &Description<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(description, &mut bytes).expect("memory takes any bytes");
        bytes
    }
}

/// Places of columns that follow each other from `end`, which moves to their end.
fn place<'a>(sections: &[Section<'a>], end: &mut usize) -> Places<'a> {
    let mut places = Places::new();
    for &Section { name, value, bytes, .. } in sections {
        places.insert(name, Place { value, offset: *end });
        *end += bytes.next_multiple_of(ALIGNMENT);
    }
    places
}

/// Reason why a file is no recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// Wrong first bytes.
    #[error("is no recording: its first bytes are not CARR")]
    Magic,
    /// Recording of another release.
    #[error("is a recording of version {0}, and this release reads version {VERSION}: record the run again")]
    Version(u32),
    /// The file ends early.
    #[error("is truncated: it has {length} bytes and needs {needed}")]
    Short {
        /// Bytes of the file.
        length: usize,
        /// Bytes that it needs.
        needed: u64,
    },
    /// Header that cannot be read.
    #[error("has a damaged header: {0}")]
    Header(#[from] serde_json::Error),
    /// Column of an unknown type.
    #[error("has a column {name} of the unknown type {value}")]
    Column {
        /// Name of the column.
        name: String,
        /// Type of the column.
        value: String,
    },
}

/// Title, protocol and scenario of a recording in a file.
#[derive(Debug, Deserialize)]
pub struct RecordingHeader {
    /// Title.
    pub title: String,
    /// Scenario in TOML, if the recording has it.
    pub scenario: Option<String>,
    /// Text files that the scenario names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Number of events.
    pub count: u64,
    columns: BTreeMap<String, ReadPlace>,
    /// Changes of states; recordings of real sessions have none.
    #[serde(default)]
    states: ReadTable,
    #[serde(default)]
    timers: ReadTable,
}

#[derive(Debug, Default, Deserialize)]
struct ReadTable {
    count: u64,
    columns: BTreeMap<String, ReadPlace>,
}

#[derive(Debug, Deserialize)]
struct ReadPlace {
    #[serde(rename = "type")]
    value: String,
    offset: u64,
}

/// Checks the bytes of a recording: prefix, header, and the length of each column. Returns its header.
///
/// # Errors
///
/// Fails with the first reason for which a viewer could not read it.
pub fn check(bytes: &[u8]) -> Result<RecordingHeader, RecordingError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Err(if bytes.starts_with(&MAGIC) {
            RecordingError::Short { length: bytes.len(), needed: PREFIX as u64 }
        } else {
            RecordingError::Magic
        });
    };
    let word = |at: usize| u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
    match (prefix.starts_with(&MAGIC), word(4)) {
        (false, _) => return Err(RecordingError::Magic),
        (true, VERSION) => {}
        (true, other) => return Err(RecordingError::Version(other)),
    }
    let header_length = word(8);
    let short = |needed| RecordingError::Short { length: bytes.len(), needed };
    let Some((header, columns)) = rest.split_at_checked(header_length as usize) else {
        return Err(short(PREFIX as u64 + u64::from(header_length)));
    };
    let header: RecordingHeader = serde_json::from_slice(header)?;
    let tables = [
        (header.count, &header.columns),
        (header.states.count, &header.states.columns),
        (header.timers.count, &header.timers.columns),
    ];
    let places = tables
        .into_iter()
        .flat_map(|(count, columns)| columns.iter().map(move |(name, place)| (count, name, place)));
    for (count, name, ReadPlace { value, offset }) in places {
        let size: u64 = match value.as_str() {
            "f64" => 8,
            "u32" | "i32" => 4,
            "u16" => 2,
            "u8" => 1,
            _ => return Err(RecordingError::Column { name: name.clone(), value: value.clone() }),
        };
        let end = count.saturating_mul(size).saturating_add(*offset);
        if end > columns.len() as u64 {
            return Err(short((PREFIX as u64 + u64::from(header_length)).saturating_add(end)));
        }
    }
    Ok(header)
}
