//! Prints tables for people, as kubectl does.

use std::fmt;

/// A table whose columns are as wide as their widest cell.
#[derive(Debug)]
pub struct Table(Vec<Vec<String>>);

/// The number of spaces between two columns.
const GAP: usize = 3;

impl Table {
    /// Creates a table with these headings.
    pub fn new(columns: &[&str]) -> Self {
        Self(vec![
            columns.iter().map(|&column| column.to_owned()).collect(),
        ])
    }

    /// Creates a table without headings.
    pub fn without_head() -> Self {
        Self(Vec::new())
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// Returns the text. No column is narrower than in `widths`, which grow with the cells: a watched table stays aligned.
    pub fn align(&self, widths: &mut Vec<usize>) -> String {
        for row in &self.0 {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.0 {
            let cells = widths.iter().zip(row);
            let line: String = cells
                .map(|(width, cell)| format!("{cell:<pad$}", pad = width + GAP))
                .collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.align(&mut Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rows_stay_below_the_first_ones() {
        let mut widths = Vec::new();
        let mut first = Table::new(&["NAME", "STATUS"]);
        first.row(vec!["edge-1".to_owned(), "Ready".to_owned()]);
        assert_eq!(
            first.align(&mut widths),
            "NAME     STATUS\nedge-1   Ready\n"
        );
        for (name, expected) in [
            ("a", "a        Ready\n"),
            ("edge-100", "edge-100   Ready\n"),
            ("b", "b          Ready\n"),
        ] {
            let mut next = Table::without_head();
            next.row(vec![name.to_owned(), "Ready".to_owned()]);
            assert_eq!(next.align(&mut widths), expected);
        }
    }
}
