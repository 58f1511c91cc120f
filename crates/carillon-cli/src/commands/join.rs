//! `carillon send --join`: a further sender in a session that another one organises.

use std::path::PathBuf;
use std::time::Duration;

use carillon_core::Time;
use carillon_proto::session::{ReceiverFailure, ReceiverPhase, RefuseReason};
use carillon_transfer::files::{Contribution, Manifest};
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{Bound, JoinOptions, JoinRun, Skipped};
use serde_json::json;

use super::send::Args;
use crate::delivery::{
    Evidence, Human, Stop, Watch, Whereabouts, followed_out_json, lost_json, print_json, record, say,
    say_skip_count, skipped_json,
};
use crate::exit::JobFailed;

/// Joins, sends, and says how it ended.
pub fn run(args: &Args, manifest: Manifest, stop: &Stop) -> anyhow::Result<()> {
    let Bound { mut endpoint, mut seeds, .. } = args.network.open(true, args.ttl, args.rate)?;
    let mut watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let mut numbers = args.network.numbers.serve()?;
    let options = JoinOptions {
        monitor: numbers.monitor(),
        join_timeout: args.join_timeout,
        timeout: args.timeout,
        rate: args.rate,
        ..JoinOptions::default()
    };
    let mut name = args.network.name();
    let mut second = args.network.second_name();
    let (skipped, followed_out) = (manifest.skipped().to_vec(), manifest.followed_out().to_vec());
    let mut contribution = Contribution::new(manifest, args.stream, endpoint.group(), endpoint.waker());
    loop {
        let mut run = options.open(&name, endpoint, &seeds, contribution, watch)?;
        let stats = run.driver().stats().clone();
        run.driver_mut().observer_mut().inner.listen(true, &stats);
        let mut told = Told::default();
        run_to_end(&mut run, |run| -> anyhow::Result<RunControl> {
            record(run.driver_mut(), |tally| &mut tally.inner);
            if let Some(line) = told.look(run) {
                say(line);
            }
            Ok(if stop.asked() { RunControl::Quit("interrupted") } else { RunControl::Continue })
        })?;
        numbers.work_is_over(stop);
        record(run.driver_mut(), |tally| &mut tally.inner);
        // Another member on this host, as a rule.
        let Some(other) = second.take().filter(|_| run.name_is_taken()) else {
            let result = finish(&mut run, args.network.json, &skipped, &followed_out);
            let traced = run.into_parts().1.finish();
            numbers.linger(stop);
            return result.and(traced);
        };
        name = other;
        let begun;
        (endpoint, watch, begun) = run.into_parts();
        let Some(manifest) = begun else { anyhow::bail!("the session has changed its mind") };
        contribution = Contribution::new(manifest, args.stream, endpoint.group(), endpoint.waker());
        seeds = seeds.part("again");
    }
}

/// Says how it ended.
fn finish(
    run: &mut JoinRun<Watch>,
    json: bool,
    skipped: &[Skipped],
    followed_out: &[(PathBuf, PathBuf)],
) -> anyhow::Result<()> {
    let error = run.take_error();
    let report = run.report();
    let failure = match (run.phase(), &error) {
        (_, Some(error)) => Some(error.to_string()),
        _ if run.found_no_session() => {
            let endpoint = run.driver().endpoint();
            Some(Whereabouts::of(endpoint).no_organiser(&Evidence::of(endpoint, None)))
        }
        (ReceiverPhase::Failed(failure), None) => Some(explain(failure)),
        (_, None) => report.outcome.err(),
    };
    if json {
        print_json(&json!({
            "event": "report",
            "outcome": if failure.is_none() { "sent" } else { "failed" },
            "reason": failure,
            "organiser": report.organiser,
            "acknowledged": report.acknowledged,
            "bytes": report.bytes,
            "seconds": report.time.as_secs_f64(),
            "lost": lost_json(&report.lost),
            "datagrams_sent": report.datagrams_sent,
            "bytes_sent": report.bytes_sent,
            "skipped": skipped_json(skipped),
            "followed_out": followed_out_json(followed_out),
        }))?;
    } else {
        for (name, reason) in &report.lost {
            say(format_args!("{name} is gone: {reason}"));
        }
        if failure.is_none() {
            println!("sent {} in {:.2} s", Human(report.bytes), report.time.as_secs_f64());
        }
    }
    say_skip_count(skipped);
    match (error, failure) {
        (Some(error), _) => Err(error.into()),
        (None, None) if skipped.iter().all(|skipped| skipped.reason.is_wanted()) => Ok(()),
        (None, None) => Err(JobFailed.into()),
        (None, Some(failure)) => {
            say(failure);
            Err(JobFailed.into())
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
    fn look(&mut self, run: &mut JoinRun<Watch>) -> Option<String> {
        let (driver, phase) = (run.driver(), run.phase());
        let (now, session) = (driver.now(), driver.machine());
        let seeking = *phase == ReceiverPhase::Seeking;
        let joining = *phase == ReceiverPhase::Joining;
        self.joining = self.joining.or(Some(now)).filter(|_| joining);
        let (place, address) = (|| Whereabouts::of(driver.endpoint()), |node| driver.endpoint().peer(node));
        if self.joining.is_some_and(|since| now.since(since) >= LONG) && !self.unanswered {
            self.unanswered = true;
            let name = session.sender_name().unwrap_or("the organiser");
            let at = session.sender_node().and_then(address);
            let failure = at.and_then(|at| driver.endpoint().send_failure(at.ip()));
            return Some(place().unanswered(name, at, failure.as_ref()));
        }
        if seeking && session.unanswered().is_none() && now.since(Time::ZERO) >= LONG && !self.uninvited {
            self.uninvited = true;
            let heard = driver.observer().inner.strangers(driver.endpoint());
            return Some(place().uninvited_sender(&heard, &Evidence::of(driver.endpoint(), None)));
        }
        if !seeking {
            let stats = run.driver().stats().clone();
            run.driver_mut().observer_mut().inner.listen(false, &stats);
        }
        None
    }
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
        // Sessions with further senders have none that follow.
        ReceiverFailure::Refused(RefuseReason::Later, _) => "a further session will serve this sender",
        ReceiverFailure::Refused(RefuseReason::Done, _) => "this sender has sent everything of this job",
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
        ReceiverFailure::Left(reason) | ReceiverFailure::Damaged(reason) => reason,
    };
    sentence.to_owned()
}

/// So long it waits before it says so.
const LONG: Duration = Duration::from_secs(3);
