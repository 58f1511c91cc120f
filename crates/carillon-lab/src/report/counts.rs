//! Stored counts of the numbers and claims of each source that hold, so that a run of all experiments reports changes.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::sources::{SourceTally, Sources, Tally};
use crate::reproduce::EXPERIMENTS;
use crate::shipped;

/// Counts of one source, a row of `experiments/published/counts.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceCounts {
    /// Name of the source.
    pub source: String,
    /// Published numbers that hold.
    pub numbers_hold: usize,
    /// Numbers that deviate for a declared reason.
    pub numbers_known: usize,
    /// Numbers that deviate otherwise.
    pub numbers_fail: usize,
    /// Claims that hold.
    pub claims_hold: usize,
    /// Claims that do not hold for a declared reason.
    pub claims_known: usize,
    /// Claims that do not hold otherwise.
    pub claims_fail: usize,
    /// Claims that no experiment checks.
    pub claims_undecided: usize,
}

/// Counts of the last release's experiments.
static STORED: LazyLock<Vec<SourceCounts>> = LazyLock::new(|| {
    let text = shipped::find("published/counts.csv").expect("the counts are shipped");
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    rows.collect::<Result<_, _>>().expect("the rows are counts")
});

/// Difference between the counts of a source and the stored ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedCounts {
    /// The counts of this run.
    pub now: SourceCounts,
    /// The stored counts.
    pub stored: SourceCounts,
}

impl SourceCounts {
    fn of(tally: &SourceTally) -> Self {
        let SourceTally { source, numbers, claims, .. } = tally;
        SourceCounts {
            source: (*source).to_owned(),
            numbers_hold: numbers.hold,
            numbers_known: numbers.known,
            numbers_fail: numbers.fail,
            claims_hold: claims.hold,
            claims_known: claims.known,
            claims_fail: claims.fail,
            claims_undecided: claims.undecided,
        }
    }

    fn numbers(&self) -> Tally {
        Tally { hold: self.numbers_hold, known: self.numbers_known, fail: self.numbers_fail, undecided: 0 }
    }

    fn claims(&self) -> Tally {
        Tally {
            hold: self.claims_hold,
            known: self.claims_known,
            fail: self.claims_fail,
            undecided: self.claims_undecided,
        }
    }
}

impl Sources {
    /// Counts of the sources of which every shipped experiment was added.
    fn complete(&self) -> impl Iterator<Item = SourceCounts> {
        let shipped = |source: &str| EXPERIMENTS.iter().filter(|other| other.source == source).count();
        let complete =
            self.tallies().iter().filter(move |tally| tally.experiments() == shipped(tally.source));
        complete.map(SourceCounts::of)
    }

    /// Sources of which every shipped experiment was added, if their counts differ from the stored ones.
    pub fn changes(&self) -> Vec<ChangedCounts> {
        changes(self.complete(), &STORED)
    }

    /// Counts in CSV, as they are stored.
    ///
    /// # Errors
    ///
    /// Fails if the rows cannot be written.
    pub fn counts_csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for counts in self.complete() {
            writer.serialize(counts)?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    }
}

fn changes(now: impl Iterator<Item = SourceCounts>, stored: &[SourceCounts]) -> Vec<ChangedCounts> {
    let changed = now.filter_map(|now| {
        let stored = stored.iter().find(|counts| counts.source == now.source)?.clone();
        (stored != now).then_some(ChangedCounts { now, stored })
    });
    changed.collect()
}

impl fmt::Display for ChangedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedCounts { now, stored } = self;
        let texts = |counts: &SourceCounts| (counts.numbers().to_string(), counts.claims().to_string());
        let ((numbers, claims), (old_numbers, old_claims)) = (texts(now), texts(stored));
        let mut changes = Vec::new();
        if numbers != old_numbers {
            changes.push(format!("numbers: {numbers}; stored: {old_numbers}"));
        }
        if claims != old_claims {
            changes.push(format!("claims: {claims}; stored: {old_claims}"));
        }
        write!(f, "{}: the counts have changed. {}", now.source, changes.join(". "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(source: &str, claims_hold: usize, claims_undecided: usize) -> SourceCounts {
        SourceCounts {
            source: source.to_owned(),
            numbers_hold: 36,
            numbers_known: 0,
            numbers_fail: 0,
            claims_hold,
            claims_known: 2,
            claims_fail: 0,
            claims_undecided,
        }
    }

    #[test]
    fn changed_counts_are_named_with_both_values() {
        let stored = [counts("Paul", 30, 1), counts("Segovia", 5, 0)];
        let now = [counts("Paul", 30, 1), counts("Segovia", 4, 1), counts("New", 1, 0)];
        let changes = changes(now.into_iter(), &stored);
        let texts: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let expected = [
            "Segovia: the counts have changed. claims: 4 hold, 2 deviate for stated reasons, 0 for unknown reasons, \
             1 undecided; stored: 5 hold, 2 deviate for stated reasons, 0 for unknown reasons",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn stored_counts_are_of_shipped_sources() {
        for counts in STORED.iter() {
            assert!(EXPERIMENTS.iter().any(|experiment| experiment.source == counts.source), "{counts:?}");
        }
    }
}
