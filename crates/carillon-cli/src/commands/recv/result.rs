//! Result of a transfer, as the command prints it.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use carillon_session::{ReceiverFailure, ReceiverPhase, RefuseReason};
use carillon_transfer::files::{Live, Problem, Sink, shown, shown_path};
use carillon_transfer::{ReceiveReport, STREAM_GOES_ON};
use serde_json::json;

use super::Transfer;
use super::exec::Exec;
use super::output::{Names, hex, resumed};
use crate::delivery::{
    Human, OPEN, Rate, Stop, deleted_json, explain, losses_json, lost_json, notice, paths_json, print_json,
    seal_drops_json, unstored_json, utc_now,
};
use crate::exit::JobFailed;

impl Transfer<'_> {
    /// Reason for a session that ended before the transfer.
    fn failure(&self, failure: &ReceiverFailure) -> Problem {
        let untouched = self.run.driver().machine().member_number().is_none();
        Problem::Transfer(match failure {
            ReceiverFailure::Left(_) if untouched => "interrupted while it waited for a sender".to_owned(),
            ReceiverFailure::Refused(RefuseReason::Later, _) if self.args.stream => {
                match self.run.driver().machine().is_left_for_other_job() {
                    true => "the sender has left the stream for another job".to_owned(),
                    false => "interrupted while it waited to be admitted again".to_owned(),
                }
            }
            failure => explain(failure, false),
        })
    }

    /// Runs the command after a failed transfer; after a complete one it has run.
    pub(super) fn run_after_failure(&self, exec: &Exec, result: &anyhow::Result<()>) {
        let (session, incoming) = (self.run.driver().machine(), self.run.driver().application());
        let (Err(error), Some(sender)) = (result, session.sender_name()) else { return };
        if session.association().is_none() {
            return;
        }
        let mut senders = incoming.senders().filter_map(|sender| sender.result.as_ref()?.as_ref().err());
        let reason = senders.next().cloned().unwrap_or_else(|| error.to_string());
        let job = session.job().unwrap_or_default().0;
        if let Err(text) = exec.failed(job, sender, incoming.files(), incoming.bytes(), &reason) {
            notice(shown(&text));
        }
    }

    /// Prints the report.
    pub(super) fn finish(&mut self, stop: &Stop) -> anyhow::Result<()> {
        let untouched = self.run.driver().machine().member_number().is_none();
        let outcome = self.run.driver_mut().application_mut().take_result();
        let result = match (outcome, self.run.phase()) {
            // An interrupt came while the stream paused.
            (Some(Ok(())), _) if self.run.is_continued() => Err(Problem::Transfer(STREAM_GOES_ON.to_owned())),
            (Some(result), _) => result,
            // An interrupt is the usual end of a waiting service, not a failure.
            (None, ReceiverPhase::Failed(ReceiverFailure::Left(_)))
                if untouched && self.args.keep_going && stop.asked() =>
            {
                return Ok(());
            }
            (None, ReceiverPhase::Failed(failure)) => Err(self.failure(failure)),
            (None, _) => Err(Problem::Transfer("the transfer is incomplete".to_owned())),
        };
        let application = self.run.driver_mut().application_mut();
        for line in application.take_notes() {
            notice(line);
        }
        let report = self.run.report(result.as_ref().map(|_| ()).map_err(ToString::to_string));
        self.say_shortcomings(&report);
        let incoming = self.run.driver().application();
        let (files, bytes) = (report.files, report.bytes);
        let live = match incoming.sink() {
            Some(Sink::Live(live)) => Some(live),
            _ => None,
        };
        if self.args.network.json {
            self.print_report(&report, live)?;
        } else {
            say_report(&report);
        }
        if let Some(live) = live {
            let messages = live.messages();
            let missed = match (report.first, report.missed) {
                (_, 0) => String::new(),
                (0, missed) => format!(", missed {missed}"),
                (first, missed) => format!(" from message {first} on, missed {missed}"),
            };
            match live.digest() {
                Some(digest) => {
                    eprintln!("received {messages} messages{missed}, digest of their order {digest}");
                }
                None => eprintln!("received {messages} messages{missed}, each as soon as it was there"),
            }
        }
        match result {
            Ok(()) => {
                if !self.args.network.json && !self.args.stdout && !self.args.stream {
                    self.say_success(&report);
                }
                Ok(())
            }
            Err(Problem::Transfer(reason) | Problem::Damaged(reason)) => {
                match Some(self.origin()).filter(|origin| self.args.keep_going && !origin.is_empty()) {
                    Some(origin) => notice(format_args!("{origin}: {reason}{}", self.rest(files, bytes))),
                    None => notice(format_args!("{reason}{}", self.rest(files, bytes))),
                }
                // What to do about partly changed files was said above.
                if let Some(kept) = self.run.driver_mut().application_mut().kept()
                    && report.partly_changed.is_empty()
                {
                    notice(format_args!(
                        "{} of it are kept: the same command goes on from there when the same files are sent again",
                        Human(kept)
                    ));
                }
                Err(JobFailed.into())
            }
            Err(Problem::Local(error)) if self.args.keep_going => {
                match self.origin() {
                    origin if origin.is_empty() => notice(&error),
                    origin => notice(format_args!("{origin}: {error}")),
                }
                Err(anyhow!("not every transfer could be written: see above"))
            }
            Err(Problem::Local(error)) => Err(error.into()),
        }
    }

    /// Lists entries and attributes that could not be stored, and partly changed files.
    fn say_shortcomings(&self, report: &ReceiveReport) {
        for (path, reason) in &report.unstored {
            notice(format_args!("{} {reason}: not delivered", shown_path(path)));
        }
        for loss in &report.losses {
            notice(format_args!("cannot store {loss}"));
        }
        for path in &report.partly_changed {
            notice(format_args!(
                "{} is partly changed, neither its old nor its new version: send it again, best with --update",
                shown_path(&self.args.out.join(path))
            ));
        }
    }

    /// Prints the report as JSON.
    fn print_report(&self, report: &ReceiveReport, live: Option<&Live>) -> anyhow::Result<()> {
        let (seconds, goodput) = measured(report);
        let stats = self.run.driver().stats();
        let senders: Vec<_> = report
            .senders
            .iter()
            .map(|sender| {
                json!({
                    "name": sender.name,
                    "files": sender.files,
                    "bytes": sender.bytes,
                    "digest": live.and_then(|live| live.digest_of(&sender.name)).map(hex),
                    "signed_by": sender.signature.map(|by| by.key.to_string()),
                    "signed_at": sender.signature.map(|by| by.seconds()),
                    "outcome": if let Some(Ok(())) = sender.outcome { "verified" } else { "failed" },
                    "reason": sender.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()),
                })
            })
            .collect();
        print_json(&json!({
            "event": "report",
            "outcome": if report.is_success() { "verified" } else { "failed" },
            "reason": report.outcome.as_ref().err(),
            "sender": report.sender,
            "acknowledged": report.acknowledged,
            "files": report.files,
            "messages": live.map(Live::messages),
            "first_message": live.map(|_| report.first),
            "missed_messages": live.map(|_| report.missed),
            "digest": live.and_then(Live::digest).map(hex),
            "senders": senders,
            "device": self.args.device,
            "unstored": unstored_json(&report.unstored),
            "losses": losses_json(&report.losses),
            "partly_changed": paths_json(&report.partly_changed),
            "lost": lost_json(&report.lost),
            "served": report.served,
            "repairs": report.repairs,
            "bytes": report.bytes,
            "resumed": report.resumed,
            "copied": report.copied,
            "deleted": report.deleted.as_ref().map(deleted_json),
            "seconds": seconds,
            "goodput_bps": goodput,
            "datagrams_received": report.datagrams_received,
            "paths": self.run.driver().endpoint().subscription().map(|state| json!({
                "from": state.server.to_string(),
                "unicast": state.unicast,
                "multicasts": state.multicasts,
                "copies": state.copies,
            })),
            "sealed": self.run.driver().endpoint().seal_bytes() > 0,
            "seal_drops": seal_drops_json(self.run.driver().endpoint()),
            "injected_drops": stats.injected_drops,
            "kernel_drops": self.run.driver().endpoint().kernel_drops(),
        }))
    }

    /// Says that everything arrived.
    fn say_success(&mut self, report: &ReceiveReport) {
        let (files, (seconds, goodput)) = (report.files, measured(report));
        let plural = if files == 1 { "" } else { "s" };
        let (origin, time) = match self.args.keep_going {
            true => (format!("{}: ", shown(&self.origin())), format!(" at {}", utc_now())),
            false => (String::new(), String::new()),
        };
        println!(
            "received {origin}{files} file{plural}, {}{} in {seconds:.2} s, verified ({}){time}",
            Human(report.bytes),
            resumed(report.resumed + report.copied),
            Rate(goodput)
        );
        for sender in &report.senders {
            if let Some(by) = sender.signature {
                let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let age = age.saturating_sub(by.seconds());
                println!("signed {age} s ago by {}", by.key);
            }
        }
        let told = std::mem::replace(&mut self.told_open, self.args.keep_going);
        if self.args.network.key_file.is_none() && !told {
            println!("{OPEN}");
        }
    }
}

/// Says what the report has besides the result.
fn say_report(report: &ReceiveReport) {
    if let Some(deleted) = report.deleted.as_ref().filter(|deleted| deleted.count > 0) {
        let mut names = Names::default();
        deleted.paths.iter().for_each(|path| names.push(shown_path(path)));
        names.more += deleted.count - deleted.paths.len() as u64;
        notice(format_args!("deleted {names}"));
    }
    for (name, reason) in &report.lost {
        notice(format_args!("{name} is gone: {reason}"));
    }
    if !report.served.is_empty() {
        notice(shown(&format!("{} repairs for {}", report.repairs, report.served.join(", "))));
    }
}

/// Time of a transfer in seconds, and its goodput in bit/s.
fn measured(report: &ReceiveReport) -> (f64, f64) {
    let seconds = report.time.as_secs_f64();
    let came = report.bytes - (report.resumed + report.copied).min(report.bytes);
    (seconds, if seconds > 0.0 { came as f64 * 8.0 / seconds } else { 0.0 })
}
