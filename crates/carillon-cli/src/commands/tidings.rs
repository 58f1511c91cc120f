//! What a sender says besides its report: who is not served, and who else sends.

use std::net::SocketAddr;

use carillon_core::Time;
use carillon_net::Endpoint;
use carillon_proto::session::{RefuseReason, UnservedReason};
use carillon_transfer::files::shown;
use carillon_transfer::{Outcome, ReceiverReport, SendReport};
use serde_json::{Value, json};

use crate::delivery::{Evidence, SenderBars, Whereabouts, advice, host, print_json, say};

/// Words for what others do.
#[derive(Debug)]
pub struct Tidings {
    place: Whereabouts,
    json: bool,
}

impl Tidings {
    /// Of a sender at this endpoint.
    pub fn new(endpoint: &Endpoint, json: bool) -> Tidings {
        Tidings { place: Whereabouts::of(endpoint), json }
    }

    /// Another sender uses the group.
    pub fn rival(
        &self,
        name: &str,
        address: Option<SocketAddr>,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        self.say(&self.place.rival(name, address), bars);
        self.print(&json!({ "event": "rival", "sender": name, "address": address }))
    }

    /// Somebody is not served.
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
                format!("{who} {text}: a further session serves it")
            }
            _ => format!("{who} is not served: {text}{}", advice(reason)),
        };
        self.say(&line, bars);
        self.print(&json!({ "event": "unserved", "receiver": name, "address": address, "reason": text }))
    }

    /// The transfer starts without receivers that were expected: these, and a number of others.
    pub fn missing(
        &self,
        names: &[String],
        more: usize,
        joined: usize,
        now: Time,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        let all = joined + names.len() + more;
        let named = names.iter().take(MOST_TOLD).map(|name| shown(name).into_owned());
        let unnamed = names.len().saturating_sub(MOST_TOLD) + more;
        let rest = (unnamed > 0).then(|| format!("{unnamed}{}", if names.is_empty() { "" } else { " more" }));
        let who: Vec<String> = named.chain(rest).collect();
        let waited = now.since(Time::ZERO).as_secs_f64();
        self.say(
            &format!("{} did not join within {waited:.0} s: sending to {joined} of {all}", who.join(", ")),
            bars,
        );
        self.print(&json!({ "event": "missing", "receivers": names, "more": more, "joined": joined }))
    }

    /// Says a line without breaking the bars.
    pub fn say(&self, line: &str, bars: Option<&SenderBars>) {
        match bars {
            Some(bars) => bars.say(line),
            None => say(line),
        }
    }

    /// What to look at when nobody has answered.
    pub fn nobody(&self, ttl: u8, endpoint: &Endpoint) -> String {
        self.place.nobody(ttl, &Evidence::of(endpoint, None))
    }

    /// What may be the matter with members that were there and took nothing.
    pub fn took_nothing(&self, receivers: &[ReceiverReport], datagram: usize, endpoint: &Endpoint) {
        for one in receivers.iter().filter(|one| took_nothing(one)).take(MOST_TOLD) {
            let failure = one.address.and_then(|address| endpoint.send_failure(address.ip()));
            say(self.place.took_nothing(&one.name, one.address, datagram, failure.as_ref()));
        }
    }

    /// Those who are not served, for the report.
    pub fn unserved_json(report: &SendReport) -> Value {
        let one = report
            .unserved
            .iter()
            .map(|one| json!({ "name": one.name, "address": one.address, "reason": one.reason.to_string() }));
        one.collect()
    }

    /// The other senders, for the report.
    pub fn rivals_json(report: &SendReport) -> Value {
        report.rivals.iter().map(|(name, address)| json!({ "name": name, "address": address })).collect()
    }

    /// Those who are not served, as rows of the table.
    pub fn unserved_rows(report: &SendReport) -> Vec<Vec<String>> {
        let none = || "-".to_owned();
        let row = |name: String, why: String| {
            vec![name, none(), none(), none(), none(), format!("not served: {why}")]
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

/// Lines about receivers that took nothing; the report has the rest.
const MOST_TOLD: usize = 64;

/// Whether it took nothing and was given up.
fn took_nothing(one: &ReceiverReport) -> bool {
    one.bytes == 0 && matches!(one.outcome, Outcome::Lost(_))
}
