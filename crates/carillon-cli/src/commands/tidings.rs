//! What a sender says besides its report: who is not served, and who else sends.

use std::collections::BTreeSet;

use carillon_core::NodeId;
use carillon_net::Endpoint;
use carillon_proto::session::{Member, MemberOutcome, SenderSession};
use serde_json::{Value, json};

use crate::delivery::{SenderBars, Whereabouts, advice, host, print_json, say};

/// Tells each thing once, when it is found.
#[derive(Debug)]
pub struct Tidings {
    place: Whereabouts,
    json: bool,
    told: BTreeSet<(NodeId, String)>,
    rivals: usize,
}

impl Tidings {
    /// Nothing has been told yet.
    pub fn new(endpoint: &Endpoint, json: bool) -> Tidings {
        Tidings { place: Whereabouts::of(endpoint), json, told: BTreeSet::new(), rivals: 0 }
    }

    /// Tells what is new.
    pub fn tell(
        &mut self,
        session: &SenderSession,
        endpoint: &Endpoint,
        bars: Option<&SenderBars>,
    ) -> anyhow::Result<()> {
        for rival in session.rivals().iter().skip(self.rivals) {
            let address = endpoint.peer(rival.node);
            self.say(&self.place.rival(&rival.name, address), bars);
            if self.json {
                print_json(&json!({ "event": "rival", "sender": rival.name, "address": address }))?;
            }
        }
        self.rivals = session.rivals().len();
        for one in session.unserved() {
            let (reason, address) = (one.reason.to_string(), endpoint.peer(one.node));
            // Strangers can make up as many as they like.
            if self.told.len() >= MOST_TOLD || !self.told.insert((one.node, reason.clone())) {
                continue;
            }
            let who = host(&one.name, address);
            self.say(&format!("{who} is not served: {reason}{}", advice(&one.reason)), bars);
            if self.json {
                let name = &one.name;
                print_json(
                    &json!({ "event": "unserved", "receiver": name, "address": address, "reason": reason }),
                )?;
            }
        }
        Ok(())
    }

    /// Says a line without breaking the bars.
    pub fn say(&self, line: &str, bars: Option<&SenderBars>) {
        match bars {
            Some(bars) => bars.say(line),
            None => say(line),
        }
    }

    /// What to look at when nobody has answered.
    pub fn nobody(&self, ttl: u8) -> String {
        self.place.nobody(ttl)
    }

    /// What may be the matter with members that were there and took nothing.
    pub fn took_nothing(&self, session: &SenderSession, endpoint: &Endpoint, datagram: usize) {
        let lost = |member: &&Member| member.bytes == 0 && matches!(member.outcome, MemberOutcome::Lost(_));
        if !endpoint.interface().loopback {
            for member in session.members().iter().filter(lost).take(MOST_TOLD) {
                let address = endpoint.peer(member.node);
                say(self.place.took_nothing(&member.name, address, datagram));
            }
        }
    }

    /// Those who are not served, for the report.
    pub fn unserved_json(session: &SenderSession, endpoint: &Endpoint) -> Value {
        let one = session.unserved().iter().map(|one| {
            let (address, reason) = (endpoint.peer(one.node), one.reason.to_string());
            json!({ "name": one.name, "address": address, "reason": reason })
        });
        one.collect()
    }

    /// The other senders, for the report.
    pub fn rivals_json(session: &SenderSession, endpoint: &Endpoint) -> Value {
        let one = session.rivals().iter();
        one.map(|one| json!({ "name": one.name, "address": endpoint.peer(one.node) })).collect()
    }

    /// Those who are not served, as rows of the table.
    pub fn unserved_rows(session: &SenderSession, endpoint: &Endpoint) -> Vec<Vec<String>> {
        let none = || "-".to_owned();
        let row = |name: String, why: String| {
            vec![name, none(), none(), none(), none(), format!("not served: {why}")]
        };
        let mut rows: Vec<_> = session
            .unserved()
            .iter()
            .map(|one| row(host(&one.name, endpoint.peer(one.node)), one.reason.to_string()))
            .collect();
        if session.more_unserved() > 0 {
            rows.push(row(format!("and {} more", session.more_unserved()), "not listed".to_owned()));
        }
        rows
    }
}

/// Lines about receivers that are not served; the report has the rest.
const MOST_TOLD: usize = 64;
