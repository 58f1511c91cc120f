//! Output of `carillon send`: progress and report.

use std::time::Duration;

use carillon_net::Endpoint;
use carillon_session::{MemberOutcome, MemberRole, RefuseReason, SenderPhase, UnservedReason};
use carillon_transfer::files::{Presence, shown, shown_path};
use carillon_transfer::{Deleted, Outcome, Path, Preview, ReceiverReport, SendEvent, SendReport, SendRun};
use serde_json::{Value, json};

use super::args::Args;
use crate::commands::sender_notices::SenderNotices;
use crate::delivery::{
    Human, NO_RECEIVER_LIST, OPEN, PlainProgress, Rate, SenderBars, Ticker, Watch, deleted_json,
    does_not_wait, followed_out_json, host, is_text_terminal, notice, outcome_text, print_json, print_table,
    say_skip_count, seal_drops_json, skipped_json, with_path,
};
use crate::exit::JobFailed;

/// Progress of a transfer: bars, or lines of JSON, and notices.
pub struct Screen<'a> {
    args: &'a Args,
    bars: Option<SenderBars>,
    sender_notices: &'a SenderNotices,
    progress: Ticker,
    screen: Ticker,
    /// Lines, where there is no terminal.
    plain: Option<PlainProgress>,
    /// True if the reason of a wait for more receivers was printed.
    has_said_wait: bool,
}

impl<'a> Screen<'a> {
    /// Creates the output of this transfer.
    pub fn new(run: &SendRun<Watch>, args: &'a Args, sender_notices: &'a SenderNotices) -> Self {
        let shows = is_text_terminal() && !args.network.json;
        let total = run.driver().application().manifest().bytes();
        Screen {
            args,
            bars: shows.then(|| SenderBars::new(total)),
            sender_notices,
            progress: Ticker::new(PROGRESS_INTERVAL),
            screen: Ticker::new(SCREEN_INTERVAL),
            plain: (!shows && !args.network.json && !args.stream).then(PlainProgress::default),
            has_said_wait: false,
        }
    }

    /// Prints the news of a step.
    pub fn turn(&mut self, run: &mut SendRun<Watch>) -> anyhow::Result<()> {
        for event in run.take_events() {
            self.tell(run, event)?;
        }
        for change in run.driver_mut().endpoint_mut().take_interface_changes() {
            self.sender_notices.interface(&change, self.bars.as_ref())?;
        }
        let now = run.driver().now();
        if self.args.network.json && self.progress.ready(now) {
            print_progress(run)?;
        }
        if self.screen.ready(now) {
            self.show(run);
            self.say_progress(run);
        }
        Ok(())
    }

    /// Says how far it is where there is no terminal.
    fn say_progress(&mut self, run: &SendRun<Watch>) {
        let Some(plain) = &mut self.plain else { return };
        let (session, now) = (run.driver().machine(), run.driver().now());
        let receivers = match session.members().len() {
            1 => "1 receiver".to_owned(),
            count => format!("{count} receivers"),
        };
        match session.phase() {
            SenderPhase::Running => {
                let outgoing = run.driver().application();
                let total = outgoing.manifest().bytes();
                let active =
                    session.members().iter().filter(|member| member.outcome == MemberOutcome::Active);
                let slowest =
                    active.filter(|member| member.part != MemberRole::Helps).map(|member| member.bytes).min();
                let line = match slowest {
                    Some(bytes) => plain
                        .line(now, bytes, total)
                        .map(|bytes| format!("sending to {receivers}: the slowest has {bytes}")),
                    None => plain.line(now, outgoing.bytes(), total).map(|bytes| format!("sent {bytes}")),
                };
                line.into_iter().for_each(notice);
            }
            SenderPhase::Gathering if plain.is_due(now) => {
                notice(format_args!("waiting for receivers: {receivers} joined"));
            }
            _ => {}
        }
    }

    /// A catch-up session follows.
    pub fn goes_again(&mut self, run: &SendRun<Watch>) -> anyhow::Result<()> {
        let names: Vec<&str> = run.wanting().iter().map(String::as_str).collect();
        let missed = run.missed();
        if self.args.network.json {
            let missed: Vec<&String> = missed.keys().collect();
            return print_json(&json!({ "event": "further", "receivers": names, "missed": missed }));
        }
        let longest = missed.values().max().copied().unwrap_or_default().as_secs_f64();
        let missed: Vec<&str> = missed.keys().map(String::as_str).collect();
        let line = match names.is_empty() {
            _ if self.args.stream => format!("the stream pauses to admit {}", names.join(", ")),
            true => format!("waiting {longest:.0} s in case {} comes back", missed.join(", ")),
            false => format!("catch-up session for {}", names.join(", ")),
        };
        self.sender_notices.notice(&shown(&line), self.bars.as_ref());
        Ok(())
    }

    /// Takes everything off the screen.
    pub fn clear(&mut self) {
        if let Some(bars) = self.bars.take() {
            bars.clear();
        }
    }

    fn tell(&mut self, run: &SendRun<Watch>, event: SendEvent) -> anyhow::Result<()> {
        let json = self.args.network.json;
        match event {
            SendEvent::Rival { name, address } => {
                self.sender_notices.rival(&name, address, self.bars.as_ref())
            }
            SendEvent::Unserved { name, address, reason: UnservedReason::Refused(RefuseReason::Later) }
                if self.args.stream =>
            {
                self.sender_notices.late(&name, address, self.bars.as_ref())
            }
            SendEvent::Unserved { name, address, reason } => {
                self.sender_notices.unserved(&name, address, &reason, self.bars.as_ref())
            }
            SendEvent::Shorter { datagram, name } if json => {
                print_json(&json!({ "event": "shorter", "datagram": datagram, "receiver": name }))
            }
            SendEvent::Shorter { datagram, name } => {
                let longest = run.facts().datagram;
                let line = format!(
                    "datagrams of {datagram} bytes, not of {longest}: no longer ones come to {}",
                    shown(&name)
                );
                self.sender_notices.notice(&line, self.bars.as_ref());
                Ok(())
            }
            SendEvent::Unreached { datagram, name } if json => {
                print_json(&json!({ "event": "unreached", "datagram": datagram, "receiver": name }))
            }
            SendEvent::Unreached { datagram, name } => {
                let line = format!(
                    "{} is heard and acknowledges no data: a catch-up session serves it with datagrams of {datagram} bytes",
                    shown(&name)
                );
                self.sender_notices.notice(&line, self.bars.as_ref());
                Ok(())
            }
            SendEvent::Missing { names, more, joined } => {
                self.sender_notices.missing(&names, more, joined, run.driver().now(), self.bars.as_ref())
            }
            SendEvent::Started => {
                self.warn_of_small_buffers(run);
                Ok(())
            }
            SendEvent::Left { name } if json => print_json(&json!({ "event": "left", "receiver": name })),
            SendEvent::Joined { name, address, .. } if json => {
                print_json(&json!({ "event": "joined", "receiver": name, "address": address }))
            }
            SendEvent::Joined { name, .. } => {
                self.say_wait(&name, run);
                Ok(())
            }
            SendEvent::Gone { name, after, waited, outcome } if json => print_json(&json!({
                "event": "gone",
                "receiver": name,
                "seconds": after.as_secs_f64(),
                "waited_s": waited.as_secs_f64(),
                "outcome": outcome.name(),
                "reason": outcome.reason(),
            })),
            _ => Ok(()),
        }
    }

    /// Says for how long the sender waits for more receivers after the first one, if it does not know how many come.
    fn say_wait(&mut self, first: &str, run: &SendRun<Watch>) {
        if self.has_said_wait || self.plain.is_none() || !self.args.is_open() {
            return;
        }
        let now = run.driver().now();
        let wait = run.driver().machine().starts_at().map(|start| start.since(now));
        // The machine was driven until now, so the rest is rounded to the time that was meant.
        let wait = wait.map(|wait| (wait.as_secs_f64() * 10.0).round() / 10.0);
        let Some(wait) = wait.filter(|&wait| wait >= NOTICED_WAIT) else { return };
        self.has_said_wait = true;
        notice(format_args!(
            "{} joined: starting in {} s, in case more receivers join. Name them with --expect, and the transfer starts \
             when all have joined",
            shown(first),
            wait
        ));
    }

    /// Warns about receivers with socket buffers smaller than the window, which will lose datagrams.
    fn warn_of_small_buffers(&self, run: &SendRun<Watch>) {
        let Some(window) = run.facts().window_bytes else { return };
        for member in run.driver().machine().members() {
            if u64::from(member.receive_buffer) < window {
                let line = format!(
                    "{} can hold {} of the {} that may be under way: expect losses; enlarge its \
                     net.core.rmem_max, or --set a smaller window",
                    host(&member.name, run.driver().endpoint().peer(member.node)),
                    Human(member.receive_buffer.into()),
                    Human(window)
                );
                self.sender_notices.notice(&line, self.bars.as_ref());
            }
        }
    }

    fn show(&mut self, run: &SendRun<Watch>) {
        let Some(bars) = &mut self.bars else { return };
        let session = run.driver().machine();
        let message = match session.phase() {
            SenderPhase::Gathering => {
                let (joined, missing) = (session.members().len(), session.missing());
                match (self.args.receivers, missing.is_empty()) {
                    (_, false) => format!("waiting for {}", missing.join(", ")),
                    (Some(count), true) => format!("{joined} of {count} receivers have joined"),
                    (None, true) if self.args.one_way => "announcing it".to_owned(),
                    (None, true) if joined == 0 => "waiting for receivers".to_owned(),
                    (None, true) => "waiting for more receivers".to_owned(),
                }
            }
            SenderPhase::Assembling => "introducing the members to each other".to_owned(),
            SenderPhase::Running => "sending".to_owned(),
            _ => "waiting for reports".to_owned(),
        };
        bars.show(&message, run.driver().application().bytes(), session.members());
    }
}

fn print_progress(run: &SendRun<Watch>) -> anyhow::Result<()> {
    let (outgoing, session) = (run.driver().application(), run.driver().machine());
    print_json(&json!({
        "event": "progress",
        "phase": session.phase().name(),
        "bytes": outgoing.bytes(),
        "total": outgoing.manifest().bytes(),
        "receivers": session.members().len(),
        "missing": session.missing(),
        "seconds": run.since_start(run.driver().now()).as_secs_f64(),
    }))
}

/// Report of a transfer.
pub struct Report<'a> {
    report: SendReport,
    args: &'a Args,
    sender_notices: &'a SenderNotices,
    endpoint: &'a Endpoint,
    /// Bytes of the longest datagram.
    datagram: usize,
}

impl<'a> Report<'a> {
    /// Creates the report of this transfer.
    pub fn of(run: &'a SendRun<Watch>, args: &'a Args, sender_notices: &'a SenderNotices) -> Self {
        let (endpoint, datagram) = (run.driver().endpoint(), run.facts().datagram);
        Report { report: run.report(), args, sender_notices, endpoint, datagram }
    }

    /// Says it; `broken` if an error of this end is said as well.
    pub fn print(&self, broken: bool, interrupted: bool) -> anyhow::Result<()> {
        let report = &self.report;
        for name in &report.unable {
            notice(format_args!("{} cannot say what it has: everything was sent", shown(name)));
        }
        if self.args.network.json {
            print_json(&self.json())?;
        } else if report.joined() > 0 || !report.unserved.is_empty() {
            print_table(&self.table())?;
            if self.expected().is_null() && report.joined() > 0 {
                println!("{NO_RECEIVER_LIST}");
            }
            if self.endpoint.seal_bytes() == 0 {
                println!("{OPEN}");
            }
            if !report.waits {
                println!("{}", does_not_wait(report.protocol));
            }
        }
        if report.silent && report.receivers.is_empty() && report.failure.is_none() && !self.args.network.json
        {
            println!(
                "sent one way: {} in {:.2} s; the sender cannot know which receivers have it",
                Human(report.bytes),
                report.time.as_secs_f64()
            );
            if self.endpoint.seal_bytes() == 0 {
                println!("{OPEN}");
            }
        }
        if !self.endpoint.interface().loopback {
            self.sender_notices.took_nothing(&report.receivers, self.datagram, self.endpoint);
        }
        for one in &report.helpers {
            if let Some(reason) = one.lost.as_ref().filter(|_| !self.args.network.json) {
                notice(format_args!("the helper {} is lost: {reason}; others did without it", one.name));
            }
        }
        for line in &report.omitted.withdrawn {
            notice(format_args!("{line}: not delivered"));
        }
        say_skip_count(&report.omitted.skipped);
        match &report.failure {
            Some(failure) if !broken => {
                let advice = match report.joined() == 0 && report.unserved.is_empty() && !interrupted {
                    true => {
                        format!("; {}", self.sender_notices.nobody(self.args.settings().hops, self.endpoint))
                    }
                    false => String::new(),
                };
                notice(format_args!("not delivered: {failure}{advice}"));
            }
            _ => {}
        }
        if report.is_success() { Ok(()) } else { Err(JobFailed.into()) }
    }

    /// Receivers that the sender waited for: names, a number, or null.
    fn expected(&self) -> Value {
        match (&self.args.expect, self.args.receivers) {
            (Some(names), _) => json!(names),
            (None, count) => json!(count),
        }
    }

    fn json(&self) -> Value {
        let report = &self.report;
        let receivers: Vec<_> = report.receivers.iter().map(receiver_json).collect();
        let helpers: Vec<_> =
            report.helpers.iter().map(|one| json!({ "name": one.name, "lost": one.lost })).collect();
        json!({
            "event": "report",
            "protocol": report.protocol,
            "files": report.files,
            "withdrawn": report.omitted.withdrawn,
            "skipped": skipped_json(&report.omitted.skipped),
            "excluded": report.omitted.excluded,
            "followed_out": followed_out_json(&report.omitted.followed_out),
            "bytes": report.bytes,
            "resumed": report.resumed,
            "sessions": report.sessions,
            "messages": report.messages,
            "unable": report.unable,
            "seconds": report.time.as_secs_f64(),
            "goodput_bps": report.goodput,
            "repairs": report.sent.repairs,
            "datagrams_sent": report.sent.datagrams_sent,
            "bytes_sent": report.sent.bytes_sent,
            "receivers": receivers,
            "helpers": helpers,
            "expected": self.expected(),
            "unserved": SenderNotices::unserved_json(report),
            "more_unserved": report.more_unserved,
            "missing": report.missing(),
            "rivals": SenderNotices::rivals_json(report),
            "waits": report.waits,
            "silent": report.silent,
            "failure": report.failure,
            "sealed": self.endpoint.seal_bytes() > 0,
            "seal_drops": seal_drops_json(self.endpoint),
        })
    }

    fn table(&self) -> Vec<Vec<String>> {
        let report = &self.report;
        let head = ["receiver", "path", "bytes", "repairs", "time", "waited", "outcome"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(report.receivers.iter().map(|one| {
            let time = one.time.map(|time| format!("{:.2} s", time.as_secs_f64()));
            vec![
                host(&one.name, one.address),
                path_text(one.path),
                one.bytes.to_string(),
                one.repairs.map_or_else(|| "-".to_owned(), |repairs| repairs.to_string()),
                time.unwrap_or_else(|| "-".to_owned()),
                format!("{:.2} s", one.waited.as_secs_f64()),
                outcome_text(&one.outcome) + &deleted_text(one) + &missed_text(one),
            ]
        }));
        if report.more_missing > 0 {
            let mut row = vec!["-".to_owned(); head.len()];
            row[0] = format!("{} more", report.more_missing);
            row[head.len() - 1] = outcome_text(&Outcome::Missing);
            rows.push(row);
        }
        rows.extend(SenderNotices::unserved_rows(report));
        let unserved = report.unserved.len() as u64 + report.more_unserved;
        let others = if unserved > 0 { format!(", {unserved} not served") } else { String::new() };
        let (verified, goodput) = (report.verified(), Rate(report.goodput));
        let had = match report.resumed {
            0 => String::new(),
            bytes => format!(", all had {} before", Human(bytes)),
        };
        let outcome = format!("{verified} of {} verified{others}{had}, {goodput}", report.expected());
        // The column is shown only if the sender waited for a receiver.
        let waited: Duration = report.receivers.iter().map(|one| one.waited).max().unwrap_or_default();
        // Bytes sent differ from bytes received.
        let most = report.receivers.iter().map(|one| one.bytes).max().unwrap_or_default();
        let bytes = if verified > 0 { report.bytes } else { most.min(report.bytes) };
        rows.push(vec![
            "all".to_owned(),
            "-".to_owned(),
            bytes.to_string(),
            report.sent.repairs.to_string(),
            format!("{:.2} s", report.time.as_secs_f64()),
            format!("{:.2} s", waited.as_secs_f64()),
            outcome,
        ]);
        if waited.is_zero() {
            rows.iter_mut().for_each(|row| _ = row.remove(WAITED_COLUMN));
        }
        // So is this column, only if a receiver has asked for copies.
        if report.receivers.iter().all(|one| one.path.is_none()) {
            rows.iter_mut().for_each(|row| _ = row.remove(PATH_COLUMN));
        }
        rows
    }
}

fn receiver_json(one: &ReceiverReport) -> Value {
    json!({
        "name": one.name,
        "address": one.address,
        "path": path_name(one.path),
        "relay": one.path.and_then(|path| path.relay),
        "path_changes": one.path.map_or(0, |path| path.changes),
        "copies_dropped": one.path.map_or(0, |path| path.dropped),
        "sends": one.sends,
        "bytes": one.bytes,
        "first_message": one.stream.and_then(|part| part.first),
        "missed_messages": one.stream.map(|part| part.missed),
        "restarts": one.stream.map(|part| part.restarts),
        "had": one.had.map(had_json),
        "deleted": one.deletes.as_ref().filter(|_| one.outcome == Outcome::Verified).map(deleted_json),
        "repairs": one.repairs,
        "loss": one.loss,
        "goodput_bps": one.goodput(),
        "seconds": one.time.map(|time| time.as_secs_f64()),
        "waited_s": one.waited.as_secs_f64(),
        "outcome": one.outcome.name(),
        "reason": one.outcome.reason(),
    })
}

fn path_name(path: Option<Path>) -> &'static str {
    match path {
        Some(Path { relay: Some(_), .. }) => "relay",
        Some(Path { unicast: true, .. }) => "unicast",
        _ => "multicast",
    }
}

/// Path of the data to a receiver, and how often it changed.
fn path_text(path: Option<Path>) -> String {
    let name = match path.and_then(|path| path.relay) {
        Some(relay) => format!("relay {relay}"),
        None => path_name(path).to_owned(),
    };
    match path.map_or(0, |path| path.changes) {
        // The relay's own path changed, not the receiver's.
        _ if path.is_some_and(|path| path.relay.is_some()) => name,
        0 => name,
        1 => format!("{name}, changed once"),
        count => format!("{name}, changed {count} times"),
    }
}

/// Part of a row about deleted entries.
fn deleted_text(one: &ReceiverReport) -> String {
    match &one.deletes {
        Some(Deleted { count: 1.., .. }) if one.outcome != Outcome::Verified => String::new(),
        Some(Deleted { count: count @ 1.., .. }) => format!(", {count} deleted"),
        _ => String::new(),
    }
}

/// Part of a row about the messages of a stream that a receiver missed.
fn missed_text(one: &ReceiverReport) -> String {
    let Some(part) = one.stream else { return String::new() };
    let again = if part.restarts > 0 { ", started again" } else { "" };
    match (part.missed, part.first) {
        (0, _) => again.to_owned(),
        (missed, Some(0)) => format!("{again}, missed {missed}"),
        (missed, Some(first)) => format!("{again}, from message {first}, missed {missed}"),
        (missed, None) => format!("{again}, missed all {missed} messages"),
    }
}

fn had_json(had: Presence) -> Value {
    json!({
        "files": had.files,
        "bytes": had.bytes,
        "missing_files": had.missing_files,
        "missing_bytes": had.missing_bytes,
    })
}

/// Prints what an update would send.
pub fn print_preview(preview: &Preview, json: bool) -> anyhow::Result<()> {
    if json {
        let receivers = preview.receivers.iter();
        let receivers: Vec<_> = receivers
            .map(|one| {
                json!({
                    "name": one.name,
                    "address": one.address,
                    "had": one.had.map(had_json),
                    "deletes": one.deletes.as_ref().map(deleted_json),
                })
            })
            .collect();
        let files = preview.files.iter().map(|(path, bytes, to)| {
            let names: Vec<&str> = to.iter().map(|&index| preview.receivers[index].name.as_str()).collect();
            with_path(json!({ "bytes": bytes, "receivers": names }), "path", path)
        });
        let files: Vec<_> = files.collect();
        return print_json(&json!({ "event": "preview", "receivers": receivers, "files": files }));
    }
    for (path, bytes, to) in &preview.files {
        let names = to.iter().map(|&index| shown(&preview.receivers[index].name));
        let mut names: Vec<_> = names.collect();
        names.sort();
        let names = names.join(", ");
        println!("{}  {} to {names}", shown_path(path), Human(*bytes));
    }
    for one in &preview.receivers {
        let name = host(&one.name, one.address);
        match one.had {
            Some(had) => println!(
                "{name} has {} of {} files, and is missing {}",
                had.files,
                had.files + had.missing_files,
                Human(had.missing_bytes)
            ),
            None => println!("{name} cannot say what it has: everything would be sent"),
        }
    }
    for one in &preview.receivers {
        let Some(deletes) = one.deletes.as_ref().filter(|deletes| deletes.count > 0) else { continue };
        deletes.paths.iter().for_each(|path| println!("{} deletes {}", shown(&one.name), shown_path(path)));
        println!("{} deletes {} entries", host(&one.name, one.address), deletes.count);
    }
    println!("dry run: nothing was sent");
    Ok(())
}

/// Shortest wait for more receivers that is explained, in seconds.
const NOTICED_WAIT: f64 = 1.0;
/// Column of the report with the time that the sender waited for a receiver.
const WAITED_COLUMN: usize = 5;
/// Column of the report with the path of the data to a receiver.
const PATH_COLUMN: usize = 1;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const SCREEN_INTERVAL: Duration = Duration::from_millis(100);
