//! `recv --exec`: a command after each transfer.
//!
//! The command is started without a shell. It gets the facts in its environment, and on its standard input a line
//! `DIGEST  NAME` for each file that was written, as `b3sum` prints them. Its output goes to standard error. It runs
//! in a process group of its own, which is killed after the time limit.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use carillon_transfer::Arrived;
use carillon_transfer::files::shown;
use rustix::process::{Pid, Signal, kill_process_group};

/// A command, and the jobs after which it ran.
#[derive(Debug)]
pub struct Exec {
    words: Vec<String>,
    limit: Duration,
    out: PathBuf,
    ran: Mutex<VecDeque<Ran>>,
}

/// Job after which the command ran, and the result.
type Ran = ([u8; 16], Result<(), String>);

impl Exec {
    /// Splits a command into words like a shell, without substitutions.
    pub fn new(command: &str, limit: Duration, out: PathBuf) -> anyhow::Result<Exec> {
        let words = shlex::split(command).context("--exec: a quote has no end")?;
        if words.is_empty() {
            bail!("--exec: give a program");
        }
        let out = std::path::absolute(&out).unwrap_or(out);
        Ok(Exec { words, limit, out, ran: Mutex::default() })
    }

    /// Runs after a complete transfer.
    pub fn arrived(&self, arrived: &Arrived<'_>) -> Result<(), String> {
        let mut lines = Vec::new();
        for file in arrived.written {
            let escaped = escaped(&file.name);
            lines.extend_from_slice(if escaped.len() > file.name.len() { b"\\" } else { b"" });
            lines.extend_from_slice(file.digest.to_hex().as_bytes());
            lines.extend_from_slice(b"  ");
            lines.extend_from_slice(&escaped);
            lines.push(b'\n');
        }
        let digest = blake3::Hash::from_bytes(arrived.digest).to_string();
        let facts = [
            ("RESULT", "verified".to_owned()),
            ("SENDER", arrived.sender.to_owned()),
            ("FILES", arrived.files.to_string()),
            ("BYTES", arrived.bytes.to_string()),
            ("DELETED", arrived.deleted.to_string()),
            ("DIGEST", digest),
        ];
        self.once(arrived.job, &facts, lines)
    }

    /// Runs after a failed transfer.
    pub fn failed(
        &self,
        job: [u8; 16],
        sender: &str,
        files: u32,
        bytes: u64,
        reason: &str,
    ) -> Result<(), String> {
        let facts = [
            ("RESULT", "failed".to_owned()),
            ("SENDER", sender.to_owned()),
            ("FILES", files.to_string()),
            ("BYTES", bytes.to_string()),
            ("REASON", reason.replace('\0', " ")),
        ];
        self.once(job, &facts, Vec::new())
    }

    /// Runs the command unless it ran after this job; then its result is that of the first time.
    fn once(&self, job: [u8; 16], facts: &[(&str, String)], lines: Vec<u8>) -> Result<(), String> {
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, result)) = ran.iter().find(|(of, _)| *of == job) {
            return result.clone();
        }
        let name = shown(&self.words[0]).into_owned();
        let result = self.run(job, facts, lines).map_err(|text| format!("the command {name} {text}"));
        if ran.len() >= MAX_JOBS {
            ran.pop_front();
        }
        ran.push_back((job, result.clone()));
        result
    }

    fn run(&self, job: [u8; 16], facts: &[(&str, String)], lines: Vec<u8>) -> Result<(), String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).process_group(0);
        command.env("CARILLON_OUT", &self.out);
        command.env("CARILLON_JOB", job.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        facts.iter().for_each(|(name, value)| _ = command.env(format!("CARILLON_{name}"), value));
        command.stdin(Stdio::piped()).stdout(std::io::stderr());
        let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        if let Some(mut input) = child.stdin.take() {
            // A command that does not read its input blocks only this thread, until it ends.
            let feed = move || _ = input.write_all(&lines);
            thread::Builder::new().spawn(feed).map_err(|error| format!("gets no input: {error}"))?;
        }
        match self.wait(&mut child) {
            None => Err(format!("did not end within {} s and was killed", self.limit.as_secs_f64())),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "failed".to_owned(),
            }),
        }
    }

    /// Waits for the end; `None` if the command had to be killed.
    fn wait(&self, child: &mut Child) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < self.limit => thread::sleep(POLL_INTERVAL),
                Ok(None) | Err(_) => break,
            }
        }
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // Processes that it has started are in its group.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }
}

/// Name with a backslash before backslashes and line feeds written as `\n`, as `b3sum` does.
fn escaped(name: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        other => vec![*other],
    };
    name.iter().flat_map(escape).collect()
}

/// Maximum number of jobs that are remembered.
const MAX_JOBS: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
