//! Files that a scenario names, read from disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::scenario::{InputContents, Inputs, ScenarioError, ScenarioFile};

/// Parses a scenario file that may name files in its folder.
pub fn parse(origin: &str, text: &str) -> Result<ScenarioFile, ScenarioError> {
    ScenarioFile::parse_with(origin, text, beside(origin), carillon_proto::REGISTRY)
}

/// Files in the folder of a scenario file.
pub fn beside(origin: &str) -> Inputs {
    let dir = Path::new(origin).parent().map(Path::to_owned).unwrap_or_default();
    in_folder(dir, InputContents::new())
}

/// Files of a folder. Those with known contents are not read.
pub fn in_folder(dir: PathBuf, contents: InputContents) -> Inputs {
    Inputs::new(dir, contents, |path| read_limited(path, MAX_INPUT_BYTES).map_err(|error| error.to_string()))
}

/// Reads a file of at most `limit` bytes. Devices and pipes may have no end.
fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {} MiB", limit >> 20)));
    }
    Ok(content)
}

/// Maximum size of a file that a scenario names.
const MAX_INPUT_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_once_and_shared_by_clones() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.edges"), "first").unwrap();
        let inputs = in_folder(dir.path().into(), InputContents::new());
        assert_eq!(inputs.clone().read_text("a.edges").unwrap(), "first");
        std::fs::write(dir.path().join("a.edges"), "second").unwrap();
        assert_eq!(inputs.read_text("a.edges").unwrap(), "first");
        let elsewhere = in_folder("nowhere".into(), inputs.contents());
        assert_eq!(elsewhere.read_text("a.edges").unwrap(), "first");
        let error = elsewhere.read("b.edges").expect_err("the file is absent");
        assert!(error.to_string().starts_with("cannot read nowhere/b.edges: "), "{error}");
    }

    #[test]
    fn binary_and_endless_files_are_refused_with_their_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.edges"), b"1 2\n\xff\n").unwrap();
        let inputs = in_folder(dir.path().into(), InputContents::new());
        let error = inputs.read_text("a.edges").expect_err("0xff is no text");
        assert!(error.to_string().ends_with("a.edges, line 2: the text is not UTF-8"), "{error}");
        let error = read_limited(Path::new("/dev/zero"), 1 << 20).expect_err("the file has no end");
        assert!(error.to_string().contains("more than 1 MiB"), "{error}");
    }
}
