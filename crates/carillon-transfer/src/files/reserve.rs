//! Preallocation of disk space for a growing file.

use std::fs::File;
use std::ops::Range;

/// Space reserved for a file that is written in order: one large allocation is faster and less fragmented than many
/// small ones.
///
/// The reserve stays small, because only the sender's word tells the final size. It is not part of the file's length.
#[derive(Debug, Default)]
pub struct Reserve {
    /// Position of the next write.
    end: u64,
    /// End of the reserved space.
    taken: u64,
    /// Expected size of the file; 0 if nothing more is reserved.
    size: u64,
}

impl Reserve {
    /// Creates a reserve for a file with this length and expected size.
    pub fn new(end: u64, size: Option<u64>) -> Reserve {
        Reserve { end, taken: end, size: size.unwrap_or(0) }
    }

    /// Accounts for a write of `len` bytes and reserves more if necessary.
    pub fn write(&mut self, file: &File, len: u64) {
        self.end += len;
        if self.end > self.taken && self.end < self.size {
            let to = (self.end + RESERVED_BYTES).min(self.size);
            if take(file, self.taken..to) {
                self.taken = to;
            } else {
                // The file system does not support it, or is full: the write will tell.
                self.size = 0;
            }
        }
    }

    /// Accounts for a hole of `len` bytes: extends the file and stops reserving, as holes make the need unknown.
    pub fn go_over(&mut self, file: &File, len: u64) {
        let zeros = self.end..self.end + len;
        self.end = zeros.end;
        if self.taken > zeros.start {
            give_back(file, zeros.start..zeros.end.min(self.taken));
        }
        self.size = 0;
    }
}

/// Reserves a range; returns true on success.
#[cfg(target_os = "linux")]
fn take(file: &File, Range { start, end }: Range<u64>) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::KEEP_SIZE, start, end - start).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn take(_: &File, _: Range<u64>) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn give_back(file: &File, Range { start, end }: Range<u64>) {
    use rustix::fs::{FallocateFlags, fallocate};
    // On failure the file takes more space than necessary.
    let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start);
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: &File, _: Range<u64>) {}

/// Bytes reserved ahead.
const RESERVED_BYTES: u64 = 16 << 20;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const MB: u64 = 1 << 20;

    /// Length of the file and its allocated space, in whole megabytes.
    fn room(file: &File) -> (u64, u64) {
        let metadata = file.metadata().expect("it is there");
        (metadata.len(), metadata.blocks() * 512 / MB)
    }

    fn write(reserve: &mut Reserve, file: &mut File, len: u64) {
        reserve.write(file, len);
        file.write_all(&vec![1; len as usize]).expect("it can be written");
    }

    #[test]
    fn reservation_never_exceeds_the_file_size() {
        let mut file = tempfile::tempfile().expect("a file");
        if !take(&file, 0..MB) {
            return;
        }
        let mut reserve = Reserve::new(0, Some(20 * MB));
        write(&mut reserve, &mut file, MB);
        assert_eq!(room(&file), (MB, 17));
        (0..16).for_each(|_| write(&mut reserve, &mut file, MB));
        assert_eq!(room(&file), (17 * MB, 17));
        write(&mut reserve, &mut file, MB);
        assert_eq!(room(&file), (18 * MB, 20));
        write(&mut reserve, &mut file, 2 * MB);
        assert_eq!(room(&file), (20 * MB, 20));
        // Nothing is reserved for a file of unknown size.
        let mut file = tempfile::tempfile().expect("a file");
        write(&mut Reserve::new(0, None), &mut file, MB);
        assert_eq!(room(&file), (MB, 1));
    }

    #[test]
    fn skipped_bytes_take_no_space() {
        let mut file = tempfile::tempfile().expect("a file");
        if !take(&file, 0..MB) {
            return;
        }
        for (zeros, taken) in [(4, 13), (100, 1)] {
            file.set_len(0).expect("it can be cut");
            let mut reserve = Reserve::new(0, Some(200 * MB));
            std::io::Seek::rewind(&mut file).expect("it has a beginning");
            write(&mut reserve, &mut file, MB);
            file.set_len((1 + zeros) * MB).expect("it can be long");
            reserve.go_over(&file, zeros * MB);
            assert_eq!(room(&file), ((1 + zeros) * MB, taken));
            std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).expect("it has an end");
            write(&mut reserve, &mut file, MB);
            assert_eq!(room(&file).1, if zeros == 4 { 13 } else { 2 });
        }
    }
}
