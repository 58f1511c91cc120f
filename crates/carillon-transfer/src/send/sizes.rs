//! Datagram sizes to probe before the start, to find the path MTU of all receivers.

use carillon_core::{BitRate, Helpers, ProtocolEntry};
use carillon_net::Endpoint;
use carillon_session::SenderSessionConfig;

use super::options::{SendOptions, hears_group};

impl SendOptions {
    /// Returns the sizes to probe: the interface's maximum and common smaller MTUs, or the configured size alone.
    /// Empty if no receiver would answer, on loopback, on a slow link, or if data takes another path than probes.
    pub(super) fn sizes(
        &self,
        protocol: &ProtocolEntry,
        endpoint: &Endpoint,
        datagram: usize,
        needed: u32,
        config: &SenderSessionConfig,
    ) -> Vec<u16> {
        let slow = self.rate.is_some_and(|rate| rate < SLOW);
        let Ok(longest) = u16::try_from(datagram) else { return Vec::new() };
        if slow || !self.can_be_told(protocol, endpoint) {
            return Vec::new();
        }
        [longest].into_iter().chain(self.shorter(endpoint, longest, needed, config)).collect()
    }

    /// Datagram size, in bytes, of a catch-up session for a receiver that longer datagrams do not reach: the size that
    /// every network carries. `None` if the user chose a size.
    pub(super) fn fallback(
        &self,
        protocol: &ProtocolEntry,
        endpoint: &Endpoint,
        datagram: usize,
        needed: u32,
        config: &SenderSessionConfig,
    ) -> Option<u16> {
        let longest = u16::try_from(datagram).unwrap_or(u16::MAX);
        let shorter = self.shorter(endpoint, longest, needed, config).last();
        shorter.filter(|_| self.can_be_told(protocol, endpoint))
    }

    /// Returns true if receivers report which datagrams reach them, and the path MTU may be below the interface's.
    fn can_be_told(&self, protocol: &ProtocolEntry, endpoint: &Endpoint) -> bool {
        let silent = self.is_silent() || hears_group(protocol) || protocol.helpers != Helpers::None;
        !silent && !endpoint.interface().loopback && !endpoint.is_raw()
    }

    /// Sizes below this one that networks carry, the longest first; none if the user said how long datagrams are to be.
    fn shorter(
        &self,
        endpoint: &Endpoint,
        longest: u16,
        needed: u32,
        config: &SenderSessionConfig,
    ) -> impl Iterator<Item = u16> {
        let headers = endpoint.mtu() - endpoint.max_datagram();
        let others =
            MTUS.into_iter().filter(|_| self.datagram.is_none()).map(move |mtu| mtu - headers as u16);
        others.filter(move |&other| other < longest && config.payload_in(other.into()) >= needed)
    }
}

/// Common MTUs in bytes: Ethernet, PPPoE (RFC 2516), VXLAN (RFC 7348), two tunnels, and the minimum of IPv6 (RFC
/// 8200, section 5).
const MTUS: [u16; 6] = [1500, 1492, 1450, 1420, 1400, 1280];
/// Rate below which sizes are not probed: an invitation with probes takes 3 KB.
const SLOW: BitRate = BitRate::mbps(1);
