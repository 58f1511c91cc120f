//! Largest datagrams of the sender that reach this receiver.

use carillon_core::Time;
use carillon_wire::session::{DatagramSizes, Invite, State};

use super::ReceiverSession;
use super::state::{Invited, ReceiverPhase, SeenSizes};

impl SeenSizes {
    /// Returns true if a larger datagram than those received may still arrive, within the limit of the interface.
    fn may_see_larger(&self, interface: u32) -> bool {
        !self.are_settled() && u32::from(self.largest) < interface.min(self.shown.longest.into())
    }

    /// Returns true if each size was shown.
    fn are_settled(&self) -> bool {
        self.invitations >= SIZE_INVITATIONS
    }
}

impl ReceiverSession {
    /// Error if the invitation requires larger datagrams than the interface accepts.
    pub(super) fn too_long(&self, invite: &Invite<'_>) -> Option<String> {
        let shown = invite.sizes;
        let needed = if shown.are_shown() { shown.least.into() } else { invite.max_payload };
        let max = self.config.max_datagram;
        (needed > max).then(|| {
            format!(
                "the receiver's interface takes datagrams of {max} bytes, not {needed}: send with --datagram {max}"
            )
        })
    }

    /// Maximum payload on the path from the sender, assumed for the way back too.
    pub(super) fn payload_here(&self, invite: &Invite<'_>) -> u32 {
        let DatagramSizes { longest, .. } = invite.sizes;
        let Some(invited) = self.invited.as_ref().filter(|_| invite.sizes.are_shown()) else {
            return invite.max_payload;
        };
        // Until the size is settled, the longest one is assumed.
        let comes = if invited.sizes.are_settled() { invited.sizes.largest } else { longest };
        let comes = u32::from(comes).min(self.config.max_datagram);
        // Each byte by which datagrams are shorter reduces the payload.
        invite.max_payload.saturating_sub(u32::from(longest).saturating_sub(comes)).max(1)
    }

    /// Handles a datagram that the sender shows to test its size. Once the size is settled, it changes nothing.
    pub(super) fn on_size(&mut self, now: Time, bytes: usize) {
        let interface = self.config.max_datagram;
        let Some(invited) = self.invited.as_mut().filter(|invited| invited.sizes.may_see_larger(interface))
        else {
            return;
        };
        // A datagram that is longer than the interface carries arrived in fragments. Data are not fragmented.
        let whole = u16::try_from(bytes.min(interface as usize)).unwrap_or(u16::MAX);
        invited.sizes.largest = invited.sizes.largest.max(whole);
        if self.phase == ReceiverPhase::Joining && !self.awaits_sizes() {
            self.join_soon(now);
        }
    }

    /// Returns true while the receiver waits for sizes to arrive. The JOIN states the result, so it waits too.
    pub(super) fn awaits_sizes(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| {
            let waits = invited.state == State::Gathering && invited.problem.is_none();
            waits && invited.sizes.may_see_larger(self.config.max_datagram)
        })
    }

    /// Counts an invitation of a gathering sender. With the last one, the datagram size is settled.
    pub(super) fn count_invitation(&mut self, now: Time, invite: &Invite<'_>) {
        let Some(invited) = &mut self.invited else { return };
        let waited = invited.problem.is_none() && invited.sizes.may_see_larger(self.config.max_datagram);
        invited.sizes.invitations = invited.sizes.invitations.saturating_add(1);
        if !waited || !invited.sizes.are_settled() || self.phase != ReceiverPhase::Joining {
            return;
        }
        let Invited { association, sender, sizes: SeenSizes { largest, .. }, .. } = *invited;
        let least = invite.sizes.least;
        let problem = match largest < least {
            true => {
                let other = COMMON_DATAGRAM_SIZES.into_iter().find(|&other| other < least);
                let other = other.map_or_else(String::new, |other| format!(": send with --datagram {other}"));
                Some(format!("datagrams of {least} bytes do not reach the receiver{other}"))
            }
            // The machine may send packets as large as the invitation says.
            false => self.accept(sender, association, invite).err(),
        };
        if let Some(invited) = &mut self.invited {
            invited.problem = problem;
        }
        self.join_soon(now);
    }
}

/// Number of invitations after which each size was shown, and the largest this often.
pub(super) const SIZE_INVITATIONS: u32 = 8;
/// Datagram sizes that common networks carry: frames of 1500 bytes, the minimum MTU of IPv6, and that of IPv4 (RFC
/// 791: 576 bytes).
const COMMON_DATAGRAM_SIZES: [u16; 3] = [1472, 1232, 548];
