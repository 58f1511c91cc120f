//! Output of `carillon recv` during a transfer: progress, events and names of files.

use std::fmt;

use carillon_session::ReceiverPhase;
use carillon_transfer::files::{shown, shown_path};
use carillon_transfer::{ReceiveEvent, ReceiveRun};
use indicatif::ProgressBar;
use serde_json::json;

use crate::delivery::{Human, PlainProgress, Watch, bar_style, notice, print_json, with_path};

/// Names of files for one line: the first ones, and the number of the others.
#[derive(Debug, Default)]
pub(super) struct Names {
    first: Vec<String>,
    pub more: u64,
}

impl Names {
    pub(super) fn push(&mut self, name: String) {
        match self.first.len() < MAX_NAMES {
            true => self.first.push(name),
            false => self.more += 1,
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        Ok(())
    }
}

/// Part of the report line about data from an earlier attempt.
pub(super) fn resumed(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(" ({} were here)", Human(bytes)) }
}

pub(super) fn show(bar: &ProgressBar, run: &ReceiveRun<Watch>) {
    let incoming = run.driver().application();
    let sender = run.driver().machine().sender_name().unwrap_or("a sender");
    let message = match run.phase() {
        ReceiverPhase::Seeking => "waiting for a sender".to_owned(),
        ReceiverPhase::Joining => format!("joining {sender}"),
        ReceiverPhase::Assembling => format!("{sender} introduces the members"),
        _ => format!("from {sender}"),
    };
    if let Some(total) = incoming.total()
        && bar.length() != Some(total)
    {
        bar.set_length(total);
        bar.set_style(bar_style(Some(total)));
    }
    bar.set_message(shown(&message).into_owned());
    bar.set_position(incoming.bytes());
}

/// Prints the sender, once it is known, and each complete file, as JSON.
pub(super) fn print_news(run: &mut ReceiveRun<Watch>) -> anyhow::Result<()> {
    for event in run.take_events() {
        match event {
            ReceiveEvent::Joined { sender, member } => {
                print_json(&json!({ "event": "joined", "sender": sender, "member": member }))?;
            }
            ReceiveEvent::Serving { members } => {
                print_json(&json!({ "event": "serving", "members": members }))?;
            }
            ReceiveEvent::File { sender, path, bytes, digest } => {
                let digest = hex(blake3::Hash::from_bytes(digest));
                let file = json!({ "event": "file", "bytes": bytes, "blake3": digest, "sender": sender });
                print_json(&with_path(file, "path", &path))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Records the names of complete files.
pub(super) fn note_files(run: &mut ReceiveRun<Watch>, files: &mut Names) {
    for event in run.take_events() {
        if let ReceiveEvent::File { path, .. } = event {
            files.push(shown_path(&path));
        }
    }
}

/// Prints progress as lines where stderr is no terminal.
pub(super) fn say_progress(run: &ReceiveRun<Watch>, plain: &mut PlainProgress) {
    let incoming = run.driver().application();
    let begun = incoming.bytes() > 0 || incoming.total().is_some();
    if *run.phase() != ReceiverPhase::Running || !begun || incoming.is_live() {
        return;
    }
    if let Some(bytes) = plain.line(run.driver().now(), incoming.bytes(), incoming.total()) {
        let sender = run.driver().machine().sender_name().unwrap_or("a sender");
        notice(format_args!("receiving from {sender}: {bytes}"));
    }
}

pub(super) fn print_progress(run: &ReceiveRun<Watch>) -> anyhow::Result<()> {
    let incoming = run.driver().application();
    print_json(&json!({ "event": "progress", "bytes": incoming.bytes(), "total": incoming.total() }))
}

/// Ends a service: prints the number of transfers and of failures.
pub(super) fn said_all(json: bool, transfers: u64, failed: u64) -> anyhow::Result<()> {
    if json {
        return print_json(&json!({ "event": "end", "transfers": transfers, "failed": failed }));
    }
    let plural = if transfers == 1 { "" } else { "s" };
    notice(format_args!("interrupted after {transfers} transfer{plural}, {failed} of them failed"));
    Ok(())
}

pub(super) fn hex(digest: blake3::Hash) -> String {
    digest.to_string()
}

/// Maximum number of names in one line.
const MAX_NAMES: usize = 3;
