//! Paths below the receiver's directory, and targets of symbolic links, as bytes of the sender's file system.

use std::fmt::{self, Write as _};
use std::ops::Deref;

use crate::ParseError;

/// Path that stays below the directory to which it is joined. It has components separated by `/`: none is empty, `.`
/// or `..`, has a NUL byte, or is longer than file systems support. All other bytes are allowed, UTF-8 or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativePath<'a>(&'a [u8]);

impl<'a> RelativePath<'a> {
    /// Maximum length of a path in bytes.
    pub const MAX_LEN: usize = 4096;

    /// Maximum length of a component in bytes.
    pub const MAX_NAME_LEN: usize = 255;

    /// Maximum number of components: receivers may hold an open handle for each.
    pub const MAX_DEPTH: usize = 128;

    /// Checks a path; `None` if it is invalid or too long.
    pub fn new(path: &'a (impl AsRef<[u8]> + ?Sized)) -> Option<Self> {
        let (mut components, mut start) = (0, 0);
        let bytes = path.as_ref();
        // The length comes first, so that no time is spent on a path that is refused anyway.
        let mut ok = bytes.len() <= Self::MAX_LEN;
        for (at, &byte) in bytes.iter().take(Self::MAX_LEN).chain(b"/").enumerate() {
            match byte {
                b'/' => {
                    let component = &bytes[start..at];
                    ok &= !matches!(component, b"" | b"." | b"..") && component.len() <= Self::MAX_NAME_LEN;
                    (components, start) = (components + 1, at + 1);
                }
                b'\0' => ok = false,
                _ => {}
            }
        }
        ok &= components <= Self::MAX_DEPTH;
        ok.then_some(RelativePath(bytes))
    }

    /// Path as bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        RelativePath::new(bytes).ok_or(ParseError::Field { field: "path", value: bytes.len() as u64 })
    }
}

impl Deref for RelativePath<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// Path as text, with bytes that are not UTF-8 as `\xNN`. Control characters are not escaped.
impl fmt::Display for RelativePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, |f, valid| f.write_str(valid))
    }
}

/// Path or link target in quotes, for logs. Characters are escaped as in a Rust string, and bytes that are not UTF-8
/// as `\xNN`.
pub(super) struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        write_text(f, self.0, |f, valid| write!(f, "{}", valid.escape_debug()))?;
        f.write_char('"')
    }
}

fn write_text(
    f: &mut fmt::Formatter<'_>,
    bytes: &[u8],
    mut write_valid: impl FnMut(&mut fmt::Formatter<'_>, &str) -> fmt::Result,
) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        write_valid(f, chunk.valid())?;
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

/// Returns true if a symbolic link at this path with this target leads below the directory to which the path is
/// relative, even through other links of this kind.
///
/// The target must be relative, and have `..` only at its beginning and at most as often as the link has directories
/// above it. After a name, `..` could follow another link and then leads upwards from the target of that link.
pub fn link_stays_below(path: &RelativePath<'_>, target: &(impl AsRef<[u8]> + ?Sized)) -> bool {
    let target = target.as_ref();
    let parts = || target.split(|&byte| byte == b'/');
    let up = parts().take_while(|&part| part == b"..").count();
    let above = path.iter().filter(|&&byte| byte == b'/').count();
    !target.starts_with(b"/") && up <= above && !parts().skip(up).any(|part| part == b"..")
}

/// Checks the target of a link: only its length and NUL bytes.
pub(super) fn target(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let refused = ParseError::Field { field: "link target", value: bytes.len() as u64 };
    if bytes.is_empty() || bytes.len() > LINK_TARGET_MAX_LEN || bytes.contains(&0) {
        return Err(refused);
    }
    Ok(bytes)
}

/// Maximum length of a link's target in bytes.
pub const LINK_TARGET_MAX_LEN: usize = 4095;
