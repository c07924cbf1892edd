//! docs/mesh-behaviour.md matches the sources. `tests/coverage/mesh-behaviour.txt` names existing tests for each row that the page calls
//! same or other. The log has the words that the page quotes for each refused row. Rows that tests of EdgeMesh name are rows of the page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{is_test, root, sources};

/// The number of a row, the page's word for the case, and how EdgeMesh behaves.
type Row = (u32, String, String);

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/mesh-behaviour.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = cells[0].parse().ok()?;
        assert_eq!(cells.len(), 4, "{line}");
        Some((number, cells[2].to_owned(), cells[3].to_owned()))
    };
    page.lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(row)
        .collect()
}

/// The names of the tests of each row.
fn coverage() -> BTreeMap<u32, Vec<String>> {
    let text = fs::read_to_string(root().join("tests/coverage/mesh-behaviour.txt")).unwrap();
    let entry = |line: &str| {
        let (number, names) = line.split_once(": ").expect("NUMBER: TEST, …");
        let names = names.split(", ").map(str::to_owned).collect();
        (number.parse().expect("the number of a row"), names)
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(entry)
        .collect()
}

#[test]
fn every_row_of_the_mesh_page_is_tested_or_logged() {
    let (rows, mut coverage, sources) = (rows(), coverage(), sources());
    let numbers: BTreeSet<_> = rows.iter().map(|(number, ..)| number).collect();
    assert_eq!(numbers.len(), rows.len(), "each number once");
    let of_mesh = |path: &Path| path.components().any(|part| part.as_os_str() == "edgemesh");
    let is_test_name = |name: &String| {
        let head = format!("fn {name}(");
        sources.iter().any(|(_, text)| text.contains(&head))
    };
    let is_logged = |words: &str| {
        sources
            .iter()
            .any(|(path, text)| of_mesh(path) && !is_test(path) && text.contains(words))
    };
    let (mut wrong, mut tested) = (Vec::new(), 0);
    for (number, word, behaviour) in &rows {
        let tests = coverage.remove(number).unwrap_or_default();
        let is_right = match word.as_str() {
            "same" | "other" => {
                tested += 1;
                !tests.is_empty() && tests.iter().all(is_test_name)
            }
            "refused" => behaviour
                .split_once('“')
                .and_then(|(_, rest)| rest.split('”').next())
                .is_some_and(is_logged),
            "absent" => true,
            other => panic!("row {number}: the page does not define the word {other:?}"),
        };
        if !is_right {
            wrong.push(format!("row {number}: {behaviour}; tests: {tests:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(coverage.is_empty(), "no rows of the page: {coverage:?}");
    assert!(tested >= 60, "{tested} rows are tested");
}

#[test]
fn rows_that_tests_name_are_rows_of_the_page() {
    let numbers: BTreeSet<_> = rows().into_iter().map(|(number, ..)| number).collect();
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
