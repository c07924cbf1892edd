//! The topics of the cloud's rules, in the store.

use std::collections::BTreeSet;

use crate::name_set::NameSet;

/// The collection of the topics.
pub(super) const TOPICS: NameSet = NameSet::new("eventbus.outrigger.dev", "topics", "sub_topics");

/// Returns the filters that no other of them covers: together they match the same topics.
pub(super) fn without_covered(filters: BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |filter: &String| {
        filters
            .iter()
            .any(|other| other != filter && covers(other, filter))
    };
    filters
        .iter()
        .filter(|filter| !is_covered(filter))
        .cloned()
        .collect()
}

/// Reports whether a filter matches everything that the other one matches.
fn covers(wide: &str, narrow: &str) -> bool {
    // wildcards do not match a first level with `$`
    if wide.starts_with(['+', '#']) && narrow.starts_with('$') {
        return false;
    }
    let mut levels = narrow.split('/');
    for wanted in wide.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            (_, None | Some("#")) => return false,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covered_filters_are_not_subscribed() {
        for (wide, narrow) in [
            ("#", "a/b"),
            ("a/#", "a"),
            ("a/#", "a/+/c"),
            ("+/user/#", "x/user/y"),
            ("a/+", "a/b"),
            ("+", "a"),
        ] {
            assert!(
                covers(wide, narrow) && !covers(narrow, wide),
                "{wide} {narrow}"
            );
        }
        for (one, other) in [
            ("#", "$hw/x"),
            ("+/b", "a/+"),
            ("a/+", "a/#"),
            ("a", "b"),
            ("a/b", "a"),
        ] {
            assert!(!covers(one, other), "{one} {other}");
        }
        let set = |filters: &[&str]| {
            filters
                .iter()
                .map(|&filter| filter.to_owned())
                .collect::<BTreeSet<_>>()
        };
        let rules = set(&[
            "+/user/#",
            "default/user/x",
            "default/up",
            "default/#",
            "$hw/a",
        ]);
        assert_eq!(
            without_covered(rules),
            set(&["$hw/a", "+/user/#", "default/#"])
        );
    }
}
