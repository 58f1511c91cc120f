//! Messages for people: one line each on stderr. A message says what happened, to which machine, and what to do next.
//! Messages about wrong set-ups are listed in `docs/reference/wrong-set-ups.md`.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use carillon_net::{Choice, Endpoint, Interface, SendFailure, is_source_specific};
use carillon_session::{OtherSender, ReceiverFailure, RefuseReason, UnservedReason};
use carillon_transfer::files::{needs_escape, shown};
use carillon_transfer::{DEFAULT_GROUP, DEFAULT_GROUP_V6};
use carillon_wire::session::{Release, WIRE_VERSION};

use super::clock::utc_now;
use super::evidence::Evidence;

/// Says one line on stderr.
pub fn notice(line: impl fmt::Display) {
    notice_text(&shown(&line.to_string()));
}

/// Prints a text that is safe to show, in one write, since other programs may write to the same terminal.
pub fn notice_text(text: &str) {
    let time = match HAS_TIMESTAMPS.load(Ordering::Relaxed) {
        true => format!("{} ", utc_now()),
        false => String::new(),
    };
    // A closed stderr is not an error.
    let _ = io::stderr().lock().write_all(format!("carillon: {time}{text}\n").as_bytes());
}

/// Puts the time before every line from now on, for services.
pub fn enable_timestamps() {
    HAS_TIMESTAMPS.store(true, Ordering::Relaxed);
}

static HAS_TIMESTAMPS: AtomicBool = AtomicBool::new(false);

/// Escapes control characters inside a line of JSON. JSON's own syntax contains none of them, so only texts change.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(needs_escape) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::new();
    for c in json.chars() {
        match needs_escape(c) {
            true => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Group, interface and address of an endpoint, for messages that name them.
#[derive(Clone, Debug)]
pub struct EndpointContext {
    group: SocketAddr,
    interface: Interface,
    /// Names and addresses of all interfaces in use.
    all: String,
    choice: Choice,
    own: SocketAddr,
    /// True if the endpoint has several interfaces, each with an address of its own.
    has_several: bool,
    /// True if the endpoint has a key.
    sealed: bool,
    /// Sources of the multicasts that are received; empty for all hosts.
    sources: Vec<IpAddr>,
    /// True if the endpoint asks a sender for unicast copies; the group then has the IP version of that sender.
    asks: bool,
    /// The other interfaces that could be chosen.
    others: Vec<String>,
}

impl EndpointContext {
    /// Context of this endpoint.
    pub fn of(endpoint: &Endpoint) -> EndpointContext {
        let (interface, choice) = (endpoint.interface().clone(), endpoint.choice().clone());
        let sealed = endpoint.seal_bytes() > 0;
        EndpointContext {
            sealed,
            has_several: endpoint.interfaces().nth(1).is_some(),
            all: endpoint.interfaces().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            sources: endpoint.sources().to_vec(),
            asks: endpoint.subscription().is_some(),
            ..EndpointContext::at(endpoint.group(), interface, choice, endpoint.local_addr())
        }
    }

    /// Context of a group on an interface, with the reason for the choice.
    pub fn at(group: SocketAddr, interface: Interface, choice: Choice, own: SocketAddr) -> EndpointContext {
        // Without the list the advice is shorter.
        let candidates = Interface::candidates(group).unwrap_or_default();
        let others = candidates.iter().filter(|one| one.index != interface.index);
        let others = others.map(|one| one.name.clone()).collect();
        EndpointContext {
            group,
            all: interface.to_string(),
            choice,
            own,
            has_several: false,
            sealed: false,
            sources: Vec::new(),
            asks: false,
            others,
            interface,
        }
    }

    /// The address in use, unless there is a key, with which a bare datagram would count as a forged one.
    pub fn open_address(&self) -> Option<SocketAddr> {
        (!self.sealed).then_some(self.own)
    }

    /// This end in questions about firewalls: its address, if it has one interface.
    fn here(&self) -> String {
        if self.has_several { "this machine".to_owned() } else { self.own.to_string() }
    }

    /// Returns true if broadcasts take the place of a group.
    fn broadcasts(&self) -> bool {
        !self.group.ip().is_multicast()
    }

    /// The group and the interface.
    pub fn group(&self) -> String {
        match self.broadcasts() {
            true => format!("the broadcasts to {} on {}", self.group, self.all),
            false => format!("group {} on {}", self.group, self.all),
        }
    }

    /// Why loopback was taken without being named, if it was.
    pub fn loopback(&self) -> Option<String> {
        let ip = self.group.ip();
        let why = match &self.choice {
            Choice::Named | Choice::Routed | Choice::Only => return None,
            Choice::NoRoute => format!("there is no route to {ip}"),
            Choice::BadRoute(name) => format!("the route to {ip} leads to {name}, which does no multicast"),
        };
        let todo = match self.others.first() {
            Some(first) => {
                let all = self.others.join(" or ");
                let six = if ip.is_ipv6() { "-6 " } else { "" };
                format!(
                    "choose {all} with --interface, or add a route (`ip {six}route add {ip} dev {first}`)"
                )
            }
            None => self.without_candidates(),
        };
        Some(format!("{why}: using {}, which reaches this host only; {todo}", self.interface))
    }

    /// Advice for a host without an address of the group's family on any interface but loopback.
    fn without_candidates(&self) -> String {
        let (ours, other, group) = match self.group {
            SocketAddr::V4(_) => ("IPv4", "IPv6", DEFAULT_GROUP_V6),
            SocketAddr::V6(_) => ("IPv6", "IPv4", DEFAULT_GROUP),
        };
        let others =
            group.parse().ok().and_then(|group| Interface::candidates(group).ok()).unwrap_or_default();
        match others.first() {
            Some(first) => {
                format!(
                    "no other interface has an {ours} address, but {first} has {other}: use --group '{group}'"
                )
            }
            None => format!("no other interface is up, does multicast and has an {ours} address"),
        }
    }

    /// Messages about choices that were made for lack of a route or of IPv4; `wanted` is the group that was asked
    /// for.
    pub fn remarks(&self, wanted: SocketAddr) -> Vec<String> {
        let mut lines: Vec<String> = self.loopback().into_iter().collect();
        if self.choice == Choice::Only && self.broadcasts() {
            lines.push(format!("broadcasting on {}, the only interface with broadcasts", self.interface));
        } else if self.choice == Choice::Only {
            let (ip, interface) = (self.group.ip(), &self.interface);
            lines.push(format!(
                "there is no route to {ip}: using {interface}, the only interface that does multicast"
            ));
        }
        if wanted.is_ipv4() && self.group.is_ipv6() && self.sources.is_empty() && !self.asks {
            let (ip, port) = (self.group.ip(), self.group.port());
            lines.push(format!(
                "no interface here has an IPv4 address: using the IPv6 group [{ip}]:{port} on {}; ends that have IPv4 \
                 need --group '[{ip}]:{port}'",
                self.interface
            ));
        }
        lines
    }

    /// Remark of a receiver in a group of source-specific multicast that names no source.
    pub fn without_source(&self) -> Option<String> {
        let ip = self.group.ip();
        (self.sources.is_empty() && is_source_specific(ip)).then(|| {
            format!(
                "{ip} is a group of source-specific multicast, and routers pass its multicasts only to receivers that \
                 name the sender: use --source ADDRESS"
            )
        })
    }

    /// Message for a sender that got no answer: known faults, else advice.
    pub fn unanswered_sender(&self, ttl: u8, evidence: &Evidence) -> String {
        if ttl == 0 && !self.broadcasts() {
            return "with --ttl 0 nothing leaves this host".to_owned();
        }
        let head = format!("no receiver answered in {}", self.group());
        let known = evidence.known();
        if !known.is_empty() {
            return format!("{head}: {}", known.join("; "));
        }
        let sent = match evidence.received {
            0 => format!("{} datagrams were sent, none was received", evidence.sent),
            received => {
                format!("{} datagrams were sent, {received} were received, none was an answer", evidence.sent)
            }
        };
        if self.broadcasts() {
            return format!("{head}: {sent}. Is `carillon recv --broadcast` {}", self.check_broadcasts());
        }
        let running = format!("Is `carillon recv` running with this --group{}", self.keyed());
        if self.interface.loopback {
            return format!(
                "{head}, which reaches this host only: {sent}. {running} on this host{}?",
                self.instead()
            );
        }
        let routers = match ttl {
            1 => "--ttl 1 does not pass routers".to_owned(),
            _ => format!("--ttl is {ttl}"),
        };
        format!(
            "{head}: {sent}. {running} on this network{}? If it is, run `carillon doctor` on both machines to find the \
             firewall, switch or router between them ({routers})",
            self.instead(),
        )
    }

    /// Message for a receiver that was not invited, with descriptions of other packets that it received.
    pub fn uninvited(&self, heard: &[String], evidence: &Evidence) -> String {
        let what = format!("`carillon send` running with this --group{}", self.keyed());
        self.unheard("no sender", &what, heard, evidence)
    }

    /// Message for a joined sender that found no session.
    pub fn no_organiser(&self, evidence: &Evidence) -> String {
        let head = format!("no session was announced in {}", self.group());
        self.explained(&head, "`carillon send` without --join running with this --group", &[], evidence)
    }

    /// Message for a joined sender that was not invited, with descriptions of other packets that it received.
    pub fn uninvited_sender(&self, heard: &[String], evidence: &Evidence) -> String {
        self.unheard(
            "no session",
            "`carillon send` without --join running with this --group",
            heard,
            evidence,
        )
    }

    fn unheard(&self, who: &str, what: &str, heard: &[String], evidence: &Evidence) -> String {
        let head = format!("{who} found in {}, still waiting", self.group());
        self.explained(&head, what, heard, evidence)
    }

    /// Message about a silence, with the known faults, else with advice.
    fn explained(&self, head: &str, what: &str, heard: &[String], evidence: &Evidence) -> String {
        // What came instead says it better than its number.
        let known = if heard.is_empty() { evidence.known() } else { heard.to_vec() };
        if !known.is_empty() {
            return format!("{head}, but {}", known.join("; "));
        }
        if self.broadcasts() {
            let checks = self.check_broadcasts();
            return format!("{head}: nothing was received. Is `carillon send --broadcast` {checks}");
        }
        let instead = self.instead();
        if !self.sources.is_empty() {
            let sources = listed(&self.sources);
            return format!(
                "{head}: nothing was received from {sources} (--source). Is {what} there{instead}, and is that its address on \
                 the way to this host? If it is, run `carillon doctor --source {sources}` here, and `carillon doctor` there"
            );
        }
        if self.interface.loopback {
            let name = &self.interface.name;
            return format!(
                "{head}: nothing was received, and {name} reaches this host only. Is {what} on this host{instead}?"
            );
        }
        format!(
            "{head}: nothing was received. Is {what} on this network{instead}? If it is, run `carillon doctor` on both machines \
             to find the firewall, switch or router between them (the sender's --ttl limits routers)"
        )
    }

    /// A sender invites and does not answer: nothing from here reaches it, or nothing of it by unicast
    /// reaches this end.
    pub fn unanswered(
        &self,
        name: &str,
        sender: Option<SocketAddr>,
        failure: Option<&SendFailure>,
    ) -> String {
        let who = host(name, sender);
        match failure {
            Some(failure) => {
                format!(
                    "{who} invites this machine, but sending to it fails: {failure}; {}",
                    failure.advice()
                )
            }
            None => format!(
                "{who} invites this machine, but does not answer. Do firewalls pass UDP between {} and it, and does it have a \
                 route to this machine? Run `carillon doctor` on both",
                self.here()
            ),
        }
    }

    /// A sender of another release invites.
    pub fn other_release(&self, sender: &OtherSender, address: Option<SocketAddr>) -> String {
        let who = match &sender.name {
            Some(name) => format!("sender {}", host(name, address)),
            None => {
                address.map_or_else(|| "a sender".to_owned(), |address| format!("the sender at {address}"))
            }
        };
        format!(
            "{who} runs {} of carillon; this is release {} with wire version {WIRE_VERSION}{RELEASES}",
            sender.release,
            Release::CURRENT
        )
    }

    /// A sender has started and nothing large of it arrives.
    pub fn no_data(&self, name: &str, bytes: u32) -> String {
        format!(
            "{name} has started, but no data arrives. If the network does not carry datagrams of {bytes} bytes, start the \
             sender with --datagram 1472"
        )
    }

    /// Message about a member that joined and received no data.
    pub fn took_nothing(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        bytes: usize,
        failure: Option<&SendFailure>,
    ) -> String {
        let who = host(name, address);
        if let Some(failure) = failure {
            return format!("{who} received no data: sending to it fails: {failure}; {}", failure.advice());
        }
        match bytes > USUAL_DATAGRAM {
            true => format!(
                "{who} received no data. If the network does not carry datagrams of {bytes} bytes, send with --datagram \
                 {USUAL_DATAGRAM}"
            ),
            false => format!(
                "{who} joined, but received no data. Is it still running? Do firewalls pass UDP from {} to it?",
                self.here()
            ),
        }
    }

    /// Message about another sender in the group.
    pub fn rival(&self, name: &str, address: Option<SocketAddr>) -> String {
        format!(
            "another sender, {}, uses {}: each receiver joins the sender that it finds first. Give one of the two, and its \
             receivers, another --group",
            host(name, address),
            self.group(),
        )
    }

    /// Questions about the other machines where no broadcast arrives, after the name of the command that runs there.
    fn check_broadcasts(&self) -> String {
        let (ip, port) = (self.group.ip(), self.group.port());
        format!(
            "running on this network, with port {port}{}? Is {ip} the broadcast address there too (`ip address`)? Do \
             firewalls pass UDP to port {port} here and there, and does the access point or switch pass broadcasts \
             between its clients{}?",
            self.keyed(),
            self.instead()
        )
    }

    fn keyed(&self) -> &'static str {
        if self.sealed { " and this --key-file" } else { "" }
    }

    fn instead(&self) -> String {
        match self.others.is_empty() {
            true => String::new(),
            false => format!(" (--interface could be {})", self.others.join(", ")),
        }
    }
}

/// Addresses, as an option takes them.
pub fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// A machine by name and address.
pub fn host(name: &str, address: Option<SocketAddr>) -> String {
    match address {
        Some(address) => format!("{} ({address})", shown(name)),
        None => shown(name).into_owned(),
    }
}

/// A receiver's failure and what to do about it. `goes_on` is true if it waits for another session.
pub fn explain(failure: &ReceiverFailure, goes_on: bool) -> String {
    let advice = match failure {
        ReceiverFailure::Refused(RefuseReason::AlreadyStarted, _) if goes_on => {
            ": start receivers before the sender"
        }
        ReceiverFailure::Refused(RefuseReason::AlreadyStarted, _) => {
            ": start receivers before the sender, or use --keep-going for the next transfer"
        }
        ReceiverFailure::Refused(RefuseReason::NameTaken, _) => ": choose another --name",
        ReceiverFailure::Refused(RefuseReason::NotExpected, _) => ": choose a --name that it expects",
        ReceiverFailure::Refused(RefuseReason::Done, _) => ", from another process that spoke for it",
        ReceiverFailure::Refused(RefuseReason::Later, _) => {
            ", which cannot take back what was written to one output: receive into a directory"
        }
        ReceiverFailure::SenderSilent => ": is it still running, and is the network up?",
        ReceiverFailure::Refused(RefuseReason::Full, _) => ": use another --group for some of the receivers",
        ReceiverFailure::Refused(RefuseReason::Expelled, _) | ReceiverFailure::Expelled => {
            ": it was too slow or silent; see the sender's report and its --timeout"
        }
        ReceiverFailure::Left(reason) => return reason.clone(),
        _ => "",
    };
    format!("{failure}{advice}")
}

/// Advice about an unserved receiver.
pub fn advice(reason: &UnservedReason) -> &'static str {
    match reason {
        UnservedReason::Refused(RefuseReason::NotExpected) => ": add it to --expect",
        UnservedReason::Refused(RefuseReason::NameTaken) => ": give it a --name of its own",
        UnservedReason::Refused(RefuseReason::AlreadyStarted) => LATE_RECEIVER_ADVICE,
        UnservedReason::Declined(text) if text.starts_with("came after") => LATE_RECEIVER_ADVICE,
        UnservedReason::Release(_) => RELEASES,
        UnservedReason::Refused(_) | UnservedReason::Declined(_) => "",
        UnservedReason::Left(_) | UnservedReason::Silent(_) | UnservedReason::Unanswered => {
            ": see its own messages"
        }
    }
}

/// Advice where two releases meet.
const RELEASES: &str = ": install the same release on both";

/// Line of a report about a session without a key.
pub const OPEN: &str = "Not encrypted: anyone on the network can read this and take part. Use --key-file, with the same key on \
     all machines.";

/// Line of a report without a list of receivers.
pub const NO_RECEIVER_LIST: &str = "No receiver list was given (--expect, --receivers): machines that never joined are not in \
     this report.";

/// Line of a report with a protocol that does not wait for its receivers.
pub fn does_not_wait(protocol: &str) -> String {
    format!(
        "{protocol} does not wait for receivers: a receiver that falls behind by more than the sender's buffer misses data."
    )
}

/// Payload of a UDP datagram in a frame of 1500 bytes.
const USUAL_DATAGRAM: usize = 1472;
const LATE_RECEIVER_ADVICE: &str = ": send again, and use --receivers or --expect to wait for it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{9b}\u{7f}"), "a\\u{1b}[2Jb\\u{a}c\\u{9b}\\u{7f}");
        assert_eq!(shown("evil\u{202e}gpj.exe\u{200b}"), "evil\\u{202e}gpj.exe\\u{200b}");
        assert_eq!(shown("zoë 漢字 ✓"), "zoë 漢字 ✓");
        let json = serde_json::json!({ "name": "a\u{9b}\u{202e}\u{7f}\u{e0001}\n" }).to_string();
        let escaped = shown_json(&json);
        assert_eq!(escaped, r#"{"name":"a\u009b\u202e\u007f\udb40\udc01\n"}"#);
        let back: serde_json::Value = serde_json::from_str(&escaped).expect("it is JSON still");
        assert_eq!(back["name"], "a\u{9b}\u{202e}\u{7f}\u{e0001}\n");
    }
}
