//! Names below the receiver's directory, and what links may say.

use std::fmt;
use std::ops::Deref;

use crate::ParseError;

/// A path that stays below the directory it is joined to: components parted by `/`, none of them
/// empty, `.` or `..`, none with a backslash or NUL, none longer than file systems have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativePath<'a>(&'a str);

impl<'a> RelativePath<'a> {
    /// The longest path, in bytes.
    pub const MAX_LEN: usize = 4096;

    /// The longest component, in bytes.
    pub const MAX_NAME_LEN: usize = 255;

    /// The most components: receivers may hold a handle for each.
    pub const MAX_DEPTH: usize = 128;

    /// `None` if the path is not of this kind or too long.
    pub fn new(path: &'a str) -> Option<Self> {
        let (mut components, mut start) = (0, 0);
        let bytes = path.as_bytes();
        let mut ok = bytes.len() <= Self::MAX_LEN;
        for (at, &byte) in bytes.iter().chain(b"/").enumerate() {
            match byte {
                b'/' => {
                    let component = &bytes[start..at];
                    ok &= !matches!(component, b"" | b"." | b"..") && component.len() <= Self::MAX_NAME_LEN;
                    (components, start) = (components + 1, at + 1);
                }
                b'\0' | b'\\' => ok = false,
                _ => {}
            }
        }
        ok &= components <= Self::MAX_DEPTH;
        ok.then_some(RelativePath(path))
    }

    /// The path.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let refused = ParseError::Field { field: "path", value: bytes.len() as u64 };
        // Length first: no time is spent on text that is refused anyway.
        if bytes.len() > Self::MAX_LEN {
            return Err(refused);
        }
        std::str::from_utf8(bytes).ok().and_then(RelativePath::new).ok_or(refused)
    }
}

impl Deref for RelativePath<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for RelativePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether a symbolic link at this path with this target leads to somewhere below the directory that
/// the path is relative to, whatever other such links are on its way.
///
/// It does if the target is relative, and `..` comes at its beginning only, and not more often than
/// the link has directories above it. Behind a name, `..` could stand behind another link, and then
/// leads up from where that one leads.
pub fn link_stays_below(path: &RelativePath<'_>, target: &str) -> bool {
    let up = target.split('/').take_while(|&part| part == "..").count();
    let above = path.split('/').count() - 1;
    !target.starts_with('/') && up <= above && !target.split('/').skip(up).any(|part| part == "..")
}

/// The target of a link: no more is asked of it than that it can be one.
pub(super) fn target(bytes: &[u8]) -> Result<&str, ParseError> {
    let refused = ParseError::Field { field: "link target", value: bytes.len() as u64 };
    if bytes.is_empty() || bytes.len() > LINK_TARGET_MAX_LEN || bytes.contains(&0) {
        return Err(refused);
    }
    std::str::from_utf8(bytes).map_err(|_| refused)
}

/// The longest target of a link, in bytes.
pub const LINK_TARGET_MAX_LEN: usize = 4095;
