//! Checks: numbers that a source states or another program measured, each beside the value measured here.

use std::fmt;

use serde::Serialize;

use crate::table::{Cell, ColumnKind, Table, TableError};

/// Something that a source says in a number, or that another program measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Identifier of the check.
    pub id: String,
    /// Statement of the source, in words.
    pub claim: String,
    /// Number or range that the source states.
    pub expected: String,
    /// Value measured here.
    pub measured: String,
    /// Verdict of the comparison.
    pub verdict: CheckVerdict,
    /// Rule by which the value was compared, or the reason for a deviation.
    pub note: String,
}

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// The measured value agrees.
    Holds,
    /// The measured value does not agree, and the note gives the known reason.
    ExpectedDeviation,
    /// The measured value does not agree, for no known reason.
    DoesNotHold,
    /// No experiment decides the claim.
    Undecided,
}

impl CheckVerdict {
    /// Holds, if this does.
    pub fn of(holds: bool) -> Self {
        if holds { CheckVerdict::Holds } else { CheckVerdict::DoesNotHold }
    }
}

impl fmt::Display for CheckVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CheckVerdict::Holds => "holds",
            CheckVerdict::ExpectedDeviation => "no, known",
            CheckVerdict::DoesNotHold => "does not hold",
            CheckVerdict::Undecided => "undecided",
        })
    }
}

/// The columns of checks: how they are headed, and their texts.
pub const HEADINGS: [&str; 6] = ["id", "verdict", "claimed", "measured", "claim", "note"];

impl Check {
    /// The texts under [`HEADINGS`].
    pub fn texts(&self) -> [String; 6] {
        [
            self.id.clone(),
            self.verdict.to_string(),
            self.expected.clone(),
            self.measured.clone(),
            self.claim.clone(),
            self.note.clone(),
        ]
    }
}

/// The checks for other programs.
pub fn table(checks: &[Check]) -> Result<Table, TableError> {
    let mut table = Table::new(HEADINGS.map(|name| (name.to_owned(), ColumnKind::Text)))?;
    for check in checks {
        table.push(check.texts().map(Cell::from));
    }
    Ok(table)
}

/// Writes the checks for a terminal, followed by the number that hold. Up to `MAX_LISTED_CHECKS` checks are all
/// listed; of a longer list only the checks that do not hold.
pub fn write(f: &mut fmt::Formatter<'_>, checks: &[Check]) -> fmt::Result {
    let holding = checks.iter().filter(|check| check.verdict == CheckVerdict::Holds).count();
    let shown: Vec<&Check> = match checks.len() <= MAX_LISTED_CHECKS {
        true => checks.iter().collect(),
        false => checks.iter().filter(|check| check.verdict != CheckVerdict::Holds).collect(),
    };
    let width = |text: fn(&Check) -> &str, least: usize| {
        shown.iter().map(|check| text(check).chars().count()).max().unwrap_or(0).max(least)
    };
    let (id, expected) = (width(|check| &check.id, 2), width(|check| &check.expected, 7));
    let measured = width(|check| &check.measured, 8);
    if !shown.is_empty() {
        writeln!(
            f,
            "{:id$}  verdict        {:>expected$}  {:>measured$}  claim",
            "id", "claimed", "measured"
        )?;
    }
    for check in shown {
        let Check { id: name, claim, verdict, expected: says, measured: is, note } = check;
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        writeln!(f, "{name:id$}  {verdict:13}  {says:>expected$}  {is:>measured$}  {claim}{note}")?;
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    write!(f, "{holding} of {} hold", checks.len())?;
    match count(CheckVerdict::ExpectedDeviation) {
        0 => {}
        known => write!(f, "; {known} do not and are known to")?,
    }
    match count(CheckVerdict::Undecided) {
        0 => writeln!(f, "."),
        undecided => writeln!(f, "; no experiment decides {undecided}."),
    }
}

/// Maximum number of checks that a terminal lists completely: about two screens.
const MAX_LISTED_CHECKS: usize = 80;
