//! Point of a sweep while its runs are written.

use super::sorted::MAX_SAMPLES_IN_MEMORY;

/// Runs written of the point in progress.
#[derive(Debug, Default)]
pub(super) struct PointInProgress {
    pub metrics: Vec<MetricInProgress>,
    /// Number of samples that are kept.
    kept: usize,
}

/// A metric of the point in progress.
#[derive(Debug)]
pub(super) struct MetricInProgress {
    /// Mean of each run.
    pub means: Vec<f64>,
    /// Samples of each run in ascending order, one run after the other; `None` if the point has too many to keep them.
    pub samples: Option<Vec<f64>>,
}

impl PointInProgress {
    /// Adds a run's mean and its sorted samples of the metric with this index.
    pub(super) fn add(&mut self, at: usize, mean: f64, samples: Option<Vec<f64>>) {
        if at == self.metrics.len() {
            self.metrics.push(MetricInProgress { means: Vec::new(), samples: Some(Vec::new()) });
        }
        let metric = &mut self.metrics[at];
        metric.means.push(mean);
        let Some(kept) = &mut metric.samples else { return };
        match samples.filter(|samples| self.kept + samples.len() <= MAX_SAMPLES_IN_MEMORY) {
            Some(samples) => {
                self.kept += samples.len();
                kept.extend(samples);
            }
            None => {
                self.kept -= kept.len();
                metric.samples = None;
            }
        }
    }
}
