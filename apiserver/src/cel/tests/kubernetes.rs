//! Expressions with what kube-apiserver 1.36 says of them: true, refused when they are stored, or failing when they are evaluated.

use super::print_value;

/// Expressions that are true.
const TRUE: &str = include_str!("true.txt");

/// `expression ⇒ fault`, without its place: what is refused when it is stored.
const REFUSED: &str = include_str!("refused.txt");

/// `expression ⇒ error`: what is stored, and fails.
const FAILING: &str = include_str!("failing.txt");

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn pairs(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(text).map(|line| {
        line.split_once(" ⇒ ")
            .unwrap_or_else(|| panic!("a row without ⇒: {line}"))
    })
}

#[track_caller]
fn nothing_differs(found: Vec<String>) {
    assert!(
        found.is_empty(),
        "{} rows differ:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn expressions_have_the_value_of_kube_apiserver() {
    assert!(lines(TRUE).count() > 400);
    let wrong = lines(TRUE)
        .map(|source| (source, print_value(source)))
        .filter(|(_, found)| found != "true");
    nothing_differs(
        wrong
            .map(|(source, found)| format!("{source}\n    is {found}"))
            .collect(),
    );
}

#[test]
fn expressions_that_kube_apiserver_refuses_are_not_stored() {
    let wrong = pairs(REFUSED).filter_map(|(source, expected)| {
        let found = print_value(source);
        // the place is told in a test of its own
        let why = found
            .strip_prefix("ERROR: <input>:")
            .map_or(found.as_str(), |rest| {
                rest.split_once(": ").map_or(rest, |(_, why)| why)
            });
        let is_refusal =
            found.starts_with("ERROR: ") || found.starts_with("program instantiation failed: ");
        (!is_refusal || why != expected)
            .then(|| format!("{source}\n    is {found}\n    not {expected}"))
    });
    nothing_differs(wrong.collect());
}

#[test]
fn errors_of_evaluation_are_those_of_kube_apiserver() {
    let wrong = pairs(FAILING).map(|(source, expected)| (source, expected, print_value(source)));
    let wrong = wrong.filter(|(_, expected, found)| found != expected);
    nothing_differs(
        wrong
            .map(|(source, expected, found)| {
                format!("{source}\n    is {found}\n    not {expected}")
            })
            .collect(),
    );
}
