//! Bounded texts of session packets.

use std::fmt;
use std::ops::Deref;

use crate::ParseError;

macro_rules! bounded_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name<'a>(&'a str);

        impl<'a> $name<'a> {
            /// Text as a string slice.
            pub const fn as_str(&self) -> &'a str {
                self.0
            }
        }

        impl Deref for $name<'_> {
            type Target = str;
            fn deref(&self) -> &str {
                self.0
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
    };
}

bounded_text! {
    /// Name: 1 to 64 bytes without [hidden](is_hidden) characters.
    Name
}

bounded_text! {
    /// Text for people: at most 128 bytes without [hidden](is_hidden) characters.
    #[derive(Default)]
    Text
}

bounded_text! {
    /// Settings of a protocol: at most 900 bytes of `key=value` lines separated by line feeds, without other
    /// [hidden](is_hidden) characters; keys are not empty.
    #[derive(Default)]
    Settings
}

impl<'a> Name<'a> {
    /// Maximum length of a name in bytes.
    pub const MAX_LEN: usize = 64;

    /// Checks a name; `None` if the text is empty, too long, or has hidden characters.
    pub fn new(text: &'a str) -> Option<Self> {
        Self::parse("name", text.as_bytes()).ok()
    }

    /// Makes a name of any text: replaces invalid characters and cuts the excess; `fallback` if nothing is left.
    pub fn clean(text: &str, fallback: &str) -> String {
        let text = clean(text, Self::MAX_LEN);
        if text.is_empty() { clean(fallback, Self::MAX_LEN) } else { text }
    }

    pub(super) fn parse(field: &'static str, bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.is_empty() {
            return Err(ParseError::Field { field, value: 0 });
        }
        checked(field, bytes, Self::MAX_LEN, |_| false).map(Name)
    }
}

impl<'a> Text<'a> {
    /// Maximum length of a text in bytes.
    pub const MAX_LEN: usize = 128;

    /// Checks a text; `None` if it is too long or has hidden characters.
    pub fn new(text: &'a str) -> Option<Self> {
        Self::parse("text", text.as_bytes()).ok()
    }

    /// Makes a [`Text`] of any text: replaces invalid characters and cuts the excess.
    pub fn clean(text: &str) -> String {
        clean(text, Self::MAX_LEN)
    }

    pub(super) fn parse(field: &'static str, bytes: &'a [u8]) -> Result<Self, ParseError> {
        checked(field, bytes, Self::MAX_LEN, |_| false).map(Text)
    }
}

impl<'a> Settings<'a> {
    /// Maximum length of settings in bytes.
    pub const MAX_LEN: usize = 900;

    /// Checks settings; `None` if the text is not `key=value` lines or too long.
    pub fn new(text: &'a str) -> Option<Self> {
        Self::parse("settings", text.as_bytes()).ok()
    }

    /// Joins pairs to the text of settings. [`Settings::new`] accepts it unless it is too long or has hidden
    /// characters.
    pub fn encode<K: fmt::Display, V: fmt::Display>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
        let lines: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        lines.join("\n")
    }

    /// Pairs in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.0.split('\n').filter_map(|line| line.split_once('='))
    }

    pub(super) fn parse(field: &'static str, bytes: &'a [u8]) -> Result<Self, ParseError> {
        let text = checked(field, bytes, Self::MAX_LEN, |c| c == '\n')?;
        let pair = |line: &str| line.find('=').is_some_and(|at| at > 0);
        if text.is_empty() || text.split('\n').all(pair) {
            Ok(Settings(text))
        } else {
            Err(ParseError::Field { field, value: bytes.len() as u64 })
        }
    }
}

/// Returns true for a character that is invisible or changes how a terminal shows the text around it: control
/// characters (C0, DEL, C1), line and paragraph separators, directional marks and overrides. Joiners are allowed,
/// since names in some scripts need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Checks that bytes are text without hidden characters except the allowed ones. The error of a refused value has its
/// length, or the first invalid byte.
fn checked<'a>(
    field: &'static str,
    bytes: &'a [u8],
    max: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<&'a str, ParseError> {
    let refused = |value: u64| ParseError::Field { field, value };
    if bytes.len() > max {
        return Err(refused(bytes.len() as u64));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| refused(bytes.get(error.valid_up_to()).copied().unwrap_or_default().into()))?;
    match text.chars().find(|c| is_hidden(*c) && !allowed(*c)) {
        Some(c) => Err(refused(u32::from(c).into())),
        None => Ok(text),
    }
}

fn clean(text: &str, max: usize) -> String {
    let mut clean = String::new();
    for c in text.chars() {
        // Hidden characters become blanks, so that the cut text keeps its words apart.
        let c = if is_hidden(c) { ' ' } else { c };
        // Cut between characters, never within one.
        if clean.len() + c.len_utf8() > max {
            break;
        }
        clean.push(c);
    }
    clean.truncate(clean.trim_end().len());
    clean
}
