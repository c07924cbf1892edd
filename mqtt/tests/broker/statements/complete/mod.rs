//! Checks that no normative statement is forgotten: each has a row, or is listed here with the reason why it has none. The rows and tests
//! that a reason names must exist.

mod v311;
mod v5;

use std::{collections::BTreeSet, fs, path::Path};

use super::Row;

const CLIENTS: &str = "a client's duty";
const BYTES: &str = "every row compares what is sent byte by byte";
const WEBSOCKETS: &str = "the broker does not speak WebSocket";

/// A section of the specification's appendix B, and the numbers of its first and last statements.
type Section = (&'static str, u32, u32);

/// A statement without a row of its own, and the reason.
type Elsewhere = (&'static str, &'static str);

/// Returns the statements that a row names: its own, and those in its text, such as `3.3.1-8:`.
fn statement_names(rows: Vec<Row>) -> BTreeSet<String> {
    let words = rows.into_iter().flat_map(|(statement, said, _)| {
        let own = statement.strip_prefix("MQTT-").unwrap_or_default().to_owned();
        let others = said.split_whitespace().filter_map(|word| word.strip_suffix(':')).map(str::to_owned);
        others.chain([own]).collect::<Vec<_>>()
    });
    words.filter(|word| is_number(word)).collect()
}

/// Reports whether the word is a statement number such as `3.3.1-8`.
fn is_number(word: &str) -> bool {
    word.contains('-') && word.starts_with(|c: char| c.is_ascii_digit())
}

/// Checks that each statement of `sections` is in exactly one of `rows` and `elsewhere`.
fn complete(sections: &[Section], rows: Vec<Row>, elsewhere: &[Elsewhere]) {
    let of_section = |(section, first, last): &Section| (*first..=*last).map(|number| format!("{section}-{number}")).collect::<Vec<_>>();
    let all: BTreeSet<String> = sections.iter().flat_map(of_section).collect();
    let named = statement_names(rows);
    let reasoned: BTreeSet<String> = elsewhere.iter().map(|(statement, _)| (*statement).to_owned()).collect();
    assert_eq!(reasoned.len(), elsewhere.len(), "a statement has two reasons");
    let unknown: Vec<_> = named.union(&reasoned).filter(|statement| !all.contains(*statement)).collect();
    assert!(unknown.is_empty(), "no statements: {unknown:?}");
    let forgotten: Vec<_> = all.iter().filter(|statement| !named.contains(*statement) && !reasoned.contains(*statement)).collect();
    assert!(forgotten.is_empty(), "forgotten: {forgotten:?}");
    let twice: Vec<_> = named.intersection(&reasoned).collect();
    assert!(twice.is_empty(), "they have rows: {twice:?}");
    for (statement, why) in elsewhere {
        check(statement, why, &named);
    }
}

/// Checks that the rows and the tests (`slow.rs: a_test`) that a reason names exist.
fn check(statement: &str, why: &str, named: &BTreeSet<String>) {
    let words: Vec<&str> = why.split_whitespace().map(|word| word.trim_end_matches([',', ';'])).collect();
    for row in words.iter().map(|word| word.trim_end_matches(':')).filter(|word| is_number(word)) {
        assert!(named.contains(row), "{statement}: there is no row {row}");
    }
    for pair in words.windows(2) {
        let Some(file) = pair[0].strip_suffix(':').filter(|file| file.ends_with(".rs")) else { continue };
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = if file.contains('/') { directory.join(file) } else { directory.join("tests/broker").join(file) };
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{statement}: {}: {error}", path.display()));
        assert!(text.contains(&format!("fn {}(", pair[1])), "{statement}: there is no {} in {file}", pair[1]);
    }
}
