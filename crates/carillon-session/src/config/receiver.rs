//! Configuration of a receiver's session.

use std::collections::BTreeSet;

use carillon_core::{Duration, GroupId, ProtocolEntry};
use carillon_wire::session::{ListId, MemberRole};

use super::super::demands::Demand;
use super::super::job::{DoneJobs, JobId};
use super::super::receiver::ReceiverFailure;
use super::{DEFAULT_MEMORY, DEFAULT_RECEIVE_BUFFER, DEFAULT_SILENCE, NetworkProperties};

/// Configuration of a [`ReceiverSession`](crate::ReceiverSession).
#[derive(Clone, Debug)]
pub struct ReceiverSessionConfig {
    /// Name of the receiver. Characters that a name of 64 bytes cannot have are replaced or cut off.
    pub name: String,
    /// Multicast group.
    pub group: GroupId,
    /// Protocols that the receiver supports.
    pub protocols: &'static [&'static ProtocolEntry],
    /// Silence timeout of the sender.
    pub silence: Duration,
    /// Receive buffer for the application in bytes, which also bounds the size of a message.
    pub receive_buffer: u32,
    /// Largest datagram that the interface accepts. An invitation to larger messages is declined.
    pub max_datagram: u32,
    /// Maximum number of bytes of other nodes' messages that the protocol's machine may hold.
    pub memory: usize,
    /// Secret that nonces are drawn from. The random streams of a repeatable run would not be secret.
    pub secret: Option<u64>,
    /// Properties of the network.
    pub network: NetworkProperties,
    /// True if the receiver ignores sessions that have started, refuse it, or invite to something it cannot do, and
    /// waits for another one.
    pub keep_seeking: bool,
    /// Names of the senders to listen to; empty means any sender.
    pub from: BTreeSet<String>,
    /// Names of the jobs to take part in; empty means any job, also one without a name.
    pub jobs: BTreeSet<String>,
    /// Failure with which an earlier session expelled the receiver. It becomes final unless an invitation arrives
    /// within `silence`.
    pub returning: Option<ReceiverFailure>,
    /// True if the receiver never sends. It follows the first session that gathers and has a protocol without
    /// answers. Nothing it receives is authenticated.
    pub silent: bool,
    /// Process and place of the receiver, and its jobs so far.
    pub origin: ReceiverOrigin,
    /// True if the receiver keeps data that it overhears in sessions it is not in, if a catch-up session will serve
    /// it. The application [polls](crate::ReceiverSession::poll_overheard) for them.
    pub overhears: bool,
    /// Role of the receiver: receive; offer messages too (peer protocols only); only help, if the sender permits it;
    /// or receive and help if permitted.
    pub part: MemberRole,
    /// List that the receiver knows, if its application answers questions about its holdings.
    pub list: Option<ListId>,
    /// Demands of senders that the receiver knows; it declines all others.
    pub demands: Vec<Demand>,
    /// Data for the sender's application, which gets them with the name. More than
    /// [`MAX_ATTACHED`](super::MAX_ATTACHED) bytes are not sent.
    pub attached: Vec<u8>,
}

/// Process and place of a receiver, by which senders recognise it across the sessions of a job.
#[derive(Clone, Debug, Default)]
pub struct ReceiverOrigin {
    /// Number of the receiver's process, drawn at random and the same in all its sessions. Each job sees a number
    /// derived from it.
    pub process: Option<u64>,
    /// Number of the place where the data is stored, such as a digest of the directory's path. Another process that
    /// writes there counts as the same receiver.
    pub place: u64,
    /// True if the place has a part of an earlier transfer.
    pub resumes: bool,
    /// Jobs in which this receiver was verified. It does not join their sessions.
    pub done: DoneJobs,
    /// Job of the live stream that a returning receiver continues. It joins no other job, and waits as long as this one
    /// invites at least once within the silence timeout.
    pub continues: Option<JobId>,
}

impl ReceiverSessionConfig {
    /// Creates a configuration with default values.
    pub fn new(
        name: impl Into<String>,
        group: GroupId,
        protocols: &'static [&'static ProtocolEntry],
    ) -> Self {
        ReceiverSessionConfig {
            name: name.into(),
            group,
            protocols,
            silence: DEFAULT_SILENCE,
            receive_buffer: DEFAULT_RECEIVE_BUFFER,
            max_datagram: u32::MAX,
            memory: DEFAULT_MEMORY,
            secret: None,
            keep_seeking: false,
            from: BTreeSet::new(),
            jobs: BTreeSet::new(),
            returning: None,
            silent: false,
            network: NetworkProperties::default(),
            origin: ReceiverOrigin::default(),
            overhears: false,
            part: MemberRole::Receives,
            list: None,
            demands: Vec::new(),
            attached: Vec::new(),
        }
    }
}
