//! Metrics: functions of the trace alone. Definitions in `docs/reference/metrics.md`.

mod bounds;
mod need;
mod node_value;
mod nodes;
mod of_run;
mod parents;
mod receivers;
mod recorder;
mod recovery;
mod registry;
mod spans;
mod state;
mod subject;
mod traffic;

pub use bounds::{Bounds, Terms};
pub use need::Need;
pub use recorder::{MessageRecord, Recorder, Totals, expected_deliveries, without_latency};
pub use recovery::Recoveries;
pub use registry::{METRICS, Metric, SampleNodes, Samples, samples};
pub use subject::SubjectKind;
