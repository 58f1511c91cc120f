//! Names from Python that events and registry entries keep for the rest of the process.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Maximum number of names. A program has few packets, timers and parameters; more would be a leak of memory.
const MAX_WORDS: usize = 4096;

/// Returns the name with an unlimited lifetime. Equal names share their memory.
pub fn word(text: &str) -> PyResult<&'static str> {
    static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(text) {
        return Ok(known);
    }
    if words.len() >= MAX_WORDS {
        let what = format!("{text:?}: more than {MAX_WORDS} names of packets, metrics and parameters");
        return Err(PyValueError::new_err(what));
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    words.insert(kept);
    Ok(kept)
}
