//! A request of a story, the answer that was recorded, and where both are stored.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    merge_patch::{difference, merge},
    requests::insert_all,
};

/// A request, and how it is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Step {
    /// `METHOD path header:value …`, with `~` for blanks in a value; MERGE, JSON, STRATEGIC and APPLY are patches.
    pub(crate) request: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) body: Value,
    /// A name under which later requests find the resource version and the UID of the answer: `$name` and `$name.uid`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The code to wait for: the request is repeated until it has this code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u16>,
}

/// A request with the answer to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    #[serde(flatten)]
    pub(crate) step: Step,
    #[serde(default)]
    pub(crate) code: u16,
    /// Warnings of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// The normalized answer, or what to change in that of the line `like`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) answer: Value,
    /// The line (from 1) that has nearly the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) like: Option<usize>,
}

/// The folder of this test.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

/// Returns the files of a folder with this extension by their names.
pub(crate) fn files(folder: &Path, extension: &str) -> BTreeMap<String, PathBuf> {
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|own| own == extension))
        .map(|path| {
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                path,
            )
        })
        .collect()
}

/// Writes a story, with each answer as a change of an earlier one if that is shorter.
pub(crate) fn write(path: &Path, exchanges: &[Exchange]) {
    let mut text = String::new();
    for (index, exchange) in exchanges.iter().enumerate() {
        let mut line = exchange.clone();
        let mut length = exchange.answer.to_string().len() / 2;
        for (like, earlier) in exchanges[..index].iter().enumerate().rev() {
            let patch = difference(&earlier.answer, &exchange.answer);
            let patched = patch.to_string().len();
            if patched < length && restore(&earlier.answer, &patch) == exchange.answer {
                length = patched;
                (line.like, line.answer) = (Some(like + 1), patch);
            }
        }
        text += &serde_json::to_string(&line).unwrap();
        text.push('\n');
    }
    fs::write(path, text).unwrap();
}

fn restore(like: &Value, patch: &Value) -> Value {
    let mut answer = like.clone();
    merge(&mut answer, patch);
    answer
}

/// Reads a story with all its answers.
pub(crate) fn read(path: &Path) -> Vec<Exchange> {
    let text = fs::read_to_string(path).unwrap();
    let mut exchanges = Vec::<Exchange>::new();
    for line in text.lines() {
        let mut exchange: Exchange = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()));
        if let Some(like) = exchange.like {
            exchange.answer = restore(&exchanges[like - 1].answer, &exchange.answer);
        }
        exchanges.push(exchange);
    }
    exchanges
}

/// What later requests may name: `$VERSION`, `$UID` and `$CONTINUE` of the newest answer that had them, and those of named answers.
#[derive(Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn of_story(namespace: &str) -> Self {
        let known = [
            ("$NS", namespace.to_owned()),
            ("$LARGE", "x".repeat(3 << 20)),
            ("$DEEP", "[".repeat(100_000)),
            ("$LONG", "m".repeat(129)),
        ];
        Self(known.map(|(name, value)| (name.to_owned(), value)).into())
    }

    pub(crate) fn learn(&mut self, step: &Step, answer: &Value) {
        let metadata = &answer["metadata"];
        for (name, field) in [
            ("$UID", "uid"),
            ("$VERSION", "resourceVersion"),
            ("$CONTINUE", "continue"),
        ] {
            if let Some(value) = metadata[field].as_str() {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
        if let Some(name) = &step.name {
            for (name, field) in [
                (format!("${name}"), "resourceVersion"),
                (format!("${name}.uid"), "uid"),
            ] {
                self.0.insert(
                    name,
                    metadata[field].as_str().unwrap_or_default().to_owned(),
                );
            }
        }
    }

    pub(crate) fn insert(&self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_owned();
        }
        // the longest names first: `$a.uid` before `$a`
        self.0
            .iter()
            .rev()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(name, value)
            })
    }

    pub(crate) fn insert_all(&self, value: &Value) -> Value {
        insert_all(value, &|text| self.insert(text))
    }
}
