//! The topics that rules of the cloud listen to, in the store.

use std::collections::BTreeSet;

use crate::name_set::NameSet;

/// Where they stand.
pub(super) const TOPICS: NameSet = NameSet::new("eventbus.outrigger.dev", "topics", "sub_topics");

/// Those filters that no other of them covers: together they match the same topics.
pub(super) fn widest(filters: BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |filter: &String| filters.iter().any(|other| other != filter && covers(other, filter));
    filters.iter().filter(|filter| !is_covered(filter)).cloned().collect()
}

/// Whether a filter matches whatever the other one does.
fn covers(wide: &str, narrow: &str) -> bool {
    // wildcards do not stand for a first level with `$`
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
    fn what_another_filter_covers_is_not_asked_for() {
        for (wide, narrow) in [
            ("#", "a/b"),
            ("a/#", "a"),
            ("a/#", "a/+/c"),
            ("+/user/#", "x/user/y"),
            ("a/+", "a/b"),
            ("+", "a"),
        ] {
            assert!(covers(wide, narrow) && !covers(narrow, wide), "{wide} {narrow}");
        }
        for (one, other) in [("#", "$hw/x"), ("+/b", "a/+"), ("a/+", "a/#"), ("a", "b"), ("a/b", "a")] {
            assert!(!covers(one, other), "{one} {other}");
        }
        let set = |filters: &[&str]| filters.iter().map(|&filter| filter.to_owned()).collect::<BTreeSet<_>>();
        let rules = set(&["+/user/#", "default/user/x", "default/up", "default/#", "$hw/a"]);
        assert_eq!(widest(rules), set(&["$hw/a", "+/user/#", "default/#"]));
    }
}
