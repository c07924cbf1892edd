//! The known differences, with their reasons.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;

use super::{compare::Difference, step};

/// Differences with one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// One of [`CLASSES`].
    class: String,
    reason: String,
    #[serde(rename = "where")]
    patterns: Vec<Pattern>,
}

/// Patterns in which `*` stands for any text; one that is absent matches everything.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Pattern {
    story: Option<String>,
    request: Option<String>,
    field: Option<String>,
    real: Option<String>,
    ours: Option<String>,
}

/// The classes of reasons.
const CLASSES: [&str; 6] = [
    "fault",
    "not built",
    "text",
    "ours is better",
    "setup",
    "unspecified",
];

/// All reasons, and how many differences each has explained.
pub(crate) struct Known {
    reasons: Vec<Reason>,
    counts: Vec<Vec<usize>>,
}

impl Known {
    pub(crate) fn read() -> Self {
        let path = step::folder().join("known-differences.yaml");
        let reasons: Vec<Reason> =
            serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for Reason { class, reason, .. } in &reasons {
            assert!(
                CLASSES.contains(&class.as_str()),
                "{class} is none of {CLASSES:?}: {reason}"
            );
        }
        let counts = reasons
            .iter()
            .map(|reason| vec![0; reason.patterns.len()])
            .collect();
        Self { reasons, counts }
    }

    /// Returns whether a difference has a reason.
    pub(crate) fn explains(&mut self, difference: &Difference) -> bool {
        let mut found = false;
        for (reason, counts) in self.reasons.iter().zip(&mut self.counts) {
            for (pattern, count) in reason.patterns.iter().zip(counts) {
                if !found && pattern.matches(difference) {
                    *count += 1;
                    found = true;
                }
            }
        }
        found
    }

    /// Returns the patterns that matched nothing.
    pub(crate) fn unused_patterns(&self) -> Vec<String> {
        let all = self.reasons.iter().zip(&self.counts);
        let unused = all.flat_map(|(reason, counts)| {
            let patterns = reason
                .patterns
                .iter()
                .zip(counts)
                .filter(|(_, count)| **count == 0);
            patterns.map(|(pattern, _)| format!("{}: {pattern:?}", reason.reason))
        });
        unused.collect()
    }

    /// Returns the number of differences by class.
    pub(crate) fn by_class(&self) -> BTreeMap<&str, usize> {
        let mut classes = BTreeMap::new();
        for (reason, counts) in self.reasons.iter().zip(&self.counts) {
            *classes.entry(reason.class.as_str()).or_default() += counts.iter().sum::<usize>();
        }
        classes
    }
}

impl Pattern {
    fn matches(&self, difference: &Difference) -> bool {
        let pairs = [
            (&self.story, &difference.story),
            (&self.request, &difference.request),
            (&self.field, &difference.field),
            (&self.real, &difference.real),
            (&self.ours, &difference.ours),
        ];
        pairs
            .into_iter()
            .all(|(pattern, text)| pattern.as_ref().is_none_or(|pattern| glob(pattern, text)))
    }
}

/// Matches a text with a pattern in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<_> = tail.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
