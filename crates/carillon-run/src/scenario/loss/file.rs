//! Loss files: one row for each packet, one column for each receiver, `1` where the packet is lost.

/// Loss file as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LossFile {
    /// Number of receivers.
    pub columns: usize,
    /// Fates row by row; true is lost.
    pub fates: Vec<bool>,
}

/// Error in a loss file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LossFileError {
    /// Line, counted from 1; 0 is the whole file.
    line: usize,
    /// Column of the text in characters, counted from 1; 0 is the whole line.
    column: usize,
    problem: String,
}

impl std::fmt::Display for LossFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.problem),
            (line, 0) => write!(f, "line {line}: {}", self.problem),
            (line, column) => write!(f, "line {line}, column {column}: {}", self.problem),
        }
    }
}

impl LossFile {
    /// Parses rows of `0` and `1`, which blanks or commas may separate; `#` begins a comment.
    pub fn parse(text: &[u8]) -> Result<Self, LossFileError> {
        let (mut columns, mut fates) = (0, Vec::new());
        for (line, row) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let before = fates.len();
            let row = row.split(|&byte| byte == b'#').next().unwrap_or_default();
            for (at, &byte) in row.iter().enumerate() {
                match byte {
                    b'0' | b'1' => fates.push(byte == b'1'),
                    b' ' | b'\t' | b'\r' | b',' => {}
                    _ => return Err(LossFileError::unexpected(line, row, at)),
                }
            }
            let count = fates.len() - before;
            if count > 0 && columns == 0 {
                columns = count;
            } else if count > 0 && count != columns {
                let problem = format!("has {count} receivers, but the first row has {columns}");
                return Err(LossFileError { line, column: 0, problem });
            }
        }
        if columns == 0 {
            let problem = "has no row: each packet has a row of 0 and 1, one for each receiver".into();
            return Err(LossFileError { line: 0, column: 0, problem });
        }
        Ok(LossFile { columns, fates })
    }

    /// Fates of the packets at one receiver, by its column from 0.
    pub fn column(&self, column: usize) -> impl Iterator<Item = bool> + '_ {
        self.fates.iter().skip(column).step_by(self.columns).copied()
    }
}

impl LossFileError {
    /// Error for a byte that is neither a fate nor a separator.
    fn unexpected(line: usize, row: &[u8], at: usize) -> Self {
        let before = String::from_utf8_lossy(&row[..at]);
        let rest = String::from_utf8_lossy(&row[at..]);
        let found: String = rest.chars().next().into_iter().flat_map(char::escape_default).collect();
        let problem = format!("`{found}` is neither 0 (received) nor 1 (lost)");
        LossFileError { line, column: before.chars().count() + 1, problem }
    }
}
