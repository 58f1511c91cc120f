//! Holes of sparse files: zeros that are neither read, sent nor written.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::LazyLock;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::tree::Tree;

/// Finds the holes of a file that is read in order.
#[derive(Debug)]
pub struct Holes {
    /// Position before which there is no hole; `None` for a file without holes.
    look: Option<u64>,
}

impl Holes {
    /// Starts from the metadata of a file.
    pub fn of(metadata: &Metadata) -> Holes {
        Holes { look: (metadata.blocks().saturating_mul(STAT_BLOCK_BYTES) < metadata.len()).then_some(0) }
    }

    /// Returns the length of the hole at the read position `at`, limited to a multiple of [`ZERO_CHUNK_BYTES`] or the
    /// end of the file.
    pub fn at(&mut self, file: &File, at: u64, size: u64) -> io::Result<u64> {
        if self.look.is_none_or(|look| at < look) || at >= size {
            return Ok(0);
        }
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // The file has no further holes.
            Err(Errno::NXIO) => size,
            // File systems without this call report no holes.
            Err(_) => at,
        };
        let end = if data >= size {
            size
        } else {
            at.max(data / ZERO_CHUNK_BYTES as u64 * ZERO_CHUNK_BYTES as u64)
        };
        if end == at {
            self.look = seek(file, SeekFrom::Hole(data)).ok();
        }
        seek(file, SeekFrom::Start(end))?;
        Ok(end - at)
    }
}

/// Yields zeros of this total length in pieces.
pub fn zeros(len: u64) -> impl Iterator<Item = &'static [u8]> {
    let most = ZERO_CHUNK_BYTES as u64;
    (0..len).step_by(ZERO_CHUNK_BYTES).map(move |at| &ZEROS[..(len - at).min(most) as usize])
}

/// Hashes zeros of this length.
pub fn hash(tree: &mut Tree, len: u64) {
    zeros(len).for_each(|zeros| tree.update(zeros));
}

/// Unit of reading, hashing and writing zeros; shorter holes are not worth a message.
const ZERO_CHUNK_BYTES: usize = 256 << 10;
/// Unit of `st_blocks` (POSIX).
const STAT_BLOCK_BYTES: u64 = 512;

static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; ZERO_CHUNK_BYTES].into());

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_end_at_data_or_the_end_of_file() {
        const AT: u64 = ZERO_CHUNK_BYTES as u64;
        // Position of data, length of the file, and holes expected at each position.
        for (parts, size, found) in [
            (vec![], 3 * AT + 5, vec![(0, 3 * AT + 5), (1, 3 * AT + 4), (3 * AT + 5, 0)]),
            (vec![5 * AT + 9], 9 * AT, vec![(0, 5 * AT), (7, 5 * AT - 7), (5 * AT, 0), (6 * AT, 3 * AT)]),
            (vec![100, 3 * AT], 8 * AT + 1, vec![(0, 0), (AT, 2 * AT), (3 * AT, 0), (4 * AT, 4 * AT + 1)]),
        ] {
            let mut file = tempfile::tempfile().expect("a file");
            file.set_len(size).expect("it can be long");
            for at in &parts {
                file.write_all_at(&[7], *at).expect("it can be written");
            }
            let mut holes = Holes::of(&file.metadata().expect("it is there"));
            for (at, len) in found {
                file.seek(io::SeekFrom::Start(at)).expect("it is long");
                assert_eq!(holes.at(&file, at, size).expect("it tells"), len, "from {at}, {parts:?}");
                assert_eq!(file.stream_position().expect("it has one"), at + len, "from {at}, {parts:?}");
            }
        }
        // A file without holes is not queried.
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[0; 3 * ZERO_CHUNK_BYTES], 0).expect("it can be written");
        let mut holes = Holes::of(&file.metadata().expect("it is there"));
        assert_eq!((holes.look, holes.at(&file, 0, 3 * AT).expect("it is not asked")), (None, 0));
        assert_eq!(file.read(&mut [1; 10]).expect("it is read from its beginning"), 10);
    }

    #[test]
    fn zero_runs_have_the_requested_length() {
        for len in [0, 1, ZERO_CHUNK_BYTES, ZERO_CHUNK_BYTES + 1, 3 * ZERO_CHUNK_BYTES] {
            assert_eq!(zeros(len as u64).map(|zeros| zeros.len()).sum::<usize>(), len);
            let mut tree = Tree::default();
            hash(&mut tree, len as u64);
            assert_eq!(tree.finalize(), blake3::hash(&vec![0; len]));
        }
    }
}
