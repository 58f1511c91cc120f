//! Congestion control (RFC 5740, 5.5.2, after TFMCC, RFC 4654).
//!
//! A receiver measures loss events and its receive rate, and computes the rate that TCP would have. It answers the
//! probes of the sender (EXT_CC). The sender follows the receiver with the lowest rate, the current limiting
//! receiver. The limiting receiver answers each probe at once. Others answer after a random wait, and only if their
//! rate is lower.

mod feedback;
mod group_rate;
#[cfg(test)]
mod tests;

pub(super) use feedback::Feedback;
pub(super) use group_rate::GroupRate;
