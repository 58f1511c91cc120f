//! Output: tables and JSON lines on stdout, progress bars on stderr.

use std::fmt;
use std::io::{self, Write as _};

use carillon_core::{Duration, Time};
use carillon_net::Endpoint;
use carillon_session::Member;
use carillon_transfer::Outcome;
use carillon_transfer::files::shown;
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};

use super::messages::{notice, shown_json};

/// Number of bytes, formatted for people.
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HumanBytes(self.0).fmt(f)
    }
}

/// Rate in bits per second, formatted for people.
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

/// Prints one JSON value on one line.
pub fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shown_json(&value.to_string()))?;
    Ok(out.flush()?)
}

/// MetricsEndpoint of datagrams dropped because of their seal.
pub fn seal_drops_json(endpoint: &Endpoint) -> serde_json::Value {
    endpoint
        .stats()
        .seal
        .drops()
        .into_iter()
        .map(|(name, count)| (name.to_owned(), serde_json::Value::from(count)))
        .collect()
}

/// Members that left or were expelled, for the JSON report.
pub fn lost_json(lost: &[(String, String)]) -> serde_json::Value {
    lost.iter().map(|(name, reason)| serde_json::json!({ "name": name, "reason": reason })).collect()
}

/// Prints rows in aligned columns. All but the first and last columns are aligned to the right.
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

/// Rate limiter: is ready once in each interval.
#[derive(Debug)]
pub struct Ticker {
    every: Duration,
    next: Time,
}

impl Ticker {
    /// Creates a limiter that is ready for the first time after one interval.
    pub fn new(every: Duration) -> Self {
        Ticker { every, next: Time::ZERO + every }
    }

    /// Returns true if an interval has passed since the last time.
    pub fn ready(&mut self, now: Time) -> bool {
        let ready = now >= self.next;
        if ready {
            self.next = now + self.every;
        }
        ready
    }
}

/// Progress bar with this number of bytes, or a counter if the number is unknown.
pub fn bar(total: Option<u64>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.set_style(bar_style(total));
    bar
}

/// Style of a bar with or without a known length.
pub fn bar_style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {bytes} {bytes_per_sec} {elapsed}",
    };
    ProgressStyle::with_template(template).expect("the template is valid")
}

/// Progress of a sender: one bar, and a line for each receiver while they fit the screen.
#[derive(Debug)]
pub struct SenderBars {
    all: MultiProgress,
    total: ProgressBar,
    lines: Vec<ProgressBar>,
    more: Option<ProgressBar>,
}

impl SenderBars {
    /// Creates the bars for this number of bytes.
    pub fn new(total: Option<u64>) -> Self {
        let all = MultiProgress::new();
        let total = all.add(bar(total));
        SenderBars { all, total, lines: Vec::new(), more: None }
    }

    /// Shows the current state.
    pub fn show(&mut self, message: &str, bytes: u64, members: &[Member]) {
        self.total.set_message(shown(message).into_owned());
        self.total.set_position(bytes);
        let plain = || ProgressStyle::with_template("{msg}").expect("the template is valid");
        let count = members.len().min(MAX_RECEIVER_LINES);
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
        if members.len() > MAX_RECEIVER_LINES {
            let all = &self.all;
            let more = self.more.get_or_insert_with(|| all.add(ProgressBar::no_length().with_style(plain())));
            more.set_message(format!("  and {} more", members.len() - MAX_RECEIVER_LINES));
        }
    }

    /// Prints a line above the bars.
    pub fn notice(&self, line: &str) {
        self.all.suspend(|| notice(line));
    }

    /// Removes the bars.
    pub fn clear(&self) {
        // A failure here affects the display only.
        let _ = self.all.clear();
    }
}

/// Outcome of a member, in words.
pub fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Receiving | Outcome::Verified => outcome.name().to_owned(),
        Outcome::Failed(reason) | Outcome::Lost(reason) => format!("{}: {reason}", outcome.name()),
        Outcome::Missing => "missing: did not join".to_owned(),
    }
}

/// Maximum number of receivers with a line of their own.
const MAX_RECEIVER_LINES: usize = 16;
