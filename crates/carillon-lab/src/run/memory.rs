//! Memory of this process: what it holds, and how much a run may make it hold.
//!
//! Linux tells both in `/proc`. Other systems tell the resident size by `ps`, and not what is free: there a run has a limit
//! only if its scenario names one. It is a matter of the host and decides nothing but whether a run ends as an error.

use std::process::Command;
use std::time::{Duration, Instant};

use carillon_core::DataSize;

/// Looks now and then at how much memory the process holds.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    limit: Option<DataSize>,
    next: Instant,
    interval: Duration,
    exceeded: Option<DataSize>,
}

impl MemoryWatch {
    /// A watch for this limit; without one nine tenths of what is free now, beside what the process has.
    pub fn new(limit: Option<DataSize>) -> Self {
        let limit = limit.or_else(|| Some(DataSize(resident()?.saturating_add(available()? / 10 * 9))));
        MemoryWatch { limit, next: Instant::now(), interval: CHECK_INTERVAL, exceeded: None }
    }

    /// Whether the process holds more than the limit.
    pub fn is_exceeded(&mut self) -> bool {
        let Some(limit) = self.limit else { return false };
        let now = Instant::now();
        if self.exceeded.is_none() && now >= self.next {
            self.exceeded = resident().map(DataSize).filter(|resident| resident.0 > limit.0);
            // Where it takes long to find out it is looked for more seldom.
            self.next = now + self.interval.max(now.elapsed() * 20);
        }
        self.exceeded.is_some()
    }

    /// What the process held when it held too much, and the limit.
    pub fn exceeded(&self) -> Option<(DataSize, DataSize)> {
        self.exceeded.zip(self.limit)
    }
}

/// Bytes of memory that this process holds.
fn resident() -> Option<u64> {
    if let Some(kibibytes) = field("/proc/self/status", "VmRSS:") {
        return Some(kibibytes * 1024);
    }
    let id = std::process::id().to_string();
    let output = Command::new("ps").args(["-o", "rss=", "-p", &id]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().parse::<u64>().ok()? * 1024)
}

/// Bytes of memory that are free for programs.
fn available() -> Option<u64> {
    Some(field("/proc/meminfo", "MemAvailable:")? * 1024)
}

/// A field of a file of `/proc`, in KiB.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Time between two looks, at least.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_more_than_nothing_and_less_than_its_limit() {
        assert!(resident().is_some_and(|bytes| bytes > 100_000));
        assert!(!MemoryWatch::new(None).is_exceeded());
        let mut tight = MemoryWatch::new(Some(DataSize(1000)));
        assert!(tight.is_exceeded());
        assert!(tight.exceeded().is_some_and(|(held, limit)| held.0 > limit.0 && limit.0 == 1000));
    }
}
