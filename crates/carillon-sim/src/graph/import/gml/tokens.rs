//! Tokens of GML.

use std::fmt;

use crate::graph::topology::TopologyError;

/// Token of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Key or number.
    Word(&'a str),
    /// Content of a string, with its character entities.
    Text(&'a str),
    /// `[`
    Open,
    /// `]`
    Close,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Words of a broken file can be long.
            Token::Word(word) => write!(f, "`{}`", word.chars().take(40).collect::<String>()),
            Token::Text(_) => f.write_str("a string"),
            Token::Open => f.write_str("`[`"),
            Token::Close => f.write_str("`]`"),
        }
    }
}

/// Reader of tokens with the number of the current line.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Tokens { rest: text.trim_start_matches('\u{feff}'), line: 1 }
    }

    /// Line of the last token.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Next token with the line on which it begins; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Token<'a>)>, TopologyError> {
        self.skip_blanks();
        let line = self.line;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '[' => (Token::Open, 1),
            ']' => (Token::Close, 1),
            '"' => {
                let Some(length) = self.rest[1..].find('"') else {
                    let problem = "a string without end: expected `\"`".into();
                    return Err(TopologyError { line, problem });
                };
                (Token::Text(&self.rest[1..=length]), length + 2)
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"');
                let length = self.rest.find(ends).unwrap_or(self.rest.len());
                (Token::Word(&self.rest[..length]), length)
            }
        };
        self.advance(token.1);
        Ok(Some((line, token.0)))
    }

    /// Skips blanks, and comments from a `#` to the end of the line.
    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            if !self.rest.starts_with('#') {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.bytes().filter(|&byte| byte == b'\n').count();
        self.rest = rest;
    }
}

/// String with its character entities resolved: `&amp;`, `&quot;`, `&#233;` and the like. Unknown ones stay.
pub(super) fn decoded(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = rest.find(';').map(|end| (&rest[1..end], end + 1));
        match entity.and_then(|(name, length)| Some((character(name)?, length))) {
            Some((character, length)) => {
                result.push(character);
                rest = &rest[length..];
            }
            None => {
                result.push('&');
                rest = &rest[1..];
            }
        }
    }
    result + rest
}

/// Character of an entity.
fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_lines() {
        let mut tokens = Tokens::new("# a comment\ngraph[ label \"two\nlines\" id -1.5]");
        let mut all = Vec::new();
        while let Some(token) = tokens.next().expect("tokens") {
            all.push(token);
        }
        assert_eq!(
            all,
            [
                (2, Token::Word("graph")),
                (2, Token::Open),
                (2, Token::Word("label")),
                (2, Token::Text("two\nlines")),
                (3, Token::Word("id")),
                (3, Token::Word("-1.5")),
                (3, Token::Close),
            ]
        );
    }

    #[test]
    fn entities_are_resolved_and_unknown_ones_stay() {
        assert_eq!(decoded("K&#246;ln &amp; A&T &x; &#xD800;"), "Köln & A&T &x; &#xD800;");
    }
}
