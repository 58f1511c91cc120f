//! Numbers and claims of each source that hold, counted over its experiments.

use std::fmt;

use super::document;
use crate::check::CheckVerdict;
use crate::reproduce::{Experiment, Outcome, Verdict};

/// Counts for each source, in the order in which the sources were met.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    tallies: Vec<SourceTally>,
}

/// Counts for one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTally {
    /// Name of the source.
    pub source: &'static str,
    /// Number of tables.
    pub tables: usize,
    /// Number of figures, including figures of studies.
    pub figures: usize,
    /// Number of experiments that are one figure.
    plain_figures: usize,
    /// Number of studies.
    pub studies: usize,
    /// Published means and bounds.
    pub numbers: Tally,
    /// Claims in words, and numbers of other programs.
    pub claims: Tally,
    /// Experiments with a number or a claim that does not hold, known deviations included.
    pub deviating: Vec<&'static str>,
}

/// Outcomes of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number that hold.
    pub hold: usize,
    /// Number that do not hold, with a declared reason.
    pub known: usize,
    /// Number that do not hold for no declared reason.
    pub fail: usize,
    /// Number that no experiment decides.
    pub undecided: usize,
}

impl Sources {
    /// Counts an experiment.
    pub fn add(&mut self, experiment: &Experiment, outcome: &Outcome) {
        let at = self.tallies.iter().position(|tally| tally.source == experiment.source);
        let at = at.unwrap_or_else(|| {
            self.tallies.push(SourceTally { source: experiment.source, ..SourceTally::default() });
            self.tallies.len() - 1
        });
        self.tallies[at].add(experiment.id, outcome);
    }

    /// Counts of each source.
    pub fn tallies(&self) -> &[SourceTally] {
        &self.tallies
    }

    /// Table of the counts, and the deviating experiments of each source.
    pub(super) fn html(&self) -> String {
        if self.tallies.is_empty() {
            return String::new();
        }
        let mut out = String::from("<section id=\"sources\">\n<h2>How much of each source holds</h2>\n");
        document::table(&mut out, &HEADINGS, self.tallies.iter().map(SourceTally::row), 1, &[]);
        document::remarks(&mut out, self.tallies.iter().map(SourceTally::to_string));
        for SourceTally { source, deviating, .. } in &self.tallies {
            if !deviating.is_empty() {
                let links: Vec<String> =
                    deviating.iter().map(|id| format!("<a href=\"#{id}\">{id}</a>")).collect();
                let source = crate::plot::escape(source);
                out += &format!("<p class=\"note\">Deviations of {source}: {}.</p>\n", links.join(", "));
            }
        }
        out.push_str("</section>\n");
        out
    }
}

impl SourceTally {
    /// Number of experiments.
    pub fn experiments(&self) -> usize {
        self.tables + self.studies + self.plain_figures
    }

    fn add(&mut self, id: &'static str, outcome: &Outcome) {
        let (mut numbers, mut claims) = (Tally::default(), Tally::default());
        match outcome {
            Outcome::Table(comparison) => {
                self.tables += 1;
                for cell in comparison.published_cells() {
                    match cell.verdict {
                        Verdict::SamplingError | Verdict::Tolerance => numbers.hold += 1,
                        Verdict::ExpectedDeviation => numbers.known += 1,
                        Verdict::Outside => numbers.fail += 1,
                    }
                }
                let bounds = comparison.cells().filter_map(|cell| cell.bound.as_ref());
                for bound in bounds.filter(|bound| bound.published.is_some()) {
                    match bound.agrees {
                        true => numbers.hold += 1,
                        false => numbers.fail += 1,
                    }
                }
            }
            Outcome::Figure(_) => {
                self.figures += 1;
                self.plain_figures += 1;
            }
            Outcome::Study(study) => {
                self.studies += 1;
                self.figures += study.figures.len();
                for check in &study.checks {
                    match check.verdict {
                        CheckVerdict::Holds => claims.hold += 1,
                        CheckVerdict::ExpectedDeviation => claims.known += 1,
                        CheckVerdict::DoesNotHold => claims.fail += 1,
                        CheckVerdict::Undecided => claims.undecided += 1,
                    }
                }
            }
        }
        if numbers.known + numbers.fail + claims.known + claims.fail > 0 {
            self.deviating.push(id);
        }
        self.numbers.add(numbers);
        self.claims.add(claims);
    }

    fn row(&self) -> Vec<String> {
        let counts = [self.tables, self.studies, self.figures].map(|count| count.to_string());
        let source = [self.source.to_owned()].into_iter();
        // Published numbers are always decided.
        let numbers = self.numbers.texts().into_iter().take(3);
        source.chain(counts).chain(numbers).chain(self.claims.texts()).collect()
    }
}

impl Tally {
    /// Number of comparisons.
    pub fn all(self) -> usize {
        self.hold + self.known + self.fail + self.undecided
    }

    fn add(&mut self, other: Tally) {
        self.hold += other.hold;
        self.known += other.known;
        self.fail += other.fail;
        self.undecided += other.undecided;
    }

    fn texts(&self) -> [String; 4] {
        let Tally { hold, known, fail, undecided } = self;
        match self.all() {
            0 => ["-".into(), String::new(), String::new(), String::new()],
            all => [format!("{hold} of {all}"), known.to_string(), fail.to_string(), undecided.to_string()],
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { hold, known, fail, undecided } = self;
        write!(f, "{hold} hold, {known} deviate for stated reasons, {fail} for unknown reasons")?;
        if *undecided > 0 { write!(f, ", {undecided} undecided") } else { Ok(()) }
    }
}

/// The statement on a source: how much of it holds.
impl fmt::Display for SourceTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceTally { source, numbers, claims, .. } = self;
        let stated = [(numbers, "published numbers"), (claims, "claims")];
        let stated: Vec<String> = stated
            .iter()
            .filter(|(tally, _)| tally.all() > 0)
            .map(|(tally, what)| format!("{} of {} {what}", tally.hold, tally.all()))
            .collect();
        if stated.is_empty() {
            return write!(f, "{source}: no published numbers or claims to compare with.");
        }
        let known = numbers.known + claims.known;
        let fail = numbers.fail + claims.fail;
        write!(
            f,
            "{source}: {} hold; {known} deviate for stated reasons, {fail} for unknown reasons",
            stated.join(" and ")
        )?;
        match claims.undecided {
            0 => f.write_str("."),
            undecided => write!(f, ", {undecided} undecided."),
        }
    }
}

/// Statements on the sources, a line each.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tallies.iter().try_for_each(|tally| writeln!(f, "{tally}"))
    }
}

/// Columns of the table of sources.
const HEADINGS: [&str; 11] = [
    "source",
    "tables",
    "studies",
    "figures",
    "numbers that hold",
    "known not to",
    "unexplained",
    "claims that hold",
    "known not to",
    "unexplained",
    "undecided",
];
