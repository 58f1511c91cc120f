//! Entry of a protocol in the table: what suites know of it.

use carillon_core::Config;

use super::guarantee::{DeliveryGuarantee, FeedbackForger, MessageService};
use super::trial::Trial;

/// Knowledge of the suites about a protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolTests {
    /// Name of the registry entry.
    pub name: &'static str,
    /// Delivery guarantee.
    pub guarantee: DeliveryGuarantee,
    /// Draws settings with which the guarantee holds under the conditions of a trial.
    pub trial: fn(&mut Trial<'_>),
    /// Service of the message with this number in a group of `nodes` nodes, with these settings, if senders choose it
    /// for each message. Otherwise all messages have that of the guarantee.
    pub service: Option<fn(settings: &Config, nodes: u32, number: u64) -> MessageService>,
    /// Forger of a dishonest member's feedback, if suites are to try one.
    pub forge_feedback: Option<FeedbackForger>,
    /// True if members send each other messages on a third party's order, so that any member can pass false messages
    /// to others.
    pub orders_members: bool,
    /// Transitions of the entry's [states](carillon_core::States) that no run of the suites takes.
    pub rare: &'static [RareTransition],
}

/// Transition that no run takes: owner of the states, source, target, and the reason.
pub type RareTransition = (&'static str, &'static str, &'static str, &'static str);

impl ProtocolTests {
    /// Base of the table: best effort, with default settings.
    pub(super) const BASE: ProtocolTests = ProtocolTests {
        name: "",
        guarantee: DeliveryGuarantee::BestEffort,
        trial: |_| {},
        service: None,
        forge_feedback: None,
        orders_members: false,
        rare: &[],
    };
}
