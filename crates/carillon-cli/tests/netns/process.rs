//! Processes of the command and their output.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that is not started yet.
pub struct Job {
    process: Command,
    log: PathBuf,
    input: Option<PathBuf>,
}

impl Job {
    /// Prepares a process with its output in files beside `log`.
    pub fn new(process: Command, log: PathBuf) -> Job {
        Job { process, log, input: None }
    }

    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Job {
        self.process.arg(arg);
        self
    }

    pub fn args(mut self, line: &str) -> Job {
        self.process.args(line.split_whitespace());
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, path: &Path) -> Job {
        self.process.current_dir(path);
        self
    }

    pub fn input(mut self, path: &Path) -> Job {
        self.input = Some(path.to_owned());
        self
    }

    pub fn start(mut self) -> Running {
        let (out, err) = (self.log.with_extension("out"), self.log.with_extension("err"));
        let input = match &self.input {
            Some(path) => File::open(path).expect("the input").into(),
            None => Stdio::null(),
        };
        let create = |path| File::create(path).expect("a log file");
        let process = self.process.stdin(input).stdout(create(&out)).stderr(create(&err)).spawn();
        Running { process: process.expect("the command starts"), out, err }
    }

    /// Starts it with a standard input that stays open until it is closed.
    pub fn start_fed(mut self) -> Running {
        let (out, err) = (self.log.with_extension("out"), self.log.with_extension("err"));
        let create = |path| File::create(path).expect("a log file");
        let process = self.process.stdin(Stdio::piped()).stdout(create(&out)).stderr(create(&err)).spawn();
        Running { process: process.expect("the command starts"), out, err }
    }

    pub fn run(self) -> Ended {
        self.start().end()
    }
}

/// A running process; killed when dropped.
pub struct Running {
    process: Child,
    out: PathBuf,
    err: PathBuf,
}

/// Exit code and output of a process.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Running {
    /// Waits for the end, for at most a minute.
    pub fn end(self) -> Ended {
        self.end_within(Duration::from_secs(60))
    }

    /// Waits for the end, for at most this time.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let code = loop {
            if let Some(status) = self.process.try_wait().expect("the process can be waited for") {
                break status.code();
            }
            if start.elapsed() > limit {
                let _ = self.process.kill();
                panic!("no end within {limit:?}: {}\n{}", read(&self.out), read(&self.err));
            }
            std::thread::sleep(POLL);
        };
        Ended { code, out: read(&self.out), err: read(&self.err) }
    }

    /// Waits for the end with this exit code, for a process with binary output.
    #[track_caller]
    pub fn end_bytes(mut self, code: i32) {
        let status = self.process.wait().expect("the process can be waited for");
        assert_eq!(status.code(), Some(code), "{}", read(&self.err));
    }

    /// Writes to the standard input of a process from [`Job::start_fed`].
    pub fn feed(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().expect("an open standard input");
        input.write_all(text.as_bytes()).expect("the process reads");
    }

    /// Takes the standard input of a process from [`Job::start_fed`], to write to it elsewhere.
    pub fn take_input(&mut self) -> ChildStdin {
        self.process.stdin.take().expect("an open standard input")
    }

    /// Returns true if the process has ended.
    pub fn is_over(&mut self) -> bool {
        self.process.try_wait().expect("the process can be waited for").is_some()
    }

    /// Closes the standard input.
    pub fn close(&mut self) {
        self.process.stdin = None;
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("the process can be killed");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.process.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn out(&self) -> String {
        read(&self.out)
    }

    pub fn err(&self) -> String {
        read(&self.err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    /// Checks the exit code; shows all output if it differs.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "\n{}\n{}", self.out, self.err);
        self
    }

    /// Checks that standard error has one line besides progress lines, with all of these words.
    #[track_caller]
    pub fn one_line(self, words: &[&str]) -> Ended {
        let progress = ["receiving from", "sending to", "sent"].map(|verb| format!("carillon: {verb} "));
        let is_progress = |line: &&str| line.ends_with(" %)") && progress.iter().any(|p| line.starts_with(p));
        assert_eq!(self.err.lines().filter(|line| !is_progress(line)).count(), 1, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }

    /// JSON lines of the output with this event.
    pub fn events(&self, event: &str) -> Vec<serde_json::Value> {
        let lines = self.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        lines.filter(|value: &serde_json::Value| value["event"] == event).collect()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const POLL: Duration = Duration::from_millis(10);
