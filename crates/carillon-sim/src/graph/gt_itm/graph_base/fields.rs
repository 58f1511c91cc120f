//! Fields of records, which may continue over the lines of a GraphBase file.

use super::checksum::Checksum;
use crate::graph::topology::TopologyError;

/// Type of a utility field: a letter of `util_types`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// `Z`: the field is not in the file.
    Absent,
    /// `I`: a whole number.
    Number,
    /// `V`: a vertex.
    Vertex,
    /// `S`: a string.
    Text,
    /// `A`: an arc.
    Arc,
}

impl Kind {
    /// Type of this letter.
    pub(super) fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'Z' => Kind::Absent,
            'I' => Kind::Number,
            'V' => Kind::Vertex,
            'S' => Kind::Text,
            'A' => Kind::Arc,
            _ => return None,
        })
    }
}

/// Position of the parser: a line and its unread part.
pub(super) struct Fields<'a> {
    lines: std::str::Lines<'a>,
    /// Number of the line, counted from 1.
    line: usize,
    rest: &'a str,
    /// True if no line is left.
    ended: bool,
    /// True if the next field is the first of its record.
    first: bool,
    /// Number of vertices and of arcs in the file.
    counts: [u64; 2],
    checksum: Checksum,
}

impl<'a> Fields<'a> {
    /// Parser that begins on the line behind the header, which is line `header`.
    pub(super) fn new(lines: std::str::Lines<'a>, header: usize, counts: [u64; 2]) -> Self {
        let checksum = Checksum::default();
        let mut fields =
            Fields { lines, line: header, rest: "", ended: false, first: true, counts, checksum };
        fields.next_line();
        fields
    }

    /// Reads the line before a part of the file, such as `* Arcs`.
    pub(super) fn section(&mut self, name: &str, behind: &str) -> Result<(), TopologyError> {
        if self.rest != name {
            return Err(self.fail(format!("expected the line `{name}` {behind}")));
        }
        self.next_line();
        Ok(())
    }

    /// Reads the last line with the checksum of the preceding ones.
    pub(super) fn end(&mut self) -> Result<(), TopologyError> {
        let Some(number) = self.rest.strip_prefix("* Checksum ") else {
            return Err(self.fail("expected the line `* Checksum` behind the arcs that the header counts"));
        };
        let Ok(number) = number.trim().parse::<i64>() else {
            return Err(self.fail("expected `* Checksum` and a number"));
        };
        let is = self.checksum.value();
        // A negative checksum is not verified.
        if number >= 0 && number as u64 != is {
            let problem =
                format!("the checksum of the lines before is {is}, not {number}: the file is damaged");
            return Err(self.fail(format!("{problem} (`* Checksum -1` leaves it unchecked)")));
        }
        Ok(())
    }

    /// Returns true if the records end here: another section begins, or nothing is left.
    pub(super) fn at_section(&self) -> bool {
        self.ended || self.rest.starts_with('*')
    }

    /// Reads a string, which may continue over several lines.
    pub(super) fn text(&mut self, what: &str) -> Result<String, TopologyError> {
        self.separator(what)?;
        let Some(rest) = self.rest.strip_prefix('"') else {
            return Err(self.expected(what, "in double quotes"));
        };
        self.rest = rest;
        let mut text = String::new();
        loop {
            let (part, over) = match (self.rest.split_once('"'), self.rest.strip_suffix('\\')) {
                (Some((part, rest)), _) => {
                    self.rest = rest;
                    (part, true)
                }
                (None, Some(part)) => (part, false),
                (None, None) => {
                    let how = "to end with a double quote, or its line with a backslash";
                    return Err(self.expected(what, how));
                }
            };
            if text.len() + part.len() > MAX_STRING_LEN {
                return Err(self.expected(what, "of at most 4095 characters"));
            }
            text.push_str(part);
            if over {
                return Ok(text);
            }
            self.next_line();
        }
    }

    /// Reads a whole number.
    pub(super) fn number(&mut self, what: &str) -> Result<i64, TopologyError> {
        self.separator(what)?;
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let digits = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = self.rest.split_at(digits + usize::from(self.rest.starts_with('-')));
        let number = number.parse().map_err(|_| self.expected(what, "as a whole number"))?;
        self.rest = rest;
        Ok(number)
    }

    /// Reads a reference to a vertex; `0` and `1` are none.
    pub(super) fn vertex(&mut self, what: &str) -> Result<Option<usize>, TopologyError> {
        self.pointer(what, 'V', self.counts[0], &["0", "1"])
    }

    /// Reads a reference to an arc; `0` is none.
    pub(super) fn arc(&mut self, what: &str) -> Result<Option<usize>, TopologyError> {
        self.pointer(what, 'A', self.counts[1], &["0"])
    }

    /// Reads utility fields and discards them.
    pub(super) fn utilities(&mut self, kinds: &[Kind]) -> Result<(), TopologyError> {
        for kind in kinds {
            match kind {
                Kind::Absent => {}
                Kind::Number => drop(self.number("a utility field")?),
                Kind::Vertex => drop(self.vertex("a utility field")?),
                Kind::Text => drop(self.text("a utility field")?),
                Kind::Arc => drop(self.arc("a utility field")?),
            }
        }
        Ok(())
    }

    /// Requires that the record and its line end here.
    pub(super) fn end_record(&mut self) -> Result<(), TopologyError> {
        if !self.rest.is_empty() {
            return Err(self.fail(format!("expected the record to end before `{}`", start(self.rest))));
        }
        self.first = true;
        self.next_line();
        Ok(())
    }

    /// Number of the line.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Error at the current line.
    pub(super) fn fail(&self, problem: impl Into<String>) -> TopologyError {
        let problem = match self.ended {
            false => problem.into(),
            true => format!("{}, but the file ends here", problem.into()),
        };
        TopologyError { line: self.line, problem }
    }

    /// Goes on to the next line.
    fn next_line(&mut self) {
        match self.lines.next() {
            None => (self.rest, self.ended) = ("", true),
            Some(text) => {
                self.line += 1;
                self.rest = text.trim_end_matches(' ');
                // Lines between records are not in the checksum.
                if !text.starts_with('*') {
                    self.checksum.add_line(text);
                }
            }
        }
    }

    /// Reads the comma before a field that is not the first of its record; the field may follow on the next line.
    fn separator(&mut self, what: &str) -> Result<(), TopologyError> {
        if std::mem::replace(&mut self.first, false) {
            return Ok(());
        }
        let Some(rest) = self.rest.strip_prefix(',') else {
            return Err(self.expected(what, "behind a comma"));
        };
        self.rest = rest;
        if rest.is_empty() {
            self.next_line();
        }
        Ok(())
    }

    fn pointer(
        &mut self,
        what: &str,
        letter: char,
        count: u64,
        none: &[&str],
    ) -> Result<Option<usize>, TopologyError> {
        self.separator(what)?;
        let digits = self.rest.strip_prefix(letter).unwrap_or(self.rest);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &digits[..digits.len() - rest.len()];
        let number = match self.rest.starts_with(letter) {
            true => digits.parse::<u64>().ok().filter(|&number| number < count),
            false if none.contains(&digits) => None,
            false => return Err(self.expected(what, &format!("as `{letter}` and a number, or 0"))),
        };
        if number.is_none() && self.rest.starts_with(letter) {
            let how = format!("as `{letter}` and a number below {count}, or 0");
            return Err(self.expected(what, &how));
        }
        self.rest = rest;
        // The number is below a count of the header, so it fits an index; the record itself may come later.
        Ok(number.map(|number| number as usize))
    }

    fn expected(&self, what: &str, how: &str) -> TopologyError {
        let found = match self.rest {
            "" => "nothing".to_owned(),
            rest => format!("`{}`", start(rest)),
        };
        self.fail(format!("expected {what} {how}, found {found}"))
    }
}

/// Beginning of a text that may be long, for a message of one line.
fn start(text: &str) -> String {
    text.chars().take(20).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Maximum length of a string that GraphBase saves.
const MAX_STRING_LEN: usize = 4095;
