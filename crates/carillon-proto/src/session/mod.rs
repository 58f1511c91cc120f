//! The session: who belongs to the group, and how it ends.
//!
//! Protocols with a member list learn it in one small opening exchange, and the sender learns in a
//! closing one what became of every member. Both are done here, around the machine of any
//! protocol: a [`SenderSession`] gathers receivers, builds the protocol's sender for them, and
//! after the last message collects their reports; a [`ReceiverSession`] answers an invitation,
//! builds the protocol's receiver as invited, and reports. The packets are those of
//! [`carillon_wire::session`]; the page is `docs/protocols/session.md`.
//!
//! Where the protocol is one of peers, the `SenderSession` is the member that gathers the others, the
//! organiser, and a `ReceiverSession` may offer messages too. Between gathering and running the
//! members then learn of each other.
//!
//! Where the protocol has helpers, some members may be such: they are gathered with the others, who learn of each other
//! in the same way, and of who turns to whom.
//!
//! The session trusts nothing that everybody could have said: a receiver draws a nonce that it tells
//! the sender alone, and what begins, ends, or counts for one member counts with it only. There are no
//! keys: what strangers can still do, and how much of it at most, is in `docs/explanation/security.md`.

mod bounds;
mod config;
mod hold;
mod job;
mod ledger;
mod receiver;
mod roster;
mod secret;
mod sender;
mod trial;
mod unserved;

use carillon_core::NodeId;

pub use carillon_wire::session::{MemberRole, RefuseReason};
pub use config::{
    DEFAULT_HEARTBEAT, DEFAULT_MAX_MEMBERS, DEFAULT_MEMBER_TIMEOUT, DEFAULT_MIN_RATE, DEFAULT_RECEIVE_BUFFER,
    DEFAULT_SILENCE, Former, Gather, Helping, MAX_ATTACHED, ReceiverSessionConfig, SenderSessionConfig, Slow,
};
pub use hold::Standing;
pub use job::{DoneJobs, JobId};
pub use receiver::{OtherSender, PassedBy, PeerMember, ReceiverFailure, ReceiverPhase, ReceiverSession};
pub use roster::{Member, MemberOutcome};
pub use sender::{Rival, SenderPhase, SenderSession, Shortened};
pub use unserved::{Unserved, UnservedReason};

/// What a machine inside a session is told its own node is: a session knows only the nodes that
/// it hears.
pub const LOCAL_NODE: NodeId = NodeId(u32::MAX);
