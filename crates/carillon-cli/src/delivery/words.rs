//! What is said to people: one line each on stderr, which names the machine, file or flag, what it means and
//! what to do next. The lines for wrong set-ups stand in `docs/reference/wrong-set-ups.md` word for word.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use carillon_net::{Choice, Endpoint, Interface, SendFailure};
use carillon_proto::session::{OtherSender, ReceiverFailure, RefuseReason, UnservedReason};
use carillon_transfer::files::{needs_escape, shown};
use carillon_transfer::{DEFAULT_GROUP, DEFAULT_GROUP_V6};
use carillon_wire::session::{Release, WIRE_VERSION};

use super::clock::utc_now;
use super::evidence::Evidence;

/// Says one line on stderr.
pub fn say(line: impl fmt::Display) {
    say_text(&shown(&line.to_string()));
}

/// Says what is fit to be shown, in one piece: others may write to the same terminal.
pub fn say_text(text: &str) {
    let time = match SAYS_TIME.load(Ordering::Relaxed) {
        true => format!("{} ", utc_now()),
        false => String::new(),
    };
    // A standard error that is closed is nobody's loss.
    let _ = io::stderr().lock().write_all(format!("carillon: {time}{text}\n").as_bytes());
}

/// Puts the time before every line from now on, for services.
pub fn say_time() {
    SAYS_TIME.store(true, Ordering::Relaxed);
}

static SAYS_TIME: AtomicBool = AtomicBool::new(false);

/// Text that may come from others, made harmless within a line of JSON, whose own syntax has none of these but in texts.
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

/// Where an endpoint is, for lines that have to name it.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    group: SocketAddr,
    interface: Interface,
    choice: Choice,
    own: SocketAddr,
    /// It has a key.
    sealed: bool,
    /// The other interfaces that could be chosen.
    others: Vec<String>,
}

impl Whereabouts {
    /// Of this endpoint.
    pub fn of(endpoint: &Endpoint) -> Whereabouts {
        let (interface, choice) = (endpoint.interface().clone(), endpoint.choice().clone());
        let sealed = endpoint.seal_bytes() > 0;
        Whereabouts { sealed, ..Whereabouts::at(endpoint.group(), interface, choice, endpoint.local_addr()) }
    }

    /// Of this group, by an interface that was chosen so.
    pub fn at(group: SocketAddr, interface: Interface, choice: Choice, own: SocketAddr) -> Whereabouts {
        // Without the list the advice is shorter.
        let candidates = Interface::candidates(group).unwrap_or_default();
        let others = candidates.iter().filter(|one| one.index != interface.index);
        let others = others.map(|one| one.name.clone()).collect();
        Whereabouts { group, choice, own, sealed: false, others, interface }
    }

    /// The address in use, unless there is a key, with which a bare datagram would count as a forged one.
    pub fn open_address(&self) -> Option<SocketAddr> {
        (!self.sealed).then_some(self.own)
    }

    /// The group and the interface.
    pub fn group(&self) -> String {
        format!("group {} on {}", self.group, self.interface)
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

    /// What can be done where no interface but loopback has an address of the group's family.
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

    /// Lines about what was chosen for want of a route or of IPv4, where this group was wanted.
    pub fn remarks(&self, wanted: SocketAddr) -> Vec<String> {
        let mut lines: Vec<String> = self.loopback().into_iter().collect();
        if self.choice == Choice::Only {
            let (ip, interface) = (self.group.ip(), &self.interface);
            lines.push(format!(
                "there is no route to {ip}: using {interface}, the only interface that does multicast"
            ));
        }
        if wanted.is_ipv4() && self.group.is_ipv6() {
            let (ip, port) = (self.group.ip(), self.group.port());
            lines.push(format!(
                "no interface here has an IPv4 address: using the IPv6 group [{ip}]:{port} on {}; ends that have IPv4 \
                 need --group '[{ip}]:{port}'",
                self.interface
            ));
        }
        lines
    }

    /// What a sender that heard nobody knows, and then what it should look at.
    pub fn nobody(&self, ttl: u8, evidence: &Evidence) -> String {
        if ttl == 0 {
            return "with --ttl 0 nothing leaves this host".to_owned();
        }
        let head = format!("nobody answered in {}", self.group());
        let known = evidence.known();
        if !known.is_empty() {
            return format!("{head}: {}", known.join("; "));
        }
        let sent = match evidence.received {
            0 => format!("{} datagrams went out, none came back", evidence.sent),
            came => format!("{} datagrams went out, {came} came, no answer among them", evidence.sent),
        };
        let running = format!("is `carillon recv` running with this --group{}", self.keyed());
        if self.interface.loopback {
            return format!(
                "{head}, which reaches this host only: {sent}; {running}, here{}?",
                self.instead()
            );
        }
        let routers = match ttl {
            1 => "which --ttl 1 does not pass".to_owned(),
            _ => format!("--ttl is {ttl}"),
        };
        format!(
            "{head}: {sent}; {running}, on this network{}? if so, `carillon doctor` at both ends finds what is between: \
             a firewall, a switch, a router ({routers})",
            self.instead(),
        )
    }

    /// What a receiver that was not invited is waiting for, and what it has heard instead.
    pub fn uninvited(&self, heard: &[String], evidence: &Evidence) -> String {
        let what = format!("`carillon send` running with this --group{}", self.keyed());
        self.unheard("no sender", &what, heard, evidence)
    }

    /// What a further sender that found no session should look at.
    pub fn no_organiser(&self, evidence: &Evidence) -> String {
        let head = format!("nobody has invited to a session in {}", self.group());
        self.explained(&head, "`carillon send` without --join running with this --group", &[], evidence)
    }

    /// What a further sender that was not invited is waiting for, and what it has heard instead.
    pub fn uninvited_sender(&self, heard: &[String], evidence: &Evidence) -> String {
        self.unheard(
            "no session",
            "`carillon send` without --join running with this --group",
            heard,
            evidence,
        )
    }

    fn unheard(&self, who: &str, what: &str, heard: &[String], evidence: &Evidence) -> String {
        let head = format!("{who} is heard in {}, still waiting", self.group());
        self.explained(&head, what, heard, evidence)
    }

    /// A silence, with what is known of it, or else with what to look at.
    fn explained(&self, head: &str, what: &str, heard: &[String], evidence: &Evidence) -> String {
        // What came instead says it better than its number.
        let known = if heard.is_empty() { evidence.known() } else { heard.to_vec() };
        if !known.is_empty() {
            return format!("{head}, but {}", known.join("; "));
        }
        let instead = self.instead();
        if self.interface.loopback {
            let name = &self.interface.name;
            return format!(
                "{head}: nothing has come, and {name} reaches this host only; is {what}, here{instead}?"
            );
        }
        format!(
            "{head}: nothing has come; is {what}, on this network{instead}? if so, `carillon doctor` at both ends finds \
             what is between: a firewall, a switch, a router (its --ttl)"
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
                format!("{who} invites, but sending to it fails: {failure}; {}", failure.advice())
            }
            None => format!(
                "{who} invites, but does not answer: do firewalls pass UDP from {} to it, and back? has it a route to \
                 here? `carillon doctor` at both ends tells",
                self.own
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
            "{name} has started, but its data does not come: if the network between does not carry datagrams of \
             {bytes} bytes, it should send with --datagram 1472"
        )
    }

    /// A receiver has taken nothing at all although it joined.
    pub fn took_nothing(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        bytes: usize,
        failure: Option<&SendFailure>,
    ) -> String {
        let who = host(name, address);
        if let Some(failure) = failure {
            return format!("{who} took nothing: sending to it fails: {failure}; {}", failure.advice());
        }
        match bytes > USUAL_DATAGRAM {
            true => format!(
                "{who} took nothing: if the network between does not carry datagrams of {bytes} bytes, send with \
                 --datagram {USUAL_DATAGRAM}"
            ),
            false => format!(
                "{who} joined and took nothing: is it still running? do firewalls pass UDP from {} to it?",
                self.own
            ),
        }
    }

    /// Another sender was heard.
    pub fn rival(&self, name: &str, address: Option<SocketAddr>) -> String {
        format!(
            "another sender, {}, uses {}: each receiver joins the one it hears first; give one of the two, and its \
             receivers, another --group",
            host(name, address),
            self.group(),
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

/// A machine by name and address.
pub fn host(name: &str, address: Option<SocketAddr>) -> String {
    match address {
        Some(address) => format!("{} ({address})", shown(name)),
        None => shown(name).into_owned(),
    }
}

/// A receiver's failure and what to do about it.
pub fn explain(failure: &ReceiverFailure) -> String {
    let advice = match failure {
        ReceiverFailure::Refused(RefuseReason::AlreadyStarted, _) => {
            ": start receivers before the sender, or with --keep-going for the next transfer"
        }
        ReceiverFailure::Refused(RefuseReason::NameTaken, _) => ": choose another --name",
        ReceiverFailure::Refused(RefuseReason::NotExpected, _) => ": choose a --name that it does expect",
        ReceiverFailure::Refused(RefuseReason::Done, _) => ", from another process that spoke for it",
        ReceiverFailure::Refused(RefuseReason::Later, _) => {
            ", which cannot take back what was written to one output: receive into a directory"
        }
        ReceiverFailure::SenderSilent => ": is it still running, and the network between?",
        ReceiverFailure::Refused(RefuseReason::Full, _) => ": use another --group for some of the receivers",
        ReceiverFailure::Refused(RefuseReason::Expelled, _) | ReceiverFailure::Expelled => {
            ": too slow, or not heard; see the sender's report and its --timeout"
        }
        ReceiverFailure::Left(reason) => return reason.clone(),
        _ => "",
    };
    format!("{failure}{advice}")
}

/// What to do about a receiver that is not served.
pub fn advice(reason: &UnservedReason) -> &'static str {
    match reason {
        UnservedReason::Refused(RefuseReason::NotExpected) => ": add it to --expect",
        UnservedReason::Refused(RefuseReason::NameTaken) => ": give it a --name of its own",
        UnservedReason::Refused(RefuseReason::AlreadyStarted) => LATE,
        UnservedReason::Declined(text) if text.starts_with("came after") => LATE,
        UnservedReason::Release(_) => RELEASES,
        UnservedReason::Refused(_) | UnservedReason::Declined(_) => "",
        UnservedReason::Left(_) | UnservedReason::Silent(_) => ": see what it says itself",
    }
}

/// Advice where two releases meet.
const RELEASES: &str = ": install the same release on both";

/// What a report says of a session without a key.
pub const OPEN: &str = "open: anybody on the network can read this and take part; a key closes it (--key-file, the same at \
     all ends)";

/// What a report without a list of receivers says about that.
pub const NO_RECEIVER_LIST: &str = "No receiver list was given (--expect, --receivers): machines that never joined are not in \
     this report.";

/// What a report with a protocol that does not wait for its receivers says about that.
pub fn waits_for_nobody(protocol: &str) -> String {
    format!(
        "{protocol} waits for nobody while it sends: a receiver that falls behind by more than the sender keeps \
         does not get everything"
    )
}

/// What frames of 1500 bytes carry.
const USUAL_DATAGRAM: usize = 1472;
const LATE: &str = ": send again for it; to wait for it next time, say --receivers or --expect";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
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
