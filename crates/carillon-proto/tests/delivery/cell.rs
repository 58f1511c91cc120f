//! Deliveries to run, and their results.

use carillon_core::{Duration, ProtocolEntry};
use carillon_session::MemberOutcome;
use carillon_testkit::Forgery;

/// Delivery to run: protocol, network, file and fault.
#[derive(Clone, Debug)]
pub struct Cell {
    pub protocol: &'static ProtocolEntry,
    /// Loss probability at each of the two ports on a path.
    pub loss: f64,
    pub receivers: usize,
    /// Delay in one direction.
    pub delay: Duration,
    pub bytes: usize,
    pub seed: u64,
    /// Settings beyond the delivery settings.
    pub settings: Vec<(String, String)>,
    /// Rate of the sender in bit/s; `None` for the interface's rate.
    pub rate: Option<u64>,
    /// Fault of the last receiver, or of the node that the fault names.
    pub fault: Fault,
    /// True if the fault starts when the last receiver has a quarter of the messages, instead of when a quarter was
    /// offered.
    pub midway: bool,
    /// Number of helpers, in a chain; receivers report to the last one.
    pub helpers: usize,
}

/// Fault, of the last receiver unless stated otherwise, after a quarter of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// The receiver crashes.
    Kill,
    /// The receiver stands still once for this time.
    Freeze(Duration),
    /// The receiver stands still repeatedly for this time.
    Trickle(Duration),
    /// The receiver leaves.
    Leave,
    /// The receiver leaves after it has reported everything verified.
    LeaveVerified,
    /// The receiver forges its feedback from the start.
    Forgery(Forgery),
    /// The helper with this index crashes.
    KillHelper(usize),
    /// The helper with this index and the last receiver crash.
    KillBoth(usize),
    /// A further receiver starts at that time.
    Late,
}

/// Result of a delivery.
#[derive(Debug)]
pub struct Outcome {
    /// Number of verified members.
    pub verified: usize,
    /// Time from the first message to the end of the session.
    pub time: Duration,
    /// Bytes sent by the sender, including frame overhead.
    pub sent: u64,
    /// Bytes sent by all other nodes, including frame overhead.
    pub returned: u64,
    /// Number of repairs.
    pub repairs: u64,
    /// Number of repairs that the sender attributes to each member.
    pub rows: Vec<u64>,
    /// Events and details printed on a failure.
    #[allow(dead_code, reason = "printed with the rest")]
    pub notes: Vec<String>,
    /// True if the session ended.
    pub over: bool,
    pub messages: u64,
    /// Time from the fault to the last expulsion.
    pub expelled_after: Option<Duration>,
    /// Time from the fault to the end of the run.
    pub ended: Option<Duration>,
    /// Time from the fault to the sender's end.
    pub closed: Option<Duration>,
    /// Time from the fault until all other receivers were complete.
    pub others: Option<Duration>,
    /// Outcome of the last receiver, and the time that the sender waited for it.
    pub last: Option<(MemberOutcome, Duration)>,
    /// Number of messages of each receiver, and whether the sender counts it as verified.
    pub got: Vec<(u64, bool)>,
    /// Unserved receivers, with reasons.
    pub unserved: Vec<String>,
}
