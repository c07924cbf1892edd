//! Names: functions are verbs or nouns, never a participle alone, and words with many meanings never stand alone as types.

use std::{collections::BTreeMap, path::Path};

use super::{lines, none, sources};

/// Participles that do not end in `ed`.
const IRREGULAR: [&str; 43] = [
    "begun",
    "born",
    "bought",
    "bound",
    "broken",
    "brought",
    "built",
    "caught",
    "chosen",
    "come",
    "cut",
    "done",
    "drawn",
    "driven",
    "fallen",
    "felt",
    "forgotten",
    "found",
    "given",
    "gone",
    "grown",
    "heard",
    "held",
    "hidden",
    "kept",
    "known",
    "laid",
    "left",
    "lost",
    "made",
    "meant",
    "met",
    "said",
    "seen",
    "sent",
    "shown",
    "stood",
    "taken",
    "taught",
    "thought",
    "told",
    "understood",
    "written",
];
/// Words in `ed` that are no participles.
const VERBS: [&str; 12] = [
    "bed", "embed", "exceed", "feed", "hundred", "need", "proceed", "seed", "shed", "speed",
    "succeed", "wed",
];
/// Waits of tokio's channels have these names.
const WAITS: [&str; 2] = ["changed", "closed"];
/// Methods of other crates' traits.
const FOREIGN: [&str; 1] = ["enabled"];
/// Words that say too little: at most one type of the workspace may have one as its whole name, besides private ones.
const BARE: [&str; 6] = ["Entry", "Key", "Parts", "Relay", "Rules", "State"];

/// Whether a function of this name and signature is named by a participle alone. One that returns `Self` is named by the state
/// that it begins with or changes to, as variants are.
fn is_participle(name: &str, signature: &str) -> bool {
    let is_regular = name.ends_with("ed") && !name.contains('_') && !VERBS.contains(&name);
    let is_wait = WAITS.contains(&name) && signature.contains("async fn");
    let returned = signature.split_once("-> ").map_or("", |(_, type_)| type_);
    (is_regular || IRREGULAR.contains(&name))
        && !FOREIGN.contains(&name)
        && !is_wait
        && !["Self", "Option<Self", "Result<Self", "anyhow::Result<Self"]
            .iter()
            .any(|own| returned.starts_with(own))
}

/// Returns the functions of a file that are named by a participle alone. Tests are sentences.
fn participles(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = &text[line..at];
        let is_code = before.trim().split(' ').all(|word| {
            word.is_empty() || word.starts_with("pub") || word.ends_with(')') || {
                ["async", "const", "default", "super", "in"].contains(&word)
            }
        });
        let rest = &text[at + 3..];
        let name: String = rest
            .chars()
            .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
            .collect();
        let ends = [rest.find('{'), rest.find(";\n")];
        let end = ends.into_iter().flatten().min().unwrap_or(rest.len());
        let signature = format!("{before}fn {}", &rest[..end]);
        if is_code && is_participle(&name, &signature) {
            found.push(name);
        }
    }
    found
}

#[test]
fn functions_are_not_named_by_a_participle_alone() {
    let found = sources().into_iter().flat_map(|(path, text)| {
        let line = move |name| format!("{}: {name}", path.display());
        participles(&text).into_iter().map(line).collect::<Vec<_>>()
    });
    none(
        "a function is a verb (`report`), or a noun, `is_…`, `has_…` or `to_…` if it returns something",
        found.collect(),
    );
}

#[test]
fn participles_are_told_from_other_words() {
    let found = |text: &str| participles(text).join(" ");
    assert_eq!(found("fn told() -> String {"), "told");
    assert_eq!(found("    pub(super) async fn joined(&self) {"), "joined");
    assert_eq!(
        found("pub(in crate::a) fn written(\n    a: u8,\n) {"),
        "written"
    );
    assert_eq!(found("async fn changed(&mut self) {"), "");
    assert_eq!(found("fn changed(&mut self) {"), "changed");
    assert_eq!(found("pub fn expired(why: &str) -> Self {"), "");
    assert_eq!(found("fn seed() {}\n// a fn told() {\nfn is_told() {}"), "");
}

#[test]
fn types_with_bare_names_are_unique() {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let sources = sources();
    for name in BARE {
        let is_type = |_: &Path, line: &str| {
            let mut words = line.trim().split([' ', '<', '(', ';']);
            let is_public = line.trim().starts_with("pub");
            let is_type = words.any(|word| ["struct", "enum", "type", "trait"].contains(&word));
            is_public && is_type && words.next() == Some(name)
        };
        found.insert(name, lines(&sources, is_type));
    }
    found.retain(|_, places| places.len() > 1);
    none(
        "a type that others can use says what it is: `RelayEntry`, not `Entry`",
        found.into_values().flatten().collect(),
    );
}

/// Tasks are dropped at `select!`: a comment says what that loses, in one spelling that can be searched for.
#[test]
fn cancel_safety_is_spelled_in_one_way() {
    let is_other = |_: &Path, line: &str| {
        let line = line.trim();
        let comment = line.starts_with("// ");
        comment
            && line.to_lowercase().contains("cancel-safe")
            && !line.starts_with("// cancel-safe: ")
    };
    none(
        "the comment of an arm of select! is `// cancel-safe: ` and why",
        lines(&sources(), is_other),
    );
}
