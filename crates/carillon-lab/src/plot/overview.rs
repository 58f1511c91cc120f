//! Figures for an overview of a metric: axes, series and panels chosen by the number of values of each swept key.

use super::folders::{Folder, PlotError, PlotSpec, figures};
use super::{Figure, distinct};

impl Folder {
    /// Draws a metric over the swept key with most values. Where that gives more series than a reader can tell apart,
    /// another swept key gets a panel for each of its values.
    pub fn overview(&self, metric: &str) -> Result<Vec<Figure>, PlotError> {
        let folders = std::slice::from_ref(self);
        let spec = PlotSpec { y: metric.to_owned(), ..PlotSpec::default() };
        let whole = figures(folders, &spec)?;
        if is_readable(&whole) {
            return Ok(whole);
        }
        let mut keys: Vec<(usize, &String)> = self
            .swept()
            .map(|(key, values)| (distinct(values).len(), key))
            .filter(|(values, _)| (2..=MAX_PANELS).contains(values))
            .collect();
        keys.sort();
        for (_, key) in keys {
            let panels = figures(folders, &PlotSpec { facets: Some(key.clone()), ..spec.clone() })?;
            if is_readable(&panels) {
                return Ok(panels);
            }
        }
        Err(PlotError::Asked(format!(
            "Not drawn: more than {MAX_SERIES} series. Draw a part with carillon plot DIR --y {metric} --where KEY=VALUE"
        )))
    }
}

fn is_readable(panels: &[Figure]) -> bool {
    let series = |figure: &Figure| figure.series.iter().filter(|series| !series.name.is_empty()).count();
    panels.iter().all(|panel| series(panel) <= MAX_SERIES)
}

/// Maximum number of series with a name in an overview: more do not differ enough in colour, dashes and marks.
const MAX_SERIES: usize = 8;

/// Maximum number of panels of an overview.
const MAX_PANELS: usize = 6;
