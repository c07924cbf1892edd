//! Compares the tree with matching each filter separately.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Found, Index, IndexEntry, Subscriber};
use crate::{
    message::QoS,
    topic::{Filter, filter_matches, parse_filter},
};

fn entry(who: u64) -> IndexEntry {
    IndexEntry {
        who: Subscriber::Session(who),
        qos: QoS::AtMostOnce,
        no_local: false,
        retain_as_published: false,
        subscription_id: None,
    }
}

fn level() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "b", "+", "$s", "#"])
}

fn filter() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..5).prop_map(|levels| levels.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_tree_finds_what_matching_finds(
        steps in prop::collection::vec((filter(), 0..4_u64, any::<bool>()), 1..24),
        topics in prop::collection::vec(filter(), 1..8),
    ) {
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        for (filter, who, keep) in &steps {
            let Ok(parsed) = parse_filter(filter) else { continue };
            if *keep {
                index.insert(parsed, entry(*who));
                model.insert((filter.clone(), *who), ());
            } else {
                index.remove(parsed, Subscriber::Session(*who));
                model.remove(&(filter.clone(), *who));
            }
        }
        for topic in topics.iter().filter(|topic| !topic.contains(['+', '#'])) {
            let mut found = Found::default();
            index.find(topic, &mut found);
            let mut found: Vec<_> = found.each.iter().map(|entry| entry.who).collect();
            let mut expected: Vec<_> = model
                .keys()
                .filter(|(filter, _)| filter_matches(filter, topic))
                .map(|(_, who)| Subscriber::Session(*who))
                .collect();
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
        for (filter, who) in model.keys() {
            index.remove(parse_filter(filter).unwrap(), Subscriber::Session(*who));
        }
        prop_assert!(index.is_empty(), "nodes are left");
    }
}

#[test]
fn a_share_is_a_group_of_its_own() {
    let mut index = Index::default();
    let filter = |share| Filter {
        share,
        filter: "a/+",
    };
    index.insert(filter(Some("g")), entry(1));
    index.insert(filter(Some("g")), entry(2));
    index.insert(filter(Some("h")), entry(1));
    index.insert(filter(None), entry(1));
    let mut found = Found::default();
    index.find("a/b", &mut found);
    assert_eq!(
        (
            found.each.len(),
            found.groups.iter().map(Vec::len).collect::<Vec<_>>()
        ),
        (1, vec![2, 1])
    );
    index.remove(filter(Some("g")), Subscriber::Session(1));
    index.remove(filter(Some("g")), Subscriber::Session(2));
    index.remove(filter(Some("h")), Subscriber::Session(1));
    index.remove(filter(None), Subscriber::Session(1));
    assert!(index.is_empty());
}
