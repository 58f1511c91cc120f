//! Parsers of text files under any text.

use std::fmt::Display;

/// Parses the bytes if they are text, and checks that an error is one line.
pub fn one_line_or_good<E: Display>(bytes: &[u8], parse: impl FnOnce(&str) -> Result<(), E>) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = parse(text) {
        let error = error.to_string();
        assert!(!error.is_empty(), "an error says something");
        assert!(!error.contains(char::is_control), "{error:?} is one line");
    }
}
