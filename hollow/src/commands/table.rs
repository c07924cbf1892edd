//! Prints tables for people, as kubectl does.

use std::fmt;

use jiff::Timestamp;

/// A table whose columns are as wide as their widest cell.
pub(super) struct Table(Vec<Vec<String>>);

/// The number of spaces between two columns.
const GAP: usize = 3;

impl Table {
    /// Creates a table with these headings.
    pub(super) fn new(columns: &[&str]) -> Self {
        Self(vec![
            columns.iter().map(|&column| column.to_owned()).collect(),
        ])
    }

    /// Creates a table without headings.
    pub(super) fn without_head() -> Self {
        Self(Vec::new())
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.0
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        for row in &self.0 {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = width(column) + GAP;
                line.push_str(&format!("{cell:<pad$}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Returns how long ago something was, in one unit.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
