//! Tests names and filters with the examples of the specification and against a model.

use proptest::prelude::*;

use super::{check_name, filter_matches, is_filter, literal_prefix, parse_filter};

/// Section 4.7 of both specifications, example by example: filter, topic, whether it matches.
const EXAMPLES: &[(&str, &str, bool)] = &[
    ("sport/tennis/player1/#", "sport/tennis/player1", true),
    (
        "sport/tennis/player1/#",
        "sport/tennis/player1/ranking",
        true,
    ),
    (
        "sport/tennis/player1/#",
        "sport/tennis/player1/score/wimbledon",
        true,
    ),
    ("sport/#", "sport", true),
    ("#", "a/b/c", true),
    ("#", "/", true),
    ("sport/tennis/+", "sport/tennis/player1", true),
    ("sport/tennis/+", "sport/tennis/player1/ranking", false),
    ("sport/+", "sport", false),
    ("sport/+", "sport/", true),
    ("+/+", "/finance", true),
    ("/+", "/finance", true),
    ("+", "/finance", false),
    ("#", "$SYS/uptime", false),
    ("+/monitor/Clients", "$SYS/monitor/Clients", false),
    ("$SYS/#", "$SYS/uptime", true),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
    ("ACCOUNTS", "Accounts", false),
    ("/finance", "finance", false),
    ("a b/ü", "a b/ü", true),
    (
        "$hw/events/device/+/twin/update",
        "$hw/events/device/ns/dev/twin/update",
        false,
    ),
    ("default/#", "default", true),
    ("default/#", "default/a/b", true),
    ("default/+", "default/a", true),
    ("default/+", "default/a/b", false),
    ("default/a", "default/a", true),
    ("default/a", "other/a", false),
    ("#", "$hw/a", false),
];

#[test]
fn the_specifications_examples_hold() {
    for (filter, topic, expected) in EXAMPLES {
        assert_eq!(
            filter_matches(filter, topic),
            *expected,
            "{filter} and {topic}"
        );
    }
}

#[test]
fn malformed_filters_are_refused() {
    for filter in [
        "",
        "sport/tennis#",
        "sport/tennis/#/ranking",
        "sport+",
        "++",
        "#/",
        "a/+b",
        "$share/g",
        "$share//a",
        "$share/g/",
        "$share/+/a",
    ] {
        assert!(parse_filter(filter).is_err(), "{filter}");
    }
    assert!(parse_filter(&"/".repeat(128)).is_err(), "too deep");
    let shared = parse_filter("$share/group/a/+").unwrap();
    assert_eq!((shared.share, shared.filter), (Some("group"), "a/+"));
    assert!(parse_filter("$share").is_ok(), "a filter like any other");
}

#[test]
fn malformed_names_are_refused() {
    for name in ["", "a/+", "#", "a#b", &"/".repeat(128)] {
        assert!(check_name(name).is_err(), "{name}");
    }
    assert!(check_name("/").is_ok());
}

/// Matches by the literal definition of the specification.
fn model(filter: &[String], topic: &[String]) -> bool {
    match (filter.first().map(String::as_str), topic.first()) {
        (None, None) => true,
        (Some("#"), _) => true,
        (Some("+"), Some(_)) => model(&filter[1..], &topic[1..]),
        (Some(wanted), Some(level)) => wanted == level && model(&filter[1..], &topic[1..]),
        _ => false,
    }
}

prop_compose! {
    fn topic()(levels in prop::collection::vec(prop::sample::select(vec!["", "a", "b", "$s"]), 1..5)) -> Vec<String> {
        levels.into_iter().map(String::from).collect()
    }
}

prop_compose! {
    fn filter()(
        levels in prop::collection::vec(prop::sample::select(vec!["", "a", "b", "+", "$s"]), 1..5),
        rest in any::<bool>(),
    ) -> Vec<String> {
        levels.into_iter().chain(rest.then_some("#")).map(String::from).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]
    #[test]
    fn matching_is_the_models(filter in filter(), topic in topic()) {
        let (text, name) = (filter.join("/"), topic.join("/"));
        prop_assume!(!name.is_empty() && parse_filter(&text).is_ok());
        let hidden = name.starts_with('$') && text.starts_with(['+', '#']);
        let expected = !hidden && model(&filter, &topic);
        prop_assert_eq!(filter_matches(&text, &name), expected);
        if expected {
            prop_assert!(name.starts_with(literal_prefix(&text)));
        }
    }
}

#[test]
fn what_can_be_subscribed_to() {
    for good in [
        "a",
        "a/+/b",
        "#",
        "a/#",
        "+",
        "/",
        "a//b",
        "$hw/x",
        "$share/g/a",
    ] {
        assert!(is_filter(good), "{good}");
    }
    let long = "x".repeat(70_000);
    for bad in ["", "a#", "#/a", "a/b+", "a\0", "$share/g", &long] {
        assert!(!is_filter(bad), "{bad:.20?}");
    }
}
