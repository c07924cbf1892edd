//! Parses a scenario file, and continues after an error, so that all of them are reported. Pure.

use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::nearest;

/// The most errors that are reported for a file.
const MAX_ERRORS: usize = 20;

/// An error in a scenario file: where, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", place(*line))]
pub struct Faulty {
    /// The line, counted from 1; 0 if the error concerns the whole file.
    pub line: u64,
    /// What is wrong, and the cure.
    pub what: String,
}

fn place(line: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    }
}

/// Parses a scenario. An invalid step or node is reported, and replaced by a placeholder on the same lines before the file is parsed
/// again. Returns no scenario if the rest is invalid, too.
pub(super) fn parse_all<T: DeserializeOwned>(text: &str) -> (Option<T>, Vec<Faulty>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut faults: Vec<Faulty> = Vec::new();
    loop {
        let fault = match parse(&lines.join("\n")) {
            Ok(scenario) => return (Some(scenario), faults),
            Err(fault) => fault,
        };
        let at = usize::try_from(fault.line).unwrap_or_default();
        let replaced = replace_item(&mut lines, at) || remove_unknown_key(&mut lines, at, &fault);
        // An error elsewhere may follow from the replacements.
        if replaced || faults.is_empty() {
            faults.push(fault);
        }
        if !replaced || faults.len() == MAX_ERRORS {
            return (None, faults);
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Faulty> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |place| place.line());
        let said = error.without_snippet().to_string();
        let said = said
            .rsplit_once(" at line ")
            .map_or(said.as_str(), |(said, _)| said);
        Faulty {
            line,
            what: format!("{}; see docs/scenarios.md", explain(said)),
        }
    })
}

/// Replaces the step or node that contains this line, counted from 1. Returns false if there is none.
fn replace_item(lines: &mut [String], at: usize) -> bool {
    let Some((section, item)) = item_at(lines, at) else {
        return false;
    };
    let placeholder = match section.as_str() {
        "steps" => "pause: 0s".to_owned(),
        "nodes" => format!("name: invalid-{}", item.start),
        _ => return false,
    };
    let indent = indentation(&lines[item.start]);
    let replacement = format!("{}- {placeholder}", " ".repeat(indent));
    // a placeholder with an error would be replaced for ever
    if lines[item.start] == replacement {
        return false;
    }
    lines[item.clone()].iter_mut().for_each(String::clear);
    lines[item.start] = replacement;
    true
}

/// Removes a line with an unknown key of the file itself.
fn remove_unknown_key(lines: &mut [String], at: usize, fault: &Faulty) -> bool {
    let line = at.checked_sub(1).and_then(|at| lines.get_mut(at));
    match line {
        Some(line) if fault.what.starts_with("unknown field") && is_key(line) => {
            line.clear();
            true
        }
        _ => false,
    }
}

/// Returns the key of the file that contains this line, and the lines of the item in its list.
fn item_at(lines: &[String], at: usize) -> Option<(String, Range<usize>)> {
    let at = at.checked_sub(1).filter(|at| *at < lines.len())?;
    let key = (0..=at).rev().find(|line| is_key(&lines[*line]))?;
    let end = (key + 1..lines.len()).find(|line| is_key(&lines[*line]));
    let end = end.unwrap_or(lines.len());
    let is_item = |line: &usize| lines[*line].trim_start().starts_with("- ");
    let indent = indentation(&lines[(key + 1..end).find(is_item)?]);
    let begins = |line: &usize| is_item(line) && indentation(&lines[*line]) == indent;
    let start = (key + 1..=at).rev().find(begins)?;
    let next = (start + 1..end).find(begins).unwrap_or(end);
    let (name, _) = lines[key].split_once(':')?;
    Some((name.trim().to_owned(), start..next))
}

/// Reports whether the line begins with a key of the file itself.
fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| c.is_alphanumeric()) && line.contains(':')
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns a parser's message; for an unknown word, with the nearest known one instead of a list.
fn explain(said: &str) -> String {
    let short = limits::excerpt(said);
    let Some((unknown, list)) = said.split_once(", expected ") else {
        return short;
    };
    let mut parts = unknown.split('`');
    let (Some(kind @ ("unknown field " | "unknown variant ")), Some(name)) =
        (parts.next(), parts.next())
    else {
        return short;
    };
    let list = list.trim_start_matches("one of ").replace('`', "");
    let known: Vec<&str> = list
        .split(", ")
        .flat_map(|part| part.split(" or "))
        .collect();
    let kind = kind.trim_end().replace("variant", "word");
    match nearest(name, known.iter().copied()) {
        near if near.is_empty() => format!("{kind} {name:?}; known: {list}"),
        near => format!("{kind} {name:?}{near}"),
    }
}
