//! Texts that programs print: metrics' HELP lines are those of the pages, and errors, HELP lines and descriptions of custom resources use
//! the words of the product.

use std::{collections::BTreeMap, fs};

use super::{is_test, none, root, sources};

/// Metrics of Kubernetes' components, whose HELP lines are Kubernetes' own.
const OF_KUBERNETES: [&str; 8] = [
    "kubelet_",
    "container_",
    "pod_",
    "node_",
    "machine_",
    "process_",
    "prober_",
    "resource_scrape_error",
];

/// Phrases that errors, HELP lines and descriptions do not contain, each with a replacement.
const BANNED: [(&str, &str); 36] = [
    ("told", "reported, shown"),
    ("tells", "reports, shows"),
    ("anew", "again"),
    ("made", "created"),
    ("goes before", "overrides"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("is over", "has ended"),
    ("gone", "deleted, no longer exists"),
    ("let in", "accepted"),
    ("left out", "skipped"),
    ("leave out", "omit, remove"),
    ("take away", "remove"),
    ("taken away", "removed"),
    ("taken back", "revoked"),
    ("under way", "running, open"),
    ("broke off", "was interrupted"),
    ("come about", "succeed"),
    ("not among them", "without"),
    ("looked at", "processed"),
    ("heard of", "(name the message)"),
    ("let be", "ignored"),
    ("stands", "is"),
    ("so many", "the number"),
    ("so long", "the duration"),
    ("good at this time", "valid now"),
    ("where something", "if something"),
    ("on purpose", "by fault injection"),
    ("nothing between", "no proxy or firewall"),
    ("something between", "a proxy or firewall"),
    ("as it should be", "(name the difference)"),
    ("may stand", "is allowed"),
    ("stand:", "are:"),
    ("span of time", "duration"),
    ("if not given", "Default:"),
    ("others than", "clients other than"),
];

/// Whether `text` has `phrase` as whole words.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

fn banned_phrases(place: &str, text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let found = BANNED
        .iter()
        .filter(|(phrase, _)| has_words(&lower, phrase));
    found
        .map(|(phrase, better)| format!("{place}: {phrase:?}: {better}: {text}"))
        .collect()
}

/// The text of a source without its tests, with each literal on one line.
fn joined_literals(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// The sources of shipped programs, by path.
fn shipped_sources() -> BTreeMap<String, String> {
    let of_tests = [
        "tests/",
        "e2e/",
        "bench/",
        "fuzz/",
        "simulated/",
        "testkit/",
        "examples/",
    ];
    let mut found = BTreeMap::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let path = path.strip_prefix(root()).unwrap().display().to_string();
        if !of_tests.iter().any(|folder| path.starts_with(folder)) {
            found.insert(path, joined_literals(&text));
        }
    }
    found
}

/// The literals of `text` that follow `start`, up to the first semicolon.
fn literals_after<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let is_text = |literal: &&str| literal.contains(' ') && !literal.contains('\n');
    text.match_indices(start)
        .filter_map(|(at, _)| {
            let rest = &text[at + start.len()..];
            let begin = rest.find('"')?;
            let literal = rest[begin + 1..].split('"').next()?;
            (begin < 200 && !rest[..begin].contains(';')).then_some(literal)
        })
        .filter(is_text)
        .collect()
}

/// The meanings of metrics as plain text, by the metric's name.
fn documented_meanings() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for page in ["docs/metrics.md", "docs/metrics-cloudsim.md"] {
        for line in fs::read_to_string(root().join(page)).unwrap().lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, name, "counter" | "gauge" | "histogram", _, meaning, ..] = cells[..] else {
                continue;
            };
            // a link in brackets is only for the page
            let meaning = match meaning.split_once(" ([") {
                Some((text, _)) => text,
                None => meaning,
            };
            let name = name.trim_matches('`').to_owned();
            found.insert(name, format!("{}.", meaning.replace('`', "")));
        }
    }
    found
}

#[test]
fn help_lines_of_metrics_are_the_meanings_of_the_pages() {
    let sources = shipped_sources();
    let meanings = documented_meanings();
    let own = meanings
        .iter()
        .filter(|(name, _)| !OF_KUBERNETES.iter().any(|start| name.starts_with(start)));
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, meaning) in own {
        count += 1;
        let name = format!("\"{name}\"");
        let has_name = sources.values().filter(|text| text.contains(&name));
        if !has_name
            .into_iter()
            .any(|text| text.contains(&format!("\"{meaning}\"")))
        {
            wrong.push(format!("{name}: the page has {meaning:?}"));
        }
        wrong.extend(banned_phrases(&name, meaning));
    }
    assert!(count > 60, "{count} metrics");
    none("HELP lines are the meanings of the pages", wrong);
}

#[test]
fn errors_use_the_words_of_the_product() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, text) in shipped_sources() {
        for start in [
            "#[error(",
            "bail!(",
            "anyhow!(",
            "ensure!(",
            ".context(",
            ".with_context(",
        ] {
            for literal in literals_after(&text, start) {
                count += 1;
                wrong.extend(banned_phrases(&path, literal));
            }
        }
    }
    assert!(count > 500, "{count} errors");
    none("errors name cause and cure in usual words", wrong);
}

#[test]
fn descriptions_of_custom_resources_use_the_words_of_the_product() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, text) in shipped_sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crds/src/") && !path.contains("/bin/"))
    {
        let docs = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("/// "));
        for line in docs {
            count += 1;
            wrong.extend(banned_phrases(&path, line));
            if ["Its ", "It ", "What ", "Where ", "Which ", "How "]
                .iter()
                .any(|start| line.starts_with(start))
            {
                wrong.push(format!("{path}: does not begin with a noun: {line}"));
            }
        }
    }
    assert!(count > 200, "{count} descriptions");
    none("a description names the thing and its unit", wrong);
}
