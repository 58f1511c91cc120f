//! Modification times in nanoseconds since 1970, as records contain them.

use std::os::fd::BorrowedFd;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

/// Metadata of a file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Unix permission bits.
    pub mode: u32,
    /// Modification time, if known.
    pub modified: Option<i64>,
}

/// Converts seconds and nanoseconds, if in the range of 64-bit nanoseconds (years 1677 to 2262).
pub fn carried((seconds, nanos): (i64, i64)) -> Option<i64> {
    let time = seconds.checked_mul(SECOND)?.checked_add(nanos)?;
    (time != i64::MIN).then_some(time)
}

/// Sets the modification time, if given. Errors are ignored, as the contents are intact.
pub fn set(handle: BorrowedFd<'_>, modified: Option<i64>) {
    let Some(modified) = modified else { return };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification =
        Timespec { tv_sec: modified.div_euclid(SECOND), tv_nsec: modified.rem_euclid(SECOND) };
    let _ = futimens(handle, &Timestamps { last_access, last_modification });
}

const SECOND: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::files::contents::Stamp;

    #[test]
    fn file_times_survive_the_round_trip() {
        let file = tempfile::tempfile().expect("a file");
        let time = |file: &File| Stamp::of(&file.metadata().expect("it is there")).modified();
        let now = time(&file);
        set(file.as_fd(), None);
        assert_eq!(time(&file), now);
        for at in [(1_800_000_000, 123_456_789), (0, 0), (-5, 999_999_999), (-5, 0)] {
            set(file.as_fd(), carried(at));
            assert_eq!(time(&file), at);
        }
        for never in [(i64::MAX, 0), (i64::MIN, 0), (10_000_000_000, 0), (-9_223_372_037, 145_224_192)] {
            assert_eq!(carried(never), None, "{never:?}");
        }
    }
}
