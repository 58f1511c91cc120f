//! Names below the receiver's directory, and the targets of symbolic links. Both are bytes, as on the systems they come from.

use std::fmt::{self, Write as _};
use std::ops::Deref;

use crate::ParseError;

/// A path that stays below the directory it is joined to: components separated by `/`, none of them empty, `.` or `..`,
/// none with a NUL byte, none longer than file systems support. All other bytes are allowed, whether they are UTF-8 or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativePath<'a>(&'a [u8]);

impl<'a> RelativePath<'a> {
    /// The longest path, in bytes.
    pub const MAX_LEN: usize = 4096;

    /// The longest component, in bytes.
    pub const MAX_NAME_LEN: usize = 255;

    /// The most components: receivers may hold a handle for each.
    pub const MAX_DEPTH: usize = 128;

    /// `None` if the path is not of this kind or too long.
    pub fn new(path: &'a (impl AsRef<[u8]> + ?Sized)) -> Option<Self> {
        let (mut components, mut start) = (0, 0);
        let bytes = path.as_ref();
        // Length first: no time is spent on a path that is refused anyway.
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

    /// The path.
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

/// The path as text, with bytes that are not UTF-8 as `\xNN`. Control characters stay as they are.
impl fmt::Display for RelativePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, |f, valid| f.write_str(valid))
    }
}

/// A name or link target in quotes, for logs: characters are escaped as in a Rust string, bytes that are not UTF-8 as `\xNN`.
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

/// Whether a symbolic link at this path with this target leads to somewhere below the directory that
/// the path is relative to, whatever other such links are on its way.
///
/// It does if the target is relative, and `..` comes at its beginning only, and not more often than
/// the link has directories above it. Behind a name, `..` could stand behind another link, and then
/// leads up from where that one leads.
pub fn link_stays_below(path: &RelativePath<'_>, target: &(impl AsRef<[u8]> + ?Sized)) -> bool {
    let target = target.as_ref();
    let parts = || target.split(|&byte| byte == b'/');
    let up = parts().take_while(|&part| part == b"..").count();
    let above = path.iter().filter(|&&byte| byte == b'/').count();
    !target.starts_with(b"/") && up <= above && !parts().skip(up).any(|part| part == b"..")
}

/// The target of a link: no more is asked of it than that it can be one.
pub(super) fn target(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let refused = ParseError::Field { field: "link target", value: bytes.len() as u64 };
    if bytes.is_empty() || bytes.len() > LINK_TARGET_MAX_LEN || bytes.contains(&0) {
        return Err(refused);
    }
    Ok(bytes)
}

/// The longest target of a link, in bytes.
pub const LINK_TARGET_MAX_LEN: usize = 4095;
