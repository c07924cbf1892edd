//! docs/mesh-behaviour.md is true of the tree: each test that it names exists, words of refusals are said somewhere, and rows that tests of
//! EdgeMesh name are rows of the page.

use std::{collections::BTreeSet, fs, path::Path};

use super::{is_test, root, sources};

/// A row: its number, how EdgeMesh does it, and what holds it.
struct Row {
    number: u32,
    how: String,
    held_by: Vec<String>,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/mesh-behaviour.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = cells[0].parse().ok()?;
        assert_eq!(cells.len(), 5, "{line}");
        let held_by = cells[4]
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        Some(Row {
            number,
            how: cells[2].to_owned(),
            held_by,
        })
    };
    page.lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(row)
        .collect()
}

#[test]
fn every_row_of_the_page_is_held() {
    let (rows, sources) = (rows(), sources());
    let numbers: BTreeSet<_> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers.len(), rows.len(), "each number once");
    let mut wrong = Vec::new();
    for row in &rows {
        let missing: Vec<_> = match row.how.as_str() {
            "same" | "other" => row
                .held_by
                .iter()
                .filter(|name| {
                    !sources
                        .iter()
                        .any(|(_, text)| text.contains(&format!("fn {name}(")))
                })
                .collect(),
            "refused" => {
                let of_mesh =
                    |path: &Path| path.components().any(|part| part.as_os_str() == "edgemesh");
                let is_said = |words: &str| {
                    sources
                        .iter()
                        .any(|(path, text)| of_mesh(path) && !is_test(path) && text.contains(words))
                };
                row.held_by.iter().filter(|words| !is_said(words)).collect()
            }
            "absent" if row.held_by.is_empty() => continue,
            other => panic!("row {}: {other:?} is no word of this page", row.number),
        };
        if row.held_by.is_empty() || !missing.is_empty() {
            wrong.push(format!("row {}: {missing:?}", row.number));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let tested = rows
        .iter()
        .filter(|row| ["same", "other"].contains(&row.how.as_str()))
        .count();
    assert!(tested >= 60, "{tested} rows are tested");
}

#[test]
fn rows_that_tests_name_are_rows_of_the_page() {
    let numbers: BTreeSet<_> = rows().iter().map(|row| row.number).collect();
    let of_mesh = sources()
        .into_iter()
        .filter(|(path, _)| path.components().any(|part| part.as_os_str() == "edgemesh"));
    for (path, text) in of_mesh {
        for part in text
            .split("row ")
            .skip(1)
            .chain(text.split("rows ").skip(1))
        {
            let number: String = part.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(number) = number.parse() {
                assert!(
                    numbers.contains(&number),
                    "{}: row {number}",
                    path.display()
                );
            }
        }
    }
}
