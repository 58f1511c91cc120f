//! The log file: a play-by-play of everything that happens (Segovia 1996, sections 3.6 and 3.7).

use std::io::{self, Write};

use carillon_core::{Event, NodeId, Observer, Time, TraceEvent};

/// Writes each event as one line of text.
#[derive(Debug)]
pub struct TextLog<W> {
    out: W,
    /// The first thing that went wrong; nothing is written after it.
    problem: Option<io::Error>,
}

impl<W: Write + Send> TextLog<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        TextLog { out, problem: None }
    }

    /// Says which run follows.
    pub fn begin_pass(&mut self, point: usize, replication: u32, values: &str) {
        self.write(format_args!("pass {point} repetition {replication}{values}\n"));
    }

    /// Flushes the buffer and returns the first write error, if any.
    pub fn finish(mut self) -> io::Result<()> {
        match self.problem {
            Some(problem) => Err(problem),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        if self.problem.is_none()
            && let Err(problem) = self.out.write_fmt(line)
        {
            self.problem = Some(problem);
        }
    }
}

impl<W: Write + Send> Observer for TextLog<W> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.write(format_args!("{}\n", TraceEvent { time, node, event }));
    }
}
