//! Prints lists as `kubectl get` does: a table, a wide one, names, or a document for programs; and then what changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::{
    output::{self, warn},
    table::Table,
};
use crate::cli::{ListArgs, ListFormat};

/// How often a watched list is read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    /// Whether it is in the wide table only.
    is_wide: bool,
    /// Whether it changes by itself, as an age does.
    is_volatile: bool,
}

impl Column {
    /// Returns a column of every table.
    pub(super) const fn new(title: &'static str) -> Self {
        Self {
            title,
            is_wide: false,
            is_volatile: false,
        }
    }

    /// Returns a column of the wide table.
    pub(super) const fn wide(title: &'static str) -> Self {
        Self {
            is_wide: true,
            ..Self::new(title)
        }
    }

    /// Returns a column with the time since something.
    pub(super) const fn age(title: &'static str) -> Self {
        Self {
            is_volatile: true,
            ..Self::new(title)
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What `-o name` prints.
    pub(super) name: String,
    /// What tells this row from others.
    pub(super) id: String,
    /// A cell for each column.
    pub(super) cells: Vec<String>,
    /// The object of the row, for programs.
    pub(super) document: Value,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
    /// Printed instead of a table without rows.
    pub(super) if_empty: &'static str,
}

/// A list.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    /// The whole list, for programs.
    pub(super) document: Value,
    pub(super) tables: Vec<Rows>,
    /// Lines below the tables, for people.
    pub(super) notes: Vec<String>,
    /// What is wrong with the list, on stderr. A watch prints each warning once.
    pub(super) warnings: Vec<String>,
}

/// Prints a list; with `--watch` also its changes, until stdout is closed.
pub(super) async fn show(
    list: &ListArgs,
    read: impl AsyncFn() -> anyhow::Result<Listing>,
) -> anyhow::Result<()> {
    let first = read().await?;
    let mut seen = Seen::default();
    seen.warnings(&first).for_each(warn);
    if !output::write(&seen.whole(&first, list)?)? || !list.watch {
        return Ok(());
    }
    seen.changes(&first, list.output)?;
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let now = read().await?;
        seen.warnings(&now).for_each(warn);
        let changes = seen.changes(&now, list.output)?;
        if !changes.is_empty() && !output::write(&changes)? {
            return Ok(());
        }
    }
}

/// Returns each name once.
fn names<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut lines: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
    lines.dedup();
    lines.into_iter().map(|name| format!("{name}\n")).collect()
}

fn table_of(columns: &[Column], rows: &[Row], format: Option<ListFormat>, has_head: bool) -> Table {
    let is_shown = |column: &Column| !column.is_wide || format == Some(ListFormat::Wide);
    let head: Vec<&str> = columns
        .iter()
        .filter(|column| is_shown(column))
        .map(|column| column.title)
        .collect();
    let mut table = if has_head {
        Table::new(&head)
    } else {
        Table::without_head()
    };
    for row in rows {
        let cells = columns.iter().zip(&row.cells);
        let shown = cells.filter(|(column, _)| is_shown(column));
        table.row(shown.map(|(_, cell)| cell.clone()).collect());
    }
    table
}

/// What a watch has printed.
#[derive(Default)]
struct Seen {
    rows: BTreeMap<(usize, String), Row>,
    /// The widths of the columns of each table whose headings were printed.
    widths: BTreeMap<usize, Vec<usize>>,
    warnings: BTreeSet<String>,
}

impl Seen {
    /// Returns the text of a list.
    fn whole(&mut self, listing: &Listing, list: &ListArgs) -> anyhow::Result<String> {
        if let Some(format) = list.output.and_then(ListFormat::document) {
            return format.document(&listing.document);
        }
        if list.output == Some(ListFormat::Name) {
            return Ok(names(listing.tables.iter().flat_map(|table| &table.rows)));
        }
        let mut tables = Vec::new();
        for (index, table) in listing.tables.iter().enumerate() {
            tables.push(match table.rows.as_slice() {
                [] => format!("{}\n", table.if_empty),
                rows => self.align_rows(index, table.columns, rows, list.output),
            });
        }
        let notes = listing.notes.iter().map(|note| format!("{note}\n"));
        let notes: String = notes.collect();
        let mut text = tables.join("\n");
        if !notes.is_empty() {
            text.push('\n');
            text.push_str(&notes);
        }
        Ok(text)
    }

    /// Returns the text of rows, aligned with those before; the first ones have headings.
    fn align_rows(
        &mut self,
        index: usize,
        columns: &[Column],
        rows: &[Row],
        format: Option<ListFormat>,
    ) -> String {
        let has_head = !self.widths.contains_key(&index);
        let widths = self.widths.entry(index).or_default();
        table_of(columns, rows, format, has_head).align(widths)
    }

    /// Returns the warnings that were not printed.
    fn warnings<'a>(&mut self, listing: &'a Listing) -> impl Iterator<Item = &'a str> {
        let printed = std::mem::replace(
            &mut self.warnings,
            listing.warnings.iter().cloned().collect(),
        );
        let warnings = listing.warnings.iter().map(String::as_str);
        warnings.filter(move |warning| !printed.contains(*warning))
    }

    /// Returns the text of the rows that have changed, appeared or disappeared.
    fn changes(&mut self, listing: &Listing, format: Option<ListFormat>) -> anyhow::Result<String> {
        let mut text = String::new();
        let mut rows = BTreeMap::new();
        for (index, table) in listing.tables.iter().enumerate() {
            let visible = |row: &Row| -> Vec<String> {
                let cells = table.columns.iter().zip(&row.cells);
                let lasting = cells.filter(|(column, _)| {
                    !column.is_volatile && (!column.is_wide || format == Some(ListFormat::Wide))
                });
                lasting.map(|(_, cell)| cell.clone()).collect()
            };
            let differs = |row: &Row, before: &Row| match format {
                Some(ListFormat::Json | ListFormat::Yaml) => row.document != before.document,
                _ => visible(row) != visible(before),
            };
            let mut changed = Vec::new();
            for row in &table.rows {
                let key = (index, row.id.clone());
                let before = self.rows.remove(&key);
                if before.is_none_or(|before| differs(row, &before)) {
                    changed.push(row.clone());
                }
                rows.insert(key, row.clone());
            }
            // Those that are left have disappeared: their last state is printed, as by kubectl.
            let gone = std::mem::take(&mut self.rows);
            for (key, row) in gone {
                if key.0 == index {
                    changed.push(row);
                } else {
                    self.rows.insert(key, row);
                }
            }
            if !changed.is_empty() {
                text.push_str(&self.of_rows(index, table.columns, &changed, format)?);
            }
        }
        self.rows = rows;
        Ok(text)
    }

    /// Returns the text of single rows.
    fn of_rows(
        &mut self,
        index: usize,
        columns: &[Column],
        rows: &[Row],
        format: Option<ListFormat>,
    ) -> anyhow::Result<String> {
        let Some(output) = format.and_then(ListFormat::document) else {
            return Ok(match format {
                Some(ListFormat::Name) => names(rows.iter()),
                _ => self.align_rows(index, columns, rows, format),
            });
        };
        let documents = rows.iter().map(|row| match format {
            Some(ListFormat::Yaml) => Ok(format!("---\n{}", output.document(&row.document)?)),
            _ => output.document(&row.document),
        });
        documents.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: [Column; 3] = [Column::new("NAME"), Column::age("AGE"), Column::wide("HUB")];

    fn listing(rows: &[[&str; 3]]) -> Listing {
        let row = |cells: &[&str; 3]| Row {
            name: format!("node/{}", cells[0]),
            id: cells[0].to_owned(),
            cells: cells.map(str::to_owned).into(),
            document: json!({"name": cells[0], "hub": cells[2]}),
        };
        let rows: Vec<Row> = rows.iter().map(row).collect();
        Listing {
            document: json!({"nodes": rows.len()}),
            tables: vec![Rows {
                columns: &COLUMNS,
                rows,
                if_empty: "no nodes",
            }],
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn every_format_prints_the_list() {
        let full = listing(&[["edge-1", "1s", "2"], ["edge-2", "2s", "3"]]);
        for (output, expected) in [
            (None, "NAME     AGE\nedge-1   1s\nedge-2   2s\n"),
            (
                Some(ListFormat::Wide),
                "NAME     AGE   HUB\nedge-1   1s    2\nedge-2   2s    3\n",
            ),
            (Some(ListFormat::Name), "node/edge-1\nnode/edge-2\n"),
            (Some(ListFormat::Json), "{\n  \"nodes\": 2\n}\n"),
            (Some(ListFormat::Yaml), "nodes: 2\n"),
        ] {
            let list = ListArgs {
                output,
                watch: false,
            };
            assert_eq!(
                Seen::default().whole(&full, &list).unwrap(),
                expected,
                "{output:?}"
            );
        }
        let empty = Seen::default()
            .whole(&listing(&[]), &ListArgs::default())
            .unwrap();
        assert_eq!(empty, "no nodes\n");
    }

    #[test]
    fn watch_prints_a_warning_once_while_it_lasts() {
        let mut seen = Seen::default();
        let rounds = [&["a"][..], &["a", "b"], &["b"], &["a"]];
        let printed = rounds.map(|warnings| {
            let list = Listing {
                warnings: warnings.iter().map(|&text| text.to_owned()).collect(),
                ..listing(&[])
            };
            let new: Vec<String> = seen.warnings(&list).map(str::to_owned).collect();
            new.concat()
        });
        assert_eq!(printed, ["a", "b", "", "a"]);
    }

    #[test]
    fn watch_prints_only_rows_that_differ_in_the_chosen_format() {
        for (output, expected) in [
            (None, ["edge-2   1s\n", "", "edge-1   9s\n"]),
            (
                Some(ListFormat::Wide),
                [
                    "edge-2   1s    3\n",
                    "edge-1   9s    7\n",
                    "edge-1   9s    7\n",
                ],
            ),
            (
                Some(ListFormat::Name),
                ["node/edge-2\n", "", "node/edge-1\n"],
            ),
            (
                Some(ListFormat::Yaml),
                [
                    "---\nname: edge-2\nhub: '3'\n",
                    "---\nname: edge-1\nhub: '7'\n",
                    "---\nname: edge-1\nhub: '7'\n",
                ],
            ),
        ] {
            let mut seen = Seen::default();
            let first = listing(&[["edge-1", "1s", "2"]]);
            let list = ListArgs {
                output,
                watch: true,
            };
            seen.whole(&first, &list).unwrap();
            seen.changes(&first, output).unwrap();
            let second = [["edge-1", "2s", "2"], ["edge-2", "1s", "3"]];
            let third = [["edge-1", "9s", "7"], ["edge-2", "2s", "3"]];
            let last = [["edge-2", "3s", "3"]];
            let printed = [&second[..], &third, &last]
                .map(|rows| seen.changes(&listing(rows), output).unwrap());
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            for (printed, expected) in printed.iter().zip(expected) {
                let quotes = |text: &str| text.replace(['\'', '"'], "");
                assert_eq!(
                    sorted(&quotes(printed)),
                    sorted(&quotes(expected)),
                    "{output:?}"
                );
            }
        }
    }

    #[test]
    fn watched_columns_stay_aligned_and_an_empty_list_gets_its_headings_later() {
        let rows: [(&[[&str; 3]], &str); 5] = [
            (&[], "no nodes\n"),
            (&[["edge-1", "1s", "2"]], "NAME     AGE\nedge-1   1s\n"),
            (&[["a", "2s", "2"]], "a        2s\nedge-1   1s\n"),
            (
                &[["edge-1000", "2s", "2"]],
                "edge-1000   2s\na           2s\n",
            ),
            (&[["b", "2s", "2"]], "b           2s\nedge-1000   2s\n"),
        ];
        let mut seen = Seen::default();
        let list = ListArgs {
            output: None,
            watch: true,
        };
        for (number, (rows, expected)) in rows.into_iter().enumerate() {
            let text = match number {
                0 => seen.whole(&listing(rows), &list),
                _ => seen.changes(&listing(rows), None),
            };
            assert_eq!(text.unwrap(), expected);
        }
    }
}
