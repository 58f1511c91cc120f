//! Files that a scenario names, such as topologies.
//!
//! A file is read once, so that all points of a sweep see the same content. The contents can travel with the scenario
//! to a machine that does not have the files ([`ScenarioFile::inputs`](super::ScenarioFile::inputs)).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Contents of files by the names that the scenario gives them.
pub type InputContents = BTreeMap<String, Arc<[u8]>>;

/// Reader of the files that a scenario names. Clones share what was read.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Folder in which relative names are looked up.
    dir: PathBuf,
    contents: Arc<Mutex<InputContents>>,
}

impl Inputs {
    /// Files of a folder. Those with known contents are not read.
    pub fn new(dir: PathBuf, contents: InputContents) -> Self {
        Inputs { dir, contents: Arc::new(Mutex::new(contents)) }
    }

    /// Path of a file, for errors.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the content of a file, or an error with its path.
    pub fn read(&self, name: &str) -> Result<Arc<[u8]>, String> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = contents.get(name) {
            return Ok(content.clone());
        }
        let path = self.path(name);
        let content = read_limited(&path, MAX_INPUT_BYTES)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let content: Arc<[u8]> = content.into();
        contents.insert(name.to_owned(), content.clone());
        Ok(content)
    }

    /// Returns the content of a text file, or an error with its path and the place that is not UTF-8.
    pub fn read_text(&self, name: &str) -> Result<String, String> {
        let content = self.read(name)?;
        let text = std::str::from_utf8(&content).map_err(|error| {
            let line = content[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("{}, line {line}: the text is not UTF-8", self.path(name).display())
        })?;
        Ok(text.to_owned())
    }

    /// Contents of the files that were read.
    pub fn contents(&self) -> InputContents {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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
        let inputs = Inputs::new(dir.path().into(), InputContents::new());
        assert_eq!(inputs.clone().read_text("a.edges").unwrap(), "first");
        std::fs::write(dir.path().join("a.edges"), "second").unwrap();
        assert_eq!(inputs.read_text("a.edges").unwrap(), "first");
        let elsewhere = Inputs::new("nowhere".into(), inputs.contents());
        assert_eq!(elsewhere.read_text("a.edges").unwrap(), "first");
        let error = elsewhere.read("b.edges").expect_err("the file is absent");
        assert!(error.starts_with("cannot read nowhere/b.edges: "), "{error}");
    }

    #[test]
    fn binary_and_endless_files_are_refused_with_their_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.edges"), b"1 2\n\xff\n").unwrap();
        let inputs = Inputs::new(dir.path().into(), InputContents::new());
        let error = inputs.read_text("a.edges").expect_err("0xff is no text");
        assert!(error.ends_with("a.edges, line 2: the text is not UTF-8"), "{error}");
        let error = read_limited(Path::new("/dev/zero"), 1 << 20).expect_err("the file has no end");
        assert!(error.to_string().contains("more than 1 MiB"), "{error}");
    }
}
