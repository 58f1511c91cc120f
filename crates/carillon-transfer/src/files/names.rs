//! Names of files as they are shown, and the names of files that are not complete.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// Text that may come from others with everything escaped that would steer a terminal or hide what is
/// there: control characters, line and paragraph separators, marks that turn the direction or have no width.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseemly) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::new();
    for c in text.chars() {
        match is_unseemly(c) {
            // Writing to a string does not fail.
            true => _ = write!(escaped, "{}", c.escape_unicode()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character steers a terminal, or hides what is there.
pub fn is_unseemly(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(c, '\u{61c}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// A path as it may be shown.
pub fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

/// The name that a file of this name has until it is complete, short enough for every file system.
pub fn part_name(file_name: &str, number: u64) -> String {
    let stem = &file_name[..file_name.floor_char_boundary(MAX_STEM)];
    format!(".{stem}{MARK}{number:016x}{PART}")
}

/// Whether a file of this name is one that is not complete.
pub fn is_part_name(name: &str) -> bool {
    let number = name
        .strip_prefix('.')
        .and_then(|rest| rest.strip_suffix(PART))
        .and_then(|rest| rest.rsplit_once(MARK))
        .map(|(_, number)| number);
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(digit))
}

/// Before and after the number of a name of one that is not complete.
const MARK: &str = ".carillon-";
const PART: &str = ".part";
/// Bytes of a file's name that its temporary name repeats.
const MAX_STEM: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_and_the_rest_is_not() {
        assert_eq!(shown("a b\"é\\"), "a b\"é\\");
        assert_eq!(shown("x\n\x1b[2J\r\u{85}\u{202E}"), "x\\u{a}\\u{1b}[2J\\u{d}\\u{85}\\u{202e}");
    }

    #[test]
    fn part_names_are_told_from_others() {
        for name in ["f", "", &"é".repeat(100), &"x".repeat(255), "a.carillon-0123456789abcdef.part"] {
            let part = part_name(name, 0x0123_4567_89ab_cdef);
            assert!(is_part_name(&part), "{part}");
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
            assert!(!is_part_name(name), "{name}");
        }
    }
}
