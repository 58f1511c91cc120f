//! Memory of this process: its resident size, and the limit for a run.
//!
//! Linux reports both in `/proc`. Other systems report the resident size through `ps` but not the free memory; there
//! a run is limited only if its scenario says so. The limit depends on the host, so it never changes a result: it
//! only makes a run end with an error.

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
    /// Creates a watch for this limit. Without a limit it takes the present size plus nine tenths of the free memory.
    pub fn new(limit: Option<DataSize>) -> Self {
        let limit = limit.or_else(|| Some(DataSize(resident()?.saturating_add(available()? / 10 * 9))));
        MemoryWatch { limit, next: Instant::now(), interval: CHECK_INTERVAL, exceeded: None }
    }

    /// Returns true if the process exceeds the limit.
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

    /// Resident size when the limit was exceeded, and the limit.
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
