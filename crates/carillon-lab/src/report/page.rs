//! Page of experiments: how much of each source holds, then tables, figures and studies.

use super::document::Document;
use super::outcome;
use super::sources::Sources;
use crate::reproduce::{Experiment, Outcome};

/// A page in the making.
#[derive(Debug)]
pub struct Page {
    document: Document,
    sources: Sources,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Page { document: Document::new(title, INTRODUCTION), sources: Sources::default() }
    }

    /// Adds the outcome of an experiment.
    pub fn add(&mut self, experiment: &Experiment, outcome: &Outcome) {
        self.document.section(experiment.id, experiment.id, experiment.title, &outcome::body(outcome));
        self.sources.add(experiment, outcome);
    }

    /// Numbers and claims of each source that hold.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The page.
    pub fn html(&self) -> String {
        self.document.html(&self.sources.html())
    }
}

const INTRODUCTION: &str = "Means are simulated; “published” is the source's mean, “diff” the relative difference, \
“within” what it amounts to: within three standard errors of the published run (3 s.e.), within the accepted relative \
difference (%), outside and known to be (NO, known), or outside (NO). UBRT, UBAT and LBL are the theoretical bounds. \
Extremes are those of more packets than the source sent, so they lie further out. Studies answer questions that a \
source left open, without published numbers; “±” is half the width of the 95 % confidence interval of a mean.";
