//! Files that a scenario names, such as topologies.
//!
//! The host reads them ([`ReadInput`]). A file is read once, so that all points of a sweep see the same content. The
//! contents can travel with the scenario
//! to a machine that does not have the files ([`ScenarioFile::inputs`](super::ScenarioFile::inputs)).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Contents of files by the names that the scenario gives them.
pub type InputContents = BTreeMap<String, Arc<[u8]>>;

/// Function of the host that reads a file, or says why it cannot.
pub type ReadInput = fn(&Path) -> Result<Vec<u8>, String>;

/// Why a file that a scenario names cannot be used. The caller can correct the name or the file, and retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The host cannot read the file.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        reason: String,
    },
    /// The file is not text.
    #[error("{}, line {line}: the text is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// First line that is not UTF-8, from 1.
        line: usize,
    },
}

/// Files that a scenario names. Clones share what was read.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Folder in which relative names are looked up.
    dir: PathBuf,
    read: ReadInput,
    contents: Arc<Mutex<InputContents>>,
}

impl Inputs {
    /// Files of a folder. Those with known contents are not read.
    pub fn new(dir: PathBuf, contents: InputContents, read: ReadInput) -> Self {
        Inputs { dir, read, contents: Arc::new(Mutex::new(contents)) }
    }

    /// Files with these contents, and no others.
    pub fn given(contents: InputContents) -> Self {
        Inputs::new(PathBuf::new(), contents, |_| Err("no content is given for this file".to_owned()))
    }

    /// Path of a file, for errors.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the content of a file.
    ///
    /// # Errors
    /// The host cannot read the file.
    pub fn read(&self, name: &str) -> Result<Arc<[u8]>, InputError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = contents.get(name) {
            return Ok(content.clone());
        }
        let path = self.path(name);
        let content = (self.read)(&path).map_err(|reason| InputError::Unreadable { path, reason })?;
        let content: Arc<[u8]> = content.into();
        contents.insert(name.to_owned(), content.clone());
        Ok(content)
    }

    /// Returns the content of a text file.
    ///
    /// # Errors
    /// The host cannot read the file, or the file is not UTF-8.
    pub fn read_text(&self, name: &str) -> Result<String, InputError> {
        let content = self.read(name)?;
        let text = std::str::from_utf8(&content).map_err(|error| {
            let line = content[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            InputError::NotText { path: self.path(name), line }
        })?;
        Ok(text.to_owned())
    }

    /// Contents of the files that were read.
    pub fn contents(&self) -> InputContents {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Inputs::given(InputContents::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_files_can_be_read_without_a_host() {
        let contents = InputContents::from([("a.edges".to_owned(), b"1 2\n\xff\n".as_slice().into())]);
        let inputs = Inputs::given(contents);
        assert_eq!(&inputs.read("a.edges").unwrap()[..], b"1 2\n\xff\n");
        let error = inputs.read_text("a.edges").expect_err("0xff is no text");
        assert_eq!(error.to_string(), "a.edges, line 2: the text is not UTF-8");
        let error = inputs.read("b.edges").expect_err("the file is absent");
        assert_eq!(error.to_string(), "cannot read b.edges: no content is given for this file");
    }
}
