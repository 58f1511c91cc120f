//! Published numbers: the tables of a source that are at hand, as CSV.

use serde::Deserialize;

use super::kept::Source;

/// The published numbers that are at hand, as CSV.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Published {
    /// The whole table.
    Table(Source),
    /// Single values that the text of the source quotes.
    Quoted(Source),
    /// No published numbers.
    #[default]
    Nothing,
}

/// The published numbers, by column.
#[derive(Clone, Debug, Default)]
pub(super) struct PublishedTable {
    columns: Vec<String>,
    records: Vec<csv::StringRecord>,
}

impl PublishedTable {
    pub(super) fn read(published: Published) -> Self {
        let (Published::Table(file) | Published::Quoted(file)) = published else {
            return PublishedTable::default();
        };
        let mut reader = csv::Reader::from_reader(file.text.as_bytes());
        let columns = reader.headers().expect("a shipped table has a header");
        let columns = columns.iter().map(str::to_owned).collect();
        let records = reader.records().map(|record| record.expect("a shipped table is well formed"));
        PublishedTable { columns, records: records.collect() }
    }

    pub(super) fn number(&self, record: &csv::StringRecord, column: &str) -> Option<f64> {
        let at = self.columns.iter().position(|name| name == column)?;
        record[at].parse().ok()
    }

    pub(super) fn record<'a>(
        &self,
        keys: impl Iterator<Item = (&'a str, f64)> + Clone,
    ) -> Option<&csv::StringRecord> {
        self.records.iter().find(|record| {
            keys.clone().all(|(column, value)| {
                self.number(record, column).is_some_and(|printed| (printed - value).abs() < 1e-6)
            })
        })
    }
}
