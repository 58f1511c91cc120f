//! `carillon send --join`: a further sender in a session that another one organises.

use std::time::Duration;

use carillon_core::Time;
use carillon_net::{Driver, GROUP};
use carillon_proto::REGISTRY;
use carillon_proto::session::{
    LOCAL_NODE, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig, RefuseReason,
};
use carillon_transfer::files::{Contribution, Manifest, Outgoing};
use serde_json::json;

use super::send::Args;
use crate::delivery::{Human, Stop, Watch, Whereabouts, keep_peers, print_json, random, say, step};
use crate::exit::JobFailed;

/// Joins, sends, and says how it ended.
pub fn run(args: &Args, manifest: Manifest, stop: &Stop) -> anyhow::Result<()> {
    let (mut endpoint, mut seeds) = args.network.open(true, args.ttl, args.rate)?;
    let mut watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let mut name = args.network.name();
    let mut contribution = Contribution::new(manifest, args.stream);
    loop {
        let mut config = ReceiverSessionConfig::new(&name, GROUP, REGISTRY);
        config.silence = args.timeout;
        config.receive_buffer = u32::try_from(endpoint.receive_buffer()).unwrap_or(u32::MAX);
        config.max_datagram = u32::try_from(endpoint.max_datagram()).unwrap_or(u32::MAX);
        config.offers = true;
        config.bit_rate = args.rate.unwrap_or(config.bit_rate);
        config.secret = Some(random()?);
        config.addresses = endpoint.addresses(LOCAL_NODE);
        let session = ReceiverSession::new(config, seeds.clone());
        let driver = Driver::new(endpoint, Box::new(session), contribution, watch);
        let mut part = Part { driver, args };
        let end = part.run(stop)?;
        let taken = ReceiverFailure::Refused(RefuseReason::NameTaken, String::new());
        if end != ReceiverPhase::Failed(taken) || args.network.name.is_some() || name.ends_with(&suffix()) {
            let result = part.finish(&end);
            let traced = part.driver.into_parts().3.finish();
            return result.and(traced);
        }
        // Another member on this host, as a rule.
        name = args.network.name() + &suffix();
        let begun;
        (endpoint, _, begun, watch) = part.driver.into_parts();
        let Some(manifest) = begun.into_manifest() else { anyhow::bail!("the session has changed its mind") };
        contribution = Contribution::new(manifest, args.stream);
        watch.restart();
        seeds = seeds.part("again");
    }
}

/// One attempt to take part.
struct Part<'a> {
    driver: Driver<ReceiverSession, Contribution, Watch>,
    args: &'a Args,
}

impl Part<'_> {
    /// Goes on until the session is over; returns its last phase.
    fn run(&mut self, stop: &Stop) -> anyhow::Result<ReceiverPhase> {
        let mut kept = false;
        let mut leaving = false;
        let mut told = Told::default();
        self.driver.observer_mut().listen(true);
        loop {
            step(&mut self.driver, LONGEST_STEP)?;
            let (phase, now) = (self.driver.machine().phase(), self.driver.now());
            if matches!(phase, ReceiverPhase::Failed(_)) && !leaving {
                // The organiser may still have to be told.
                step(&mut self.driver, Duration::ZERO)?;
            }
            if leaving || matches!(phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
                return Ok(phase);
            }
            if let Some(line) = told.look(&mut self.driver, &phase) {
                say(line);
            }
            let late = phase == ReceiverPhase::Seeking && now.since(Time::ZERO) >= self.args.join_timeout;
            if late || stop.asked() {
                let reason = if late { NOBODY } else { "interrupted" };
                self.driver.machine_mut().leave(now, reason);
                leaving = true;
            }
            if !kept && !self.driver.machine().peers().is_empty() {
                kept = true;
                keep_peers(&mut self.driver);
            }
        }
    }

    fn finish(&mut self, end: &ReceiverPhase) -> anyhow::Result<()> {
        let error = self.driver.application_mut().take_error();
        let (session, contribution) = (self.driver.machine(), self.driver.application());
        let bytes = contribution.outgoing().map_or(0, Outgoing::bytes);
        let failure = match (end, &error) {
            (_, Some(error)) => Some(format!("{error:#}")),
            (ReceiverPhase::Finished, None) => {
                let lines = contribution.outgoing().map_or(&[][..], Outgoing::withdrawn);
                (!lines.is_empty()).then(|| format!("not delivered: {}", lines.join(", ")))
            }
            (ReceiverPhase::Failed(ReceiverFailure::Left(why)), None) if why == NOBODY => {
                Some(Whereabouts::of(self.driver.endpoint()).no_organiser())
            }
            (ReceiverPhase::Failed(failure), None) => Some(explain(failure)),
            (_, None) => Some("the session is not over".to_owned()),
        };
        let lost = session.peers().iter().filter_map(|peer| Some((&peer.name, peer.lost.as_ref()?)));
        let lost: Vec<_> = lost.collect();
        if self.args.network.json {
            let stats = self.driver.stats();
            let lost: Vec<_> =
                lost.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect();
            print_json(&json!({
                "event": "report",
                "outcome": if failure.is_none() { "sent" } else { "failed" },
                "reason": failure,
                "organiser": session.sender_name(),
                "acknowledged": session.report_acknowledged(),
                "bytes": bytes,
                "seconds": contribution.seconds(),
                "lost": lost,
                "datagrams_sent": stats.datagrams_sent,
                "bytes_sent": stats.bytes_sent,
            }))?;
        } else {
            for (name, reason) in lost {
                say(format_args!("{name} is gone: {reason}"));
            }
            if failure.is_none() {
                println!("sent {} in {:.2} s", Human(bytes), contribution.seconds());
            }
        }
        match (error, failure) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(()),
            (None, Some(failure)) => {
                say(failure);
                Err(JobFailed.into())
            }
        }
    }
}

/// What has been said of nothing happening.
#[derive(Debug, Default)]
struct Told {
    uninvited: bool,
    /// Since when it has wished to join.
    joining: Option<Time>,
    unanswered: bool,
}

impl Told {
    /// Looks what is happening; returns what is to be said.
    fn look(
        &mut self,
        driver: &mut Driver<ReceiverSession, Contribution, Watch>,
        phase: &ReceiverPhase,
    ) -> Option<String> {
        let (now, session) = (driver.now(), driver.machine());
        let seeking = *phase == ReceiverPhase::Seeking;
        let joining = *phase == ReceiverPhase::Joining;
        self.joining = self.joining.or(Some(now)).filter(|_| joining);
        let (place, address) = (|| Whereabouts::of(driver.endpoint()), |node| driver.endpoint().peer(node));
        if self.joining.is_some_and(|since| now.since(since) >= LONG) && !self.unanswered {
            self.unanswered = true;
            let name = session.sender_name().unwrap_or("the organiser");
            return Some(place().unanswered(name, session.sender_node().and_then(address)));
        }
        if seeking && session.unanswered().is_none() && now.since(Time::ZERO) >= LONG && !self.uninvited {
            self.uninvited = true;
            return Some(place().uninvited_sender(&driver.observer().strangers(driver.endpoint())));
        }
        if !seeking {
            driver.observer_mut().listen(false);
        }
        None
    }
}

/// What tells members of one host apart that were given no name.
fn suffix() -> String {
    format!("-{}", std::process::id())
}

/// A failure in the words of a sender, and what to do about it.
fn explain(failure: &ReceiverFailure) -> String {
    let sentence = match failure {
        ReceiverFailure::Refused(RefuseReason::AlreadyStarted, _) => {
            "the session started without this sender: start further senders before all have joined, \
             or make the organiser wait for them with --receivers or --expect"
        }
        ReceiverFailure::Refused(RefuseReason::NameTaken, _) => {
            "another member has joined under the same name: choose another --name"
        }
        ReceiverFailure::Refused(RefuseReason::NotExpected, _) => {
            "the organiser expects nobody of this name: add it to its --expect"
        }
        ReceiverFailure::Refused(RefuseReason::Full, _) => "the session takes no more members",
        ReceiverFailure::Refused(RefuseReason::Nonce, _) => "the organiser takes it for another",
        ReceiverFailure::Refused(RefuseReason::Expelled, _) | ReceiverFailure::Expelled => {
            "the organiser has given this sender up"
        }
        ReceiverFailure::SenderSilent => "the organiser has fallen silent before all was through",
        ReceiverFailure::Aborted(reason) => {
            return format!("the organiser aborted the session: {reason}");
        }
        ReceiverFailure::BadInvitation(reason) => {
            return format!("this sender cannot take part: {reason} (the organiser's --protocol)");
        }
        ReceiverFailure::Left(reason) => reason,
    };
    sentence.to_owned()
}

/// Why it leaves if there is no session.
const NOBODY: &str = "no session";
/// So long it waits before it says so.
const LONG: Duration = Duration::from_secs(3);
/// No turn waits longer, so that signals are soon noticed.
const LONGEST_STEP: Duration = Duration::from_millis(100);
