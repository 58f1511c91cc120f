//! `carillon send --join`: an additional sender in a session that another sender organises.

use std::path::PathBuf;
use std::time::Duration;

use carillon_core::Time;
use carillon_session::{ReceiverFailure, ReceiverPhase, RefuseReason};
use carillon_transfer::files::{Contribution, Manifest};
use carillon_transfer::options::Settings;
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{Bound, JoinOptions, JoinRun, SendOptions, Skipped};
use serde_json::json;

use super::send::Args;
use crate::delivery::{
    EndpointContext, Evidence, Human, Stop, Watch, followed_out_json, lost_json, notice, print_json, record,
    say_skip_count, skipped_json,
};
use crate::exit::JobFailed;

/// Joins the session, sends, and prints the report.
pub fn run(args: &Args, manifest: Manifest, stop: &Stop) -> anyhow::Result<()> {
    let Settings { send: SendOptions { join_timeout, timeout, rate, .. }, hops, .. } = args.settings();
    let Bound { mut endpoint, mut seeds, .. } = args.network.open(true, hops, rate)?;
    let mut watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let mut numbers = args.network.numbers.serve()?;
    let monitor = numbers.monitor();
    let options = JoinOptions { monitor, join_timeout, timeout, rate, ..JoinOptions::default() };
    let mut name = args.network.name();
    let mut second = args.network.second_name();
    let (skipped, followed_out) = (manifest.skipped().to_vec(), manifest.followed_out().to_vec());
    let mut contribution = Contribution::new(manifest, args.stream, endpoint.group(), endpoint.waker());
    loop {
        let mut run = options.open(&name, endpoint, &seeds, contribution, watch)?;
        let stats = run.driver().stats().clone();
        run.driver_mut().observer_mut().inner.listen(true, &stats);
        let mut told = Notices::default();
        run_to_end(&mut run, |run| -> anyhow::Result<RunControl> {
            record(run.driver_mut(), |tally| &mut tally.inner);
            if let Some(line) = told.look(run) {
                notice(line);
            }
            Ok(if stop.asked() { RunControl::Quit("interrupted") } else { RunControl::Continue })
        })?;
        numbers.work_is_over(stop);
        record(run.driver_mut(), |tally| &mut tally.inner);
        // The name is taken, usually by another member on this host.
        let Some(other) = second.take().filter(|_| run.name_is_taken()) else {
            let result = finish(&mut run, args.network.json, &skipped, &followed_out);
            let traced = run.into_parts().1.finish();
            numbers.linger(stop);
            return result.and(traced);
        };
        name = other;
        let begun;
        (endpoint, watch, begun) = run.into_parts();
        let Some(manifest) = begun else { anyhow::bail!("the session ended while it was being joined") };
        contribution = Contribution::new(manifest, args.stream, endpoint.group(), endpoint.waker());
        seeds = seeds.part("again");
    }
}

/// Prints the report.
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
            Some(EndpointContext::of(endpoint).no_organiser(&Evidence::of(endpoint, None)))
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
            notice(format_args!("{name} is gone: {reason}"));
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
            notice(failure);
            Err(JobFailed.into())
        }
    }
}

/// Notices already given while nothing happens.
#[derive(Debug, Default)]
struct Notices {
    uninvited: bool,
    /// Time of the first attempt to join.
    joining: Option<Time>,
    unanswered: bool,
}

impl Notices {
    /// Checks the state of the run; returns a notice if one is due.
    fn look(&mut self, run: &mut JoinRun<Watch>) -> Option<String> {
        let (driver, phase) = (run.driver(), run.phase());
        let (now, session) = (driver.now(), driver.machine());
        let seeking = *phase == ReceiverPhase::Seeking;
        let joining = *phase == ReceiverPhase::Joining;
        self.joining = self.joining.or(Some(now)).filter(|_| joining);
        let (place, address) =
            (|| EndpointContext::of(driver.endpoint()), |node| driver.endpoint().peer(node));
        if self.joining.is_some_and(|since| now.since(since) >= NOTICE_DELAY) && !self.unanswered {
            self.unanswered = true;
            let name = session.sender_name().unwrap_or("the organiser");
            let at = session.sender_node().and_then(address);
            let failure = at.and_then(|at| driver.endpoint().send_failure(at.ip()));
            return Some(place().unanswered(name, at, failure.as_ref()));
        }
        if seeking
            && session.unanswered().is_none()
            && now.since(Time::ZERO) >= NOTICE_DELAY
            && !self.uninvited
        {
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

/// Reason for a failure, and a remedy.
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
            "the organiser does not expect this name: add it to its --expect"
        }
        ReceiverFailure::Refused(RefuseReason::Full, _) => "the session takes no more members",
        // Sessions with several senders have no catch-up sessions.
        ReceiverFailure::Refused(RefuseReason::Later, _) => "a catch-up session will serve this sender",
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

/// Time without progress after which a notice is given.
const NOTICE_DELAY: Duration = Duration::from_secs(3);
