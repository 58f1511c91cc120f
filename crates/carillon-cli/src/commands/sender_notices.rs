//! Notices of a sender outside its report: unserved receivers, other senders.

use std::net::SocketAddr;

use carillon_core::Time;
use carillon_net::{Endpoint, InterfaceChange};
use carillon_session::{RefuseReason, UnservedReason};
use carillon_transfer::files::shown;
use carillon_transfer::{Outcome, ReceiverReport, SendReport};
use serde_json::{Value, json};

use crate::delivery::{
    EndpointContext, Evidence, SenderBars, advice, host, interface_json, notice, print_json,
};

/// Prints notices about other nodes.
#[derive(Debug)]
pub struct SenderNotices {
    place: EndpointContext,
    json: bool,
}

impl SenderNotices {
    /// Creates the notices of a sender at this endpoint.
    pub fn new(endpoint: &Endpoint, json: bool) -> SenderNotices {
        SenderNotices { place: EndpointContext::of(endpoint), json }
    }

    /// Reports another sender in the group.
    pub fn rival(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        self.notice(&self.place.rival(name, address), bars);
        self.print(&json!({ "event": "rival", "sender": name, "address": address }))
    }

    /// Reports a change of one of several interfaces.
    pub fn interface(&self, change: &InterfaceChange, bars: Option<&SenderBars>) -> anyhow::Result<()> {
        self.notice(&change.to_string(), bars);
        self.print(&interface_json(change))
    }

    /// Reports an unserved receiver.
    pub fn unserved(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        reason: &UnservedReason,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        let (who, text) = (host(name, address), reason.to_string());
        let line = match reason {
            UnservedReason::Refused(RefuseReason::Later) => {
                format!("{who} {text}: a catch-up session serves it")
            }
            _ => format!("{who} is not served: {text}{}", advice(reason)),
        };
        self.notice(&line, bars);
        self.print(&json!({ "event": "unserved", "receiver": name, "address": address, "reason": text }))
    }

    /// Reports a receiver that joins a stream late.
    pub fn late(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        let who = host(name, address);
        self.notice(&format!("{who} came late: it is admitted when the stream pauses for a moment"), bars);
        self.print(&json!({ "event": "late", "receiver": name, "address": address }))
    }

    /// Reports that the transfer starts without these expected receivers and `more` others.
    pub fn missing(
        &self,
        names: &[String],
        more: usize,
        joined: usize,
        now: Time,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        let all = joined + names.len() + more;
        let named = names.iter().take(MAX_NOTICES).map(|name| shown(name).into_owned());
        let unnamed = names.len().saturating_sub(MAX_NOTICES) + more;
        let rest = (unnamed > 0).then(|| format!("{unnamed}{}", if names.is_empty() { "" } else { " more" }));
        let who: Vec<String> = named.chain(rest).collect();
        let waited = now.since(Time::ZERO).as_secs_f64();
        self.notice(
            &format!("{} did not join within {waited:.0} s: sending to {joined} of {all}", who.join(", ")),
            bars,
        );
        self.print(&json!({ "event": "missing", "receivers": names, "more": more, "joined": joined }))
    }

    /// Prints a line without disturbing the progress bars.
    pub fn notice(&self, line: &str, bars: Option<&SenderBars>) {
        match bars {
            Some(bars) => bars.notice(line),
            None => notice(line),
        }
    }

    /// Advice for a sender that got no answer.
    pub fn nobody(&self, ttl: u8, endpoint: &Endpoint) -> String {
        self.place.unanswered_sender(ttl, &Evidence::of(endpoint, None))
    }

    /// Advice about members that joined and took no data.
    pub fn took_nothing(&self, receivers: &[ReceiverReport], datagram: usize, endpoint: &Endpoint) {
        for one in receivers.iter().filter(|one| took_nothing(one)).take(MAX_NOTICES) {
            let failure = one.address.and_then(|address| endpoint.send_failure(address.ip()));
            notice(self.place.took_nothing(&one.name, one.address, datagram, failure.as_ref()));
        }
    }

    /// Unserved receivers, for the JSON report.
    pub fn unserved_json(report: &SendReport) -> Value {
        let one = report
            .unserved
            .iter()
            .map(|one| json!({ "name": one.name, "address": one.address, "reason": one.reason.to_string() }));
        one.collect()
    }

    /// Other senders, for the JSON report.
    pub fn rivals_json(report: &SendReport) -> Value {
        report.rivals.iter().map(|(name, address)| json!({ "name": name, "address": address })).collect()
    }

    /// Unserved receivers, as rows of the table.
    pub fn unserved_rows(report: &SendReport) -> Vec<Vec<String>> {
        let none = || "-".to_owned();
        let row = |name: String, why: String| {
            vec![name, none(), none(), none(), none(), none(), format!("not served: {why}")]
        };
        let unserved = report.unserved.iter();
        let mut rows: Vec<_> =
            unserved.map(|one| row(host(&one.name, one.address), one.reason.to_string())).collect();
        if report.more_unserved > 0 {
            rows.push(row(format!("and {} more", report.more_unserved), "not listed".to_owned()));
        }
        rows
    }

    fn print(&self, line: &Value) -> anyhow::Result<()> {
        if self.json { print_json(line) } else { Ok(()) }
    }
}

/// Maximum number of lines about members that took no data; the report lists all of them.
const MAX_NOTICES: usize = 64;

/// Returns true if a member took no data and was expelled.
fn took_nothing(one: &ReceiverReport) -> bool {
    one.bytes == 0 && matches!(one.outcome, Outcome::Lost(_))
}
