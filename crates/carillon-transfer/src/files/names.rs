//! Display of file names, and temporary names.
//!
//! A name is a sequence of bytes. For display, control characters and invisible ones become `\u{..}` and bytes that
//! are not UTF-8 become `\xNN`; a backslash stands for itself.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Escapes foreign text for display: control characters, line and paragraph separators, and characters that change
/// the direction or have no width.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::new();
    for c in text.chars() {
        match needs_escape(c) {
            // Writing to a string cannot fail.
            true => _ = write!(escaped, "{}", c.escape_unicode()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Returns true if a character controls a terminal or is invisible.
pub fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(c, '\u{61c}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes a name for display like [`shown`], with bytes that are not UTF-8 as `\xNN`.
pub fn shown_name(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name) {
        return shown(text);
    }
    let mut escaped = String::new();
    for chunk in name.utf8_chunks() {
        escaped.push_str(&shown(chunk.valid()));
        // Writing to a string cannot fail.
        chunk.invalid().iter().for_each(|byte| _ = write!(escaped, "\\x{byte:02x}"));
    }
    Cow::Owned(escaped)
}

/// Escapes a path for display.
pub fn shown_path(path: &Path) -> String {
    shown_name(path.as_os_str().as_bytes()).into_owned()
}

/// Path of this name below a directory.
pub fn below(directory: &Path, name: &[u8]) -> PathBuf {
    directory.join(OsStr::from_bytes(name))
}

/// Splits a path into its directories and its last component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The components of a path.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
}

/// Temporary name for a file of this name: text, and short enough for every file system.
pub fn part_name(file_name: &[u8], number: u64) -> String {
    part_name_with_suffix(file_name, "", number)
}

/// Temporary name with a suffix behind the name of the file.
pub fn part_name_with_suffix(file_name: &[u8], suffix: &str, number: u64) -> String {
    let most = MAX_STEM - suffix.len();
    let stem = String::from_utf8_lossy(&file_name[..file_name.len().min(most)]);
    let stem = &stem[..stem.floor_char_boundary(most)];
    format!(".{stem}{suffix}{PART_INFIX}{number:016x}{PART_SUFFIX}")
}

/// Returns true for a temporary name.
pub fn is_part_name(name: &[u8]) -> bool {
    part_stem(name).is_some()
}

/// Returns true for a temporary name with this suffix behind the name of the file.
pub fn is_part_name_with_suffix(name: &[u8], suffix: &str) -> bool {
    part_stem(name).is_some_and(|stem| stem.ends_with(suffix.as_bytes()))
}

/// Part of a temporary name before its number.
fn part_stem(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b".")?.strip_suffix(PART_SUFFIX.as_bytes())?;
    let (stem, number) = rest.split_last_chunk::<16>()?;
    let stem = stem.strip_suffix(PART_INFIX.as_bytes())?;
    number.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(stem)
}

/// Parts of a temporary name before and after its number.
const PART_INFIX: &str = ".carillon-";
const PART_SUFFIX: &str = ".part";
/// Maximum bytes of the file name that its temporary name repeats.
const MAX_STEM: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(shown("a b\"é\\"), "a b\"é\\");
        assert_eq!(shown("x\n\x1b[2J\r\u{85}\u{202E}"), "x\\u{a}\\u{1b}[2J\\u{d}\\u{85}\\u{202e}");
    }

    #[test]
    fn non_utf8_bytes_are_escaped() {
        assert_eq!(shown_name(b"caf\xe9\x1b[m\\x2d"), "caf\\xe9\\u{1b}[m\\x2d");
        assert_eq!(shown_path(Path::new(OsStr::from_bytes(b"/a/\xff"))), "/a/\\xff");
    }

    #[test]
    fn part_names_are_recognized() {
        let long = ["é".repeat(100), "x".repeat(255)];
        let [accents, letters] = long.each_ref().map(String::as_bytes);
        let odd = [b'\xe9'; 255];
        for name in [b"f", &b""[..], accents, letters, b"a.carillon-0123456789abcdef.part", b"caf\xe9", &odd]
        {
            let part = part_name(name, 0x0123_4567_89ab_cdef);
            assert!(is_part_name(part.as_bytes()), "{part}");
            assert!(part.len() <= 255);
        }
        for name in [
            "f.part",
            ".f.carillon-.part",
            ".f.carillon-0123456789abcde.part",
            ".f.carillon-0123456789abcdeF.part",
            ".f.carillon-0123456789abcdef.par",
            "f.carillon-0123456789abcdef.part",
            ".f.carillon-0123456789abcdefg.part",
        ] {
            assert!(!is_part_name(name.as_bytes()), "{name}");
        }
    }
}
