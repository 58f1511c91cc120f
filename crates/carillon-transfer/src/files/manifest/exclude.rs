//! Patterns of entries that are left out.
//!
//! A pattern has the meaning that it has in a `.gitignore` file of the directory that is sent. Without a `/` it matches
//! names at any depth; with one at its end, directories only; with one elsewhere, the path below that directory. `*`
//! and `?` do not match a `/`, `**` does. A `!` at the beginning takes back what an earlier pattern leaves out; the
//! last pattern that matches decides. Nothing below an excluded directory is looked at.

use fast_glob::{glob_match, validate};

/// Patterns of entries that are left out.
#[derive(Clone, Debug, Default)]
pub struct Exclude(Vec<Pattern>);

/// Why patterns cannot be used. The caller can change them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExcludeError {
    /// There are too many patterns, or they are too long together.
    #[error("at most {} patterns with {} bytes are possible", Exclude::MAX_PATTERNS, Exclude::MAX_BYTES)]
    TooMany,
    /// A pattern is invalid.
    #[error("the pattern \"{pattern}\" is invalid: {reason}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// Reason why it is invalid.
        reason: String,
    },
}

#[derive(Clone, Debug)]
struct Pattern {
    /// Pattern as it was given.
    text: String,
    /// Pattern of the path, or of the name.
    glob: String,
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
    /// A pattern is invalid, or there are too many.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Exclude, ExcludeError> {
        let (mut parsed, mut bytes) = (Vec::new(), 0);
        for text in patterns {
            let text = text.into();
            bytes += text.len();
            if parsed.len() >= Exclude::MAX_PATTERNS || bytes > Exclude::MAX_BYTES {
                return Err(ExcludeError::TooMany);
            }
            let pattern = Pattern::new(&text);
            parsed.push(
                pattern
                    .map_err(|reason| ExcludeError::Invalid { pattern: text, reason: reason.to_string() })?,
            );
        }
        Ok(Exclude(parsed))
    }

    /// Maximum number of patterns.
    pub const MAX_PATTERNS: usize = 1000;
    /// Maximum bytes of all patterns together, which bounds the work per entry.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Returns true if there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Texts of the patterns, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pattern| pattern.text.as_str())
    }

    /// Returns true if the entry at this path below the directory that is sent is left out. The directories above it
    /// are not asked for.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        self.decides(is_directory, |pattern| Some(if pattern.anchored { path } else { name }))
    }

    /// Returns true if the entry, or a directory above it, is left out.
    pub fn matches_below(&self, path: &[u8], is_directory: bool) -> bool {
        let mut ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        ends.any(|end| self.matches(&path[..end], true)) || self.matches(path, is_directory)
    }

    /// Returns true if a path of the command line is left out, which patterns with a `/` do not do.
    pub fn matches_root(&self, name: &[u8], is_directory: bool) -> bool {
        self.decides(is_directory, |pattern| (!pattern.anchored).then_some(name))
    }

    /// Finds the last pattern that matches what `subject` gives for it.
    fn decides<'s>(&self, is_directory: bool, subject: impl Fn(&Pattern) -> Option<&'s [u8]>) -> bool {
        let mut fitting = self.0.iter().rev().filter(|pattern| is_directory || !pattern.directories);
        let found = fitting
            .find(|pattern| subject(pattern).is_some_and(|subject| glob_match(&pattern.glob, subject)));
        found.is_some_and(|pattern| !pattern.keeps)
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern, String> {
        let (keeps, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (directories, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let anchored = rest.contains('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() || rest.contains('\0') {
            return Err("it matches nothing".to_owned());
        }
        let count = |byte| rest.bytes().filter(|found| *found == byte).count();
        if rest.len() > MAX_PATTERN_BYTES || count(b'{') > MAX_GROUPS || count(b',') > MAX_ALTERNATIVES {
            return Err(format!(
                "at most {MAX_PATTERN_BYTES} bytes, {MAX_GROUPS} braces and {MAX_ALTERNATIVES} commas are possible"
            ));
        }
        validate(rest).map_err(|error| error.to_string())?;
        // The matcher would take a further exclamation mark as a negation.
        let glob = if rest.starts_with('!') { format!("\\{rest}") } else { rest.to_owned() };
        Ok(Pattern { text: text.to_owned(), glob, keeps, directories, anchored })
    }
}

/// Maximum bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of braces in a pattern, and of commas: each combination is tried.
const MAX_GROUPS: usize = 2;
const MAX_ALTERNATIVES: usize = 64;

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
        let deep = "{a,".repeat(500) + &"}".repeat(500);
        let groups = "{a,a,a,a,a,a,a,a}".repeat(3);
        let (many, long) = (format!("{{{}}}", ",".repeat(100)), "x".repeat(2000));
        for bad in ["", "/", "!", "!/", "[", "{a", "a\\", "a\0b", &deep, &groups, &many, &long] {
            assert!(Exclude::new([bad]).is_err(), "{bad:?}");
        }
        assert!(Exclude::new(vec!["x"; Exclude::MAX_PATTERNS + 1]).is_err());
        assert!(Exclude::new(vec!["x".repeat(1000); 20]).is_err());
        let exclude = Exclude::new(["!!a", "*"]).expect("they are valid");
        assert!(exclude.matches(b"!a", false) && exclude.matches(b"b", false));
        // Much work for each entry, but not forever.
        let stars =
            Exclude::new(vec!["**/*a*".repeat(100) + "{a,b,c,d}{a,b,c,d}"; 20]).expect("they are valid");
        let path = format!("{}b", "aaaa/".repeat(800));
        assert!(!stars.matches(path.as_bytes(), false));
    }
}
