//! Diagnosis of network faults from the collected evidence, without input or output.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use carillon_net::SendFailure;
use carillon_wire::doctor::{HelloPath, ObservedMachine};
use carillon_wire::session::{OtherRelease, Release, WIRE_VERSION};

use super::relays::RelayFinding;

/// A machine as findings describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name and address.
    pub name: String,
    /// The group it uses.
    pub group: SocketAddr,
    /// The hop limit of its multicasts.
    pub hops: u8,
    /// The longest datagram of its interface.
    pub datagram: u32,
    /// Its receive buffer.
    pub buffer: u32,
    /// Its release, if that uses another wire version.
    pub other_release: Option<OtherRelease>,
}

/// Another machine, with the packets that passed between it and this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Description of the machine.
    pub machine: Machine,
    /// Its address.
    pub address: IpAddr,
    /// Packets received from it.
    pub heard: ObservedMachine,
    /// Number of duplicate packets.
    pub copies: u16,
    /// Packets from this machine that it reports as received; `None` if it received none.
    pub said: Option<ObservedMachine>,
    /// Estimated throughput from it to here in bit/s, by multicast and by unicast.
    pub rates: [Option<f64>; 2],
}

/// Evidence collected during an examination.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// This machine.
    pub here: Machine,
    /// Reason why only this machine itself can be reached, if so.
    pub confined: Option<String>,
    /// The interface in use.
    pub interface: String,
    /// Source address of its datagrams.
    pub address: IpAddr,
    /// Requested size of the receive buffer in bytes.
    pub wanted_buffer: u32,
    /// Machines from which packets arrived.
    pub peers: Vec<Peer>,
    /// Relays on this network.
    pub relays: Vec<RelayFinding>,
    /// Named machines from which no packet arrived.
    pub missing: Vec<IpAddr>,
    /// Named machines that are reached through another interface, with that source address; `None` if there is no
    /// route.
    pub elsewhere: Vec<(IpAddr, Option<IpAddr>)>,
    /// Latest send error by destination.
    pub refused: BTreeMap<IpAddr, SendFailure>,
    /// Duration of the examination in seconds.
    pub seconds: u64,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No route for multicast: loopback alone.
    Confined,
    /// A hop limit of zero.
    NoHops,
    /// The receive buffer is small.
    SmallBuffer,
    /// The system refuses to send datagrams of this machine.
    CannotSend,
    /// The machine is behind another interface.
    WrongInterface,
    /// No other machine answered.
    Nobody,
    /// A named machine did not answer.
    NotHeard,
    /// The machines use different wire versions.
    OtherRelease,
    /// The machines use different groups.
    OtherGroup,
    /// The machines use different address families.
    OtherFamily,
    /// A router in between requires a higher hop limit.
    Router,
    /// A switch with IGMP or MLD snooping does not forward the group.
    Snooping,
    /// No multicast passes.
    NoMulticast,
    /// A firewall blocks the port of the group.
    GroupPortBlocked,
    /// A firewall blocks unicast to the machine's own port.
    OwnPortBlocked,
    /// Packets pass in one direction only.
    OneWay,
    /// Long datagrams do not pass.
    Mtu,
    /// Packets are lost.
    Loss,
    /// Packets arrive more than once.
    Copies,
}

impl Fault {
    /// Name of the fault for programs.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Confined => "no-route",
            Fault::NoHops => "no-hops",
            Fault::SmallBuffer => "small-buffer",
            Fault::CannotSend => "cannot-send",
            Fault::WrongInterface => "wrong-interface",
            Fault::Nobody => "nobody",
            Fault::NotHeard => "not-heard",
            Fault::OtherRelease => "other-release",
            Fault::OtherGroup => "other-group",
            Fault::OtherFamily => "other-family",
            Fault::Router => "router",
            Fault::Snooping => "snooping",
            Fault::NoMulticast => "no-multicast",
            Fault::GroupPortBlocked => "group-port-blocked",
            Fault::OwnPortBlocked => "own-port-blocked",
            Fault::OneWay => "one-way",
            Fault::Mtu => "mtu",
            Fault::Loss => "loss",
            Fault::Copies => "copies",
        }
    }
}

/// A fault, described with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the fault.
    pub fault: Fault,
    /// The other machine concerned, if any.
    pub peer: Option<String>,
    /// Description and remedy.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Evidence {
    /// Derives all faults, the local ones first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.here(&mut findings);
        if self.elsewhere(&mut findings) {
            return findings;
        }
        if let Some(failure) = self.refused.get(&self.here.group.ip()) {
            let text = cannot_send("group", &failure.to.to_string(), failure);
            findings.push(Finding { fault: Fault::CannotSend, peer: None, text });
        }
        for peer in &self.peers {
            let mut say = |fault, text| {
                findings.push(Finding { fault, peer: Some(peer.machine.name.clone()), text });
            };
            self.pair(peer, &mut say);
        }
        self.absent(&mut findings);
        findings
    }

    /// Checks this machine alone.
    fn here(&self, findings: &mut Vec<Finding>) {
        let mut say = |fault, text| findings.push(Finding { fault, peer: None, text });
        if let Some(why) = &self.confined {
            say(Fault::Confined, why.clone());
        }
        if self.here.hops == 0 {
            say(Fault::NoHops, "--ttl 0 keeps every datagram on this machine: use 1 or more".to_owned());
        }
        let (has, wanted) = (self.here.buffer, self.wanted_buffer);
        if has < wanted / 2 {
            let text = format!(
                "the receive buffer is {} KiB of {} KiB: bursts will be lost here; sysctl net.core.rmem_max={wanted}",
                has / 1024,
                wanted / 1024
            );
            say(Fault::SmallBuffer, text);
        }
    }

    fn pair(&self, peer: &Peer, say: &mut dyn FnMut(Fault, String)) {
        let (here, there) = (&self.here, &peer.machine);
        if let Some(release) = there.other_release {
            let text = format!(
                "{} runs {release} of carillon, this machine release {} with wire version {WIRE_VERSION}: install the same \
                 release on both",
                there.name,
                Release::CURRENT
            );
            say(Fault::OtherRelease, text);
        }
        if here.group.is_ipv4() != there.group.is_ipv4() {
            let text = format!(
                "{} uses group {}, this machine {}, which is of another address family: give both the same --group",
                there.name, there.group, here.group
            );
            return say(Fault::OtherFamily, text);
        }
        if (here.group.ip(), here.group.port()) != (there.group.ip(), there.group.port()) {
            let text = format!(
                "{} uses group {}, this machine {}: give both the same --group",
                there.name, there.group, here.group
            );
            return say(Fault::OtherGroup, text);
        }
        let this = Machine { name: "this machine".to_owned(), ..here.clone() };
        // A machine that received a HELLO with an answer due has answered.
        let answers = |heard: &ObservedMachine| {
            [HelloPath::Group, HelloPath::Link, HelloPath::Port].iter().any(|way| heard.was_received_by(*way))
        };
        one_way(there, &this, &peer.heard, peer.said.as_ref().is_some_and(answers), say);
        let refused = self.refused.get(&peer.address);
        if let Some(failure) = refused {
            say(Fault::CannotSend, cannot_send("machine", &there.name, failure));
        }
        let to_group = self.refused.contains_key(&here.group.ip());
        match &peer.said {
            // This machine's own finding covers it already.
            Some(_) if here.hops == 0 => {}
            // Datagrams that the system refuses cannot arrive.
            _ if refused.is_some() || to_group => {}
            Some(said) => one_way(&this, there, said, answers(&peer.heard), say),
            None => {
                let text = format!(
                    "packets from {0} arrive here, and none from this machine arrive there, although they were sent: a firewall at {0} or in between drops UDP from {1} to port {2}",
                    there.name,
                    self.address,
                    here.group.port()
                );
                say(Fault::OneWay, text);
            }
        }
        if u32::from(peer.copies) * 10 > u32::from(peer.heard.came).max(10) {
            let text = format!(
                "datagrams of {} arrive more than once: two paths lead here (a loop of switches, or two relays)",
                there.name
            );
            say(Fault::Copies, text);
        }
    }

    /// Checks for machines behind another interface. Returns true if there are some, as all other faults follow from
    /// that.
    fn elsewhere(&self, findings: &mut Vec<Finding>) -> bool {
        for (address, source) in &self.elsewhere {
            let (fault, text) = match source {
                None => (
                    Fault::NotHeard,
                    format!("there is no route to {address}: is the network up, and the address right?"),
                ),
                Some(source) => (
                    Fault::WrongInterface,
                    format!(
                        "{address} is reached from {source}, and {} is in use: choose the other with --interface {source}",
                        self.interface
                    ),
                ),
            };
            findings.push(Finding { fault, peer: Some(address.to_string()), text });
        }
        self.confined.is_some() || !self.elsewhere.is_empty()
    }

    fn absent(&self, findings: &mut Vec<Finding>) {
        for address in &self.missing {
            if let Some(failure) = self.refused.get(address) {
                let text = cannot_send("machine", &address.to_string(), failure);
                findings.push(Finding { fault: Fault::CannotSend, peer: Some(address.to_string()), text });
                continue;
            }
            let text = format!(
                "{address} did not answer: is `carillon doctor` running there at the same time, with port {}? do firewalls pass UDP there and here? does it answer to ping?",
                self.here.group.port()
            );
            findings.push(Finding { fault: Fault::NotHeard, peer: Some(address.to_string()), text });
        }
        if self.peers.is_empty() && self.missing.is_empty() {
            let text = format!(
                "no machine answered within {} s on {}: start `carillon doctor` on the other machine while it runs here, and name that machine at both ends (`carillon doctor ADDRESS`), so that a multicast fault can be distinguished from a general one",
                self.seconds, self.interface
            );
            findings.push(Finding { fault: Fault::Nobody, peer: None, text });
        }
    }
}

/// Describes a send error and its remedy.
fn cannot_send(what: &str, place: &str, failure: &SendFailure) -> String {
    format!("cannot send to {what} {place}: {failure}; {}", failure.advice())
}

/// Diagnoses the path from `from` to `to`. `answers` is true if `from` received the packets that `to` answers.
fn one_way(
    from: &Machine,
    to: &Machine,
    came: &ObservedMachine,
    answers: bool,
    say: &mut dyn FnMut(Fault, String),
) {
    let (source, target, port) = (&from.name, &to.name, to.group.port());
    if from.hops == 0 {
        return say(
            Fault::NoHops,
            format!("{source} uses --ttl 0, which keeps its multicast on that machine: use 1 or more"),
        );
    }
    if came.least_ttl == 0 {
        return without_multicast(from, to, came, say);
    }
    if came.least_ttl > from.hops {
        let text = format!(
            "a router lies between {source} and {target}: multicasts of {source} need --ttl {} (it has {})",
            came.least_ttl, from.hops
        );
        return say(Fault::Router, text);
    }
    if answers && !came.was_received_by(HelloPath::Answer) {
        let text = format!(
            "multicast from {source} reaches {target}, and what {source} sends to it alone does not: {source} has no route to {target}, which `carillon doctor` says there, or a firewall at {target} drops UDP to ports other than {port}: let UDP from {source} in"
        );
        say(Fault::OwnPortBlocked, text);
    }
    if came.came >= MIN_HELLOS && !came.was_received_by(HelloPath::Long) {
        let why = match from.datagram > to.datagram {
            true => format!("{target} takes {}", to.datagram),
            false => "a switch or router between has shorter frames".to_owned(),
        };
        let text = format!(
            "datagrams of {} bytes, which the interface of {source} carries, do not reach {target} ({why}): send with --datagram {}",
            from.datagram,
            to.datagram.min(from.datagram).min(SAFE_DATAGRAM)
        );
        say(Fault::Mtu, text);
    }
    let lost = came.sent.saturating_sub(came.came);
    if came.sent >= 2 * MIN_HELLOS && u32::from(lost) * 100 > u32::from(came.sent) * LOST_PERCENT {
        let text = format!(
            "{lost} of {} short datagrams from {source} to {target} were lost, with nothing else sent: look for wireless links, full queues, half-duplex ports",
            came.sent
        );
        say(Fault::Loss, text);
    }
}

/// Diagnoses a path by which no multicast has arrived, unless none need arrive.
fn without_multicast(
    from: &Machine,
    to: &Machine,
    came: &ObservedMachine,
    say: &mut dyn FnMut(Fault, String),
) {
    let (source, target, port) = (&from.name, &to.name, to.group.port());
    if came.is_unwanted() {
        return;
    }
    if came.was_received_by(HelloPath::Link) {
        say(
            Fault::Snooping,
            format!(
                "datagrams from {source} to all hosts reach {target}, and those to {} do not: a switch in between filters multicast (IGMP or MLD snooping) and does not know the members; turn its querier on, or snooping off",
                to.group.ip()
            ),
        );
    } else if came.was_received_by(HelloPath::Port) || came.was_received_by(HelloPath::PortAnswer) {
        say(
            Fault::NoMulticast,
            format!(
                "unicast passes from {source} to {target}, multicast with up to {MAX_HOPS} hops does not: they are on different networks without a multicast router in between, or the network (a switch port, a cloud, a VPN) carries no multicast"
            ),
        );
    } else if came.was_received_by(HelloPath::Answer) {
        say(
            Fault::GroupPortBlocked,
            format!(
                "UDP from {source} reaches {target}, but nothing to port {port}: a firewall at {target} drops it; let UDP to port {port} in"
            ),
        );
    } else {
        say(
            Fault::OneWay,
            format!("nothing comes from {source} to {target}: a firewall at {target} drops UDP"),
        );
    }
}

/// Minimum number of received packets before missing others count as a fault.
const MIN_HELLOS: u16 = 10;
/// Maximum UDP payload that every Ethernet carries, in bytes.
const SAFE_DATAGRAM: u32 = 1472;
/// Loss above this percentage is a fault.
const LOST_PERCENT: u32 = 2;
/// Maximum hop limit that is probed.
pub const MAX_HOPS: u8 = 32;

#[cfg(test)]
mod tests {
    use carillon_wire::doctor::UNWANTED;

    use super::*;

    fn machine(name: &str) -> Machine {
        let group = "239.255.67.65:7654".parse().unwrap();
        Machine {
            name: name.to_owned(),
            group,
            hops: 1,
            datagram: 1472,
            buffer: 4 << 20,
            other_release: None,
        }
    }

    const HEALTHY: ObservedMachine =
        ObservedMachine { id: 1, least_ttl: 1, ways: 0b11_1111, came: 50, sent: 50 };

    fn evidence() -> Evidence {
        Evidence {
            here: machine("a"),
            confined: None,
            interface: "eth0 (10.0.0.1)".to_owned(),
            address: "10.0.0.1".parse().unwrap(),
            wanted_buffer: 4 << 20,
            peers: vec![Peer {
                machine: machine("b"),
                address: "10.0.0.2".parse().unwrap(),
                heard: HEALTHY,
                copies: 0,
                said: Some(HEALTHY),
                rates: [None, None],
            }],
            relays: Vec::new(),
            missing: Vec::new(),
            refused: BTreeMap::new(),
            elsewhere: Vec::new(),
            seconds: 5,
        }
    }

    fn refuse(all: &mut Evidence, to: &str) {
        let to: IpAddr = to.parse().unwrap();
        all.refused.insert(to, SendFailure { to: (to, 7654).into(), errno: 101, count: 1 });
    }

    fn faults(change: impl Fn(&mut Evidence)) -> Vec<Fault> {
        let mut evidence = evidence();
        change(&mut evidence);
        evidence.findings().into_iter().map(|finding| finding.fault).collect()
    }

    #[test]
    fn healthy_pair_has_no_fault() {
        assert!(faults(|_| {}).is_empty());
        // The single lost packet stays below the threshold.
        assert!(faults(|all| all.peers[0].heard.came = 49).is_empty());
    }

    #[test]
    fn each_single_fault_is_reported_alone() {
        type Change = fn(&mut Evidence);
        let cases: [(Fault, Change); 18] = [
            (Fault::Confined, |all| all.confined = Some("no route".into())),
            (Fault::NoHops, |all| (all.here.hops, all.peers) = (0, vec![all.peers.remove(0)])),
            (Fault::SmallBuffer, |all| all.here.buffer = 208 << 10),
            (Fault::WrongInterface, |all| {
                all.elsewhere = vec![("10.0.1.2".parse().unwrap(), Some("10.0.1.1".parse().unwrap()))];
            }),
            (Fault::CannotSend, |all| {
                refuse(all, "10.0.0.2");
                all.peers[0].said = None;
            }),
            (Fault::CannotSend, |all| refuse(all, "239.255.67.65")),
            (Fault::NotHeard, |all| all.missing = vec!["10.0.0.9".parse().unwrap()]),
            (Fault::Nobody, |all| all.peers.clear()),
            (Fault::OtherGroup, |all| all.peers[0].machine.group.set_port(1)),
            (Fault::OtherFamily, |all| all.peers[0].machine.group = "[ff15::1]:7654".parse().unwrap()),
            (Fault::Router, |all| all.peers[0].heard.least_ttl = 2),
            (Fault::Snooping, |all| (all.peers[0].heard.least_ttl, all.peers[0].heard.ways) = (0, 0b01_1110)),
            (Fault::NoMulticast, |all| {
                (all.peers[0].heard.least_ttl, all.peers[0].heard.ways) = (0, 0b01_1100);
            }),
            (Fault::GroupPortBlocked, |all| {
                (all.peers[0].heard.least_ttl, all.peers[0].heard.ways) = (0, HelloPath::Answer.bit());
            }),
            (Fault::OwnPortBlocked, |all| all.peers[0].heard.ways &= !HelloPath::Answer.bit()),
            (Fault::OneWay, |all| all.peers[0].said = None),
            (Fault::Mtu, |all| all.peers[0].heard.ways &= !HelloPath::Long.bit()),
            (Fault::Loss, |all| all.peers[0].heard.came = 40),
        ];
        for (fault, change) in cases {
            let found = faults(change);
            // A machine with hop limit 0 reaches no other; that case is not generated here.
            assert!(found.contains(&fault), "{fault:?}: {found:?}");
            assert!(found.len() == 1 || fault == Fault::NoHops, "{fault:?}: {found:?}");
        }
        assert_eq!(faults(|all| all.peers[0].copies = 20), [Fault::Copies]);
        // Its multicasts do not arrive, and need not.
        let unicast = UNWANTED | HelloPath::Port.bit() | HelloPath::Answer.bit();
        assert!(
            faults(|all| (all.peers[0].heard.least_ttl, all.peers[0].heard.ways) = (0, unicast)).is_empty()
        );
    }
}
