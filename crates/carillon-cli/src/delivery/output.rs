//! What is shown: tables and JSON lines on stdout, bars on stderr.

use std::fmt;
use std::io::{self, Write as _};

use carillon_core::{Duration, Time};
use carillon_net::Endpoint;
use carillon_proto::session::Member;
use carillon_transfer::Outcome;
use carillon_transfer::files::shown;
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};

use super::words::{say, shown_json};

/// A number of bytes for people.
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HumanBytes(self.0).fmt(f)
    }
}

/// A rate in bits per second for people.
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bps if bps >= 1e9 => write!(f, "{:.2} Gbit/s", bps / 1e9),
            bps if bps >= 1e6 => write!(f, "{:.1} Mbit/s", bps / 1e6),
            bps => write!(f, "{:.1} kbit/s", bps / 1e3),
        }
    }
}

/// One JSON value, one line.
pub fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shown_json(&value.to_string()))?;
    Ok(out.flush()?)
}

/// What was dropped because of its seal.
pub fn seal_drops_json(endpoint: &Endpoint) -> serde_json::Value {
    endpoint
        .stats()
        .seal_drops()
        .into_iter()
        .map(|(name, count)| (name.to_owned(), serde_json::Value::from(count)))
        .collect()
}

/// Members that are gone.
pub fn lost_json(lost: &[(String, String)]) -> serde_json::Value {
    lost.iter().map(|(name, reason)| serde_json::json!({ "name": name, "reason": reason })).collect()
}

/// Rows in aligned columns; the numbers, all but the first and last column, to the right.
pub fn print_table(rows: &[Vec<String>]) -> anyhow::Result<()> {
    let seemly = |row: &Vec<String>| row.iter().map(|cell| shown(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(seemly).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = io::stdout().lock();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match column {
                0 => format!("{cell:width$}"),
                _ if column + 1 == columns => format!("  {cell}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Lets through what comes once in a while only.
#[derive(Debug)]
pub struct Ticker {
    every: Duration,
    next: Time,
}

impl Ticker {
    /// The first call is let through after one interval.
    pub fn new(every: Duration) -> Self {
        Ticker { every, next: Time::ZERO + every }
    }

    /// Whether it is time again.
    pub fn ready(&mut self, now: Time) -> bool {
        let ready = now >= self.next;
        if ready {
            self.next = now + self.every;
        }
        ready
    }
}

/// A bar for so many bytes; a count without an end if it is not known.
pub fn bar(total: Option<u64>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.set_style(bar_style(total));
    bar
}

/// The look of a bar of a known or unknown length.
pub fn bar_style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {bytes} {bytes_per_sec} {elapsed}",
    };
    ProgressStyle::with_template(template).expect("the template is valid")
}

/// The sender's progress: one bar, and a line for each receiver as long as they fit the screen.
#[derive(Debug)]
pub struct SenderBars {
    all: MultiProgress,
    total: ProgressBar,
    lines: Vec<ProgressBar>,
    more: Option<ProgressBar>,
}

impl SenderBars {
    /// For so many bytes.
    pub fn new(total: Option<u64>) -> Self {
        let all = MultiProgress::new();
        let total = all.add(bar(total));
        SenderBars { all, total, lines: Vec::new(), more: None }
    }

    /// Shows this state of things.
    pub fn show(&mut self, message: &str, bytes: u64, members: &[Member]) {
        self.total.set_message(shown(message).into_owned());
        self.total.set_position(bytes);
        let plain = || ProgressStyle::with_template("{msg}").expect("the template is valid");
        let count = members.len().min(SHOWN);
        while self.lines.len() < count {
            self.lines.push(self.all.add(ProgressBar::no_length().with_style(plain())));
        }
        for line in self.lines.drain(count..) {
            self.all.remove(&line);
        }
        for (line, member) in self.lines.iter().zip(members) {
            let text = format!("  {}  {}", member.name, outcome_text(&Outcome::from(&member.outcome)));
            line.set_message(shown(&text).into_owned());
        }
        if members.len() > SHOWN {
            let all = &self.all;
            let more = self.more.get_or_insert_with(|| all.add(ProgressBar::no_length().with_style(plain())));
            more.set_message(format!("  and {} more", members.len() - SHOWN));
        }
    }

    /// Says a line above the bars.
    pub fn say(&self, line: &str) {
        self.all.suspend(|| say(line));
    }

    /// Takes everything off the screen.
    pub fn clear(&self) {
        // Only the look is at stake.
        let _ = self.all.clear();
    }
}

/// What became of a member, in words.
pub fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Receiving | Outcome::Verified => outcome.name().to_owned(),
        Outcome::Failed(reason) | Outcome::Lost(reason) => format!("{}: {reason}", outcome.name()),
        Outcome::Missing => "missing: did not join".to_owned(),
    }
}

/// Receivers with a line of their own.
const SHOWN: usize = 16;
