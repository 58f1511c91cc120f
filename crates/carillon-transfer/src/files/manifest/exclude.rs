//! Patterns of entries that are left out.
//!
//! A pattern has the meaning that it has in a `.gitignore` file of the directory that is sent. Without a `/` it matches
//! names at any depth; with one at its end, directories only; with one elsewhere, the path below that directory. `*`
//! and `?` do not match a `/`, `**` does. A `!` at the beginning takes back what an earlier pattern leaves out; the
//! last pattern that matches decides. Nothing below an excluded directory is looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of entries that are left out.
#[derive(Clone, Debug, Default)]
pub struct Exclude {
    patterns: Vec<Pattern>,
    globs: GlobSet,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// True if it takes back what an earlier pattern leaves out.
    keeps: bool,
    /// True if it matches directories only.
    directories: bool,
    /// True if it matches the path below the directory that is sent, not a name.
    anchored: bool,
}

impl Exclude {
    /// Parses patterns, in order.
    ///
    /// # Errors
    /// A pattern is invalid or too long, or there are too many; the text says which one.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Exclude, String> {
        let (mut parsed, mut globs, mut bytes) = (Vec::new(), GlobSetBuilder::new(), 0);
        for text in patterns {
            let text = text.into();
            let wrong = |error: &dyn std::fmt::Display| format!("the pattern \"{text}\" is invalid: {error}");
            bytes += text.len();
            if parsed.len() >= Exclude::MAX_PATTERNS || bytes > Exclude::MAX_BYTES {
                let (count, bytes) = (Exclude::MAX_PATTERNS, Exclude::MAX_BYTES);
                return Err(format!("at most {count} patterns with {bytes} bytes are possible"));
            }
            let (keeps, rest) = text.strip_prefix('!').map_or((false, text.as_str()), |rest| (true, rest));
            let (directories, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
            let anchored = rest.contains('/');
            let rest = rest.strip_prefix('/').unwrap_or(rest);
            if rest.is_empty() || rest.contains('\0') {
                return Err(wrong(&"it matches nothing"));
            }
            let glob = GlobBuilder::new(rest).literal_separator(true).backslash_escape(true).build();
            globs.add(glob.map_err(|error| wrong(error.kind()))?);
            parsed.push(Pattern { keeps, directories, anchored, text });
        }
        let globs =
            globs.build().map_err(|error| format!("the patterns are too complex: {}", error.kind()))?;
        Ok(Exclude { patterns: parsed, globs })
    }

    /// Maximum number of patterns.
    pub const MAX_PATTERNS: usize = 1000;
    /// Maximum bytes of all patterns together, which bounds the work per entry.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Returns true if there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Texts of the patterns, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }

    /// Returns true if the entry at this path below the directory that is sent is left out. The directories above it
    /// are not asked for.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let by = |bytes| self.globs.matches(Path::new(OsStr::from_bytes(bytes)));
        let (by_path, by_name) = (by(path), by(name));
        let found = by_path.iter().filter(|&&at| self.patterns[at].anchored);
        let found = found.chain(by_name.iter().filter(|&&at| !self.patterns[at].anchored));
        let found = found.filter(|&&at| is_directory || !self.patterns[at].directories);
        found.max().is_some_and(|&at| !self.patterns[at].keeps)
    }

    /// Returns true if the entry, or a directory above it, is left out.
    pub fn matches_below(&self, path: &[u8], is_directory: bool) -> bool {
        let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        !self.is_empty()
            && (ends.into_iter().any(|end| self.matches(&path[..end], true))
                || self.matches(path, is_directory))
    }

    /// Returns true if a path of the command line is left out, which patterns with a `/` do not do.
    pub fn matches_root(&self, name: &[u8], is_directory: bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let found = self.globs.matches(Path::new(OsStr::from_bytes(name)));
        let found = found
            .iter()
            .filter(|&&at| !self.patterns[at].anchored && (is_directory || !self.patterns[at].directories));
        found.max().is_some_and(|&at| !self.patterns[at].keeps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn excludes(patterns: &[&str], directory: &str, yes: &[&str], no: &[&str]) {
        let exclude = Exclude::new(patterns.iter().copied()).expect("they are valid");
        for (paths, expected) in [(yes, true), (no, false)] {
            for path in paths {
                let found = exclude.matches_below(path.as_bytes(), directory == *path);
                assert_eq!(found, expected, "{patterns:?} and {path}");
            }
        }
    }

    #[test]
    fn patterns_match_as_in_a_gitignore_file() {
        excludes(&["*.tmp"], "", &["a.tmp", "d/e/a.tmp", ".tmp"], &["a.tmp.x", "tmp"]);
        excludes(&["/a"], "", &["a", "a/b"], &["d/a", "ab"]);
        excludes(&["d/*.o"], "", &["d/x.o"], &["d/e/x.o", "e/d/x.o", "x.o"]);
        excludes(&["d/**/x"], "", &["d/x", "d/e/f/x"], &["x", "e/d/x"]);
        excludes(&["**/x/y"], "", &["x/y", "d/x/y"], &["y", "x"]);
        excludes(&["cache/"], "cache", &["cache", "cache/x", "d/cache/x"], &["d/cache", "cached/x"]);
        excludes(&["*", "!*.c", "!*/"], "d", &["a.o", "d/a.o"], &["a.c", "d/a.c", "d"]);
        excludes(&["[ab]?c", "\\*x", "{p,q}.r"], "", &["axc", "*x", "q.r"], &["cxc", "yx", "r.r", "a/c"]);
        excludes(&["é"], "", &["é", "d/é"], &["e"]);
        excludes(&[], "", &[], &["a", ""]);
    }

    #[test]
    fn names_that_are_not_utf8_are_matched() {
        let exclude = Exclude::new(["*.tmp"]).expect("it is valid");
        assert!(exclude.matches(b"\xff\xfe.tmp", false));
        assert!(!exclude.matches(b"\xff.tmq", false));
    }

    #[test]
    fn a_path_of_the_command_line_is_matched_by_its_name() {
        let exclude = Exclude::new(["b*", "/c", "d/"]).expect("it is valid");
        let roots = [("b.txt", false), ("c", false), ("d", false), ("d", true)];
        assert_eq!(
            roots.map(|(name, directory)| exclude.matches_root(name.as_bytes(), directory)),
            [true, false, false, true]
        );
    }

    #[test]
    fn hostile_patterns_are_refused_or_cheap() {
        for bad in ["", "/", "!", "!/", "//", "[", "a\0b"] {
            // Two slashes are a path with an empty name, which nothing has.
            let found = Exclude::new([bad]);
            assert!(found.is_err() || bad == "//", "{bad:?}");
        }
        let deep = "{a,".repeat(500) + &"}".repeat(500);
        let _ = Exclude::new([deep]);
        assert!(Exclude::new(vec!["x"; Exclude::MAX_PATTERNS + 1]).is_err());
        assert!(Exclude::new(["x".repeat(Exclude::MAX_BYTES + 1)]).is_err());
        let stars = "*a".repeat(Exclude::MAX_BYTES / 2);
        let exclude = Exclude::new([stars]);
        let path = "a".repeat(255) + "b";
        assert!(exclude.is_err() || exclude.is_ok_and(|exclude| !exclude.matches(path.as_bytes(), false)));
    }
}
