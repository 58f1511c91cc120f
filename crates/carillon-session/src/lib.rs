//! Session layer: membership of a group, and the end of a transfer.
//!
//! A short opening exchange tells the protocol its list of members, and a closing exchange tells the sender the
//! result of each member. Both surround the machine of any protocol. A [`SenderSession`] gathers receivers, builds
//! the protocol's sender for them, and collects their reports after the last message. A [`ReceiverSession`] answers
//! an invitation, builds the protocol's receiver, and reports. [`carillon_wire::session`] has the packets, and
//! `docs/protocols/session.md` is the specification.
//!
//! In a protocol of peers, the `SenderSession` is the organiser that gathers the others, and a `ReceiverSession` may
//! offer messages too. Members learn of each other between gathering and running. In a protocol with helpers, the
//! roster also assigns each member to its helper.
//!
//! The session does not trust packets that a stranger could have sent. A receiver draws a nonce that only the sender
//! learns, and packets that begin or end something for one member count only with that nonce. There are no keys;
//! `docs/explanation/security.md` bounds the harm that strangers can still do.

mod bounds;
mod config;
mod demands;
mod job;
mod lag;
mod ledger;
mod lost_run;
mod receiver;
mod release_claims;
mod roster;
mod secret;
mod sender;
mod trial;
mod unserved;

use carillon_core::{Duration, NodeId, ObservedState, States};

use carillon_wire::session::Nonce;
pub use carillon_wire::session::{HoldingsPart, ListId, MemberRole, RefuseReason};
pub use config::{
    DEFAULT_HEARTBEAT, DEFAULT_MAX_MEMBERS, DEFAULT_MEMBER_TIMEOUT, DEFAULT_MIN_RATE, DEFAULT_RECEIVE_BUFFER,
    DEFAULT_SILENCE, EarlierSessions, Gather, GatherLimits, HelperOptions, HelperSelection, JobConfig,
    JobKind, MAX_ATTACHED, NetworkProperties, ReceiverOrigin, ReceiverSessionConfig, SenderSessionConfig,
    Slow, UnknownWord,
};
pub use demands::Demand;
pub use job::{DoneJobs, JobId};
pub use lag::Standing;
pub use receiver::{
    MissedSession, OtherSender, PeerMember, RECEIVER_STATES, ReceiverFailure, ReceiverPhase, ReceiverSession,
};
pub use roster::{Member, MemberOutcome};
pub use sender::{Rival, SENDER_STATES, SenderPhase, SenderSession, Shortened};
pub use unserved::{Unserved, UnservedReason};

/// State of a machine of which there is one.
fn observed(of: &States, state: &'static str) -> ObservedState {
    ObservedState { of: of.of, about: 0, state, turn: 0 }
}

/// Time over which answers to the group are spread.
const ANSWER_SPREAD: Duration = Duration::from_millis(20);

/// Nonce of a JOIN to the group, which every node can read: no receiver has it.
const KNOCK: Nonce = Nonce(0);

/// Node number of a machine's own node within a session, which knows only nodes that it receives from.
pub const LOCAL_NODE: NodeId = NodeId(u32::MAX);
