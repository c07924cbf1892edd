//! That no normative statement of MQTT 3.1.1 is forgotten: each has a row, or stands here with the reason why it has none.

use std::collections::BTreeSet;

use super::v311;

/// Each section of appendix B, and the number of its last statement.
const SECTIONS: [(&str, u32); 36] = [
    ("1.5.3", 3), ("2.2.2", 2), ("2.3.1", 7), ("3.1.0", 2), ("3.1.2", 24), ("3.1.3", 11), ("3.1.4", 5), ("3.2.0", 1),
    ("3.2.2", 6), ("3.3.1", 12), ("3.3.2", 3), ("3.3.4", 1), ("3.3.5", 2), ("3.6.1", 1), ("3.8.1", 1), ("3.8.3", 4),
    ("3.8.4", 6), ("3.9.3", 2), ("3.10.1", 1), ("3.10.3", 2), ("3.10.4", 6), ("3.12.4", 1), ("3.14.1", 1), ("3.14.4", 3),
    ("4.1.0", 2), ("4.2.0", 1), ("4.3.1", 1), ("4.3.2", 2), ("4.3.3", 2), ("4.4.0", 1), ("4.5.0", 2), ("4.6.0", 6),
    ("4.7.1", 3), ("4.7.2", 1), ("4.7.3", 4), ("4.8.0", 2),
];

const CLIENTS: &str = "a client's duty";
const BYTES: &str = "every row compares what is sent byte by byte";

/// Statements without a row of their own. Section 6 is about WebSockets, which this broker does not speak.
const ELSEWHERE: [(&str, &str); 54] = [
    ("2.2.2-1", BYTES), ("2.3.1-2", CLIENTS), ("2.3.1-3", CLIENTS), ("2.3.1-4", "row 4.6.0-5"), ("2.3.1-5", BYTES),
    ("2.3.1-6", "rows 4.3.2-2 and 4.3.3-2"), ("2.3.1-7", "rows 3.8.4-1 and 3.10.4-1"),
    ("3.1.2-13", "row 3.1.2-11"), ("3.1.2-23", CLIENTS), ("3.1.2-24", "slow.rs: a_client_that_says_nothing_is_given_up"),
    ("3.1.3-1", "row 3.1.2-8: the will stands where it should"), ("3.1.3-2", "row 3.1.2-4"), ("3.1.3-7", CLIENTS),
    ("3.1.3-9", "row 3.1.3-8"), ("3.1.4-1", "all rows that end with a closed connection"), ("3.1.4-3", "rows 3.1.2-4 to 3.1.2-6"),
    ("3.1.4-4", BYTES), ("3.2.0-1", BYTES), ("3.2.2-1", "row 3.1.2-6"), ("3.2.2-2", "row 3.1.2-4"), ("3.2.2-3", "row 3.1.2-4"),
    ("3.2.2-4", "row 3.1.2-2"), ("3.2.2-5", "row 3.1.2-2"), ("3.2.2-6", "row 3.1.2-1"), ("3.3.1-1", "row 4.4.0-1"),
    ("3.3.1-6", "row 3.3.1-5"), ("3.3.2-1", "row 1.5.3-1"), ("3.3.2-3", BYTES),
    ("3.3.5-2", "access.rs: a_device_has_its_own_topics_only"), ("3.8.3-2", "wildcards are supported"),
    ("3.8.4-4", "row 3.8.4-5"), ("3.9.3-1", "row 3.8.4-5"), ("3.10.4-2", "row 3.10.4-1"), ("3.10.4-5", "row 3.10.4-1"),
    ("3.10.4-6", "row 3.10.4-1"), ("3.14.4-1", CLIENTS), ("3.14.4-2", CLIENTS), ("4.1.0-1", "row 3.1.2-4"),
    ("4.1.0-2", "row 3.1.2-4"), ("4.2.0-1", "it is TCP, or TLS over it"), ("4.3.1-1", BYTES), ("4.3.2-1", "row 4.4.0-1"),
    ("4.5.0-2", CLIENTS), ("4.6.0-1", CLIENTS), ("4.6.0-3", CLIENTS), ("4.6.0-4", CLIENTS), ("4.6.0-6", "row 4.6.0-5"),
    ("4.7.1-1", "row 3.3.2-2"), ("4.7.1-2", "src/topic/tests.rs"), ("4.7.1-3", "src/topic/tests.rs"),
    ("4.7.3-2", "row 1.5.3-2"), ("4.7.3-3", "a length has two bytes"), ("4.8.0-1", "all malformed rows"),
    ("4.8.0-2", "restart.rs: a_stopped_broker_tells_its_clients_and_goes_on_where_it_was"),
];

/// The statements that a row names: its own, and those in its sentence, as in `3.3.1-8:`.
fn named() -> BTreeSet<String> {
    let rows = v311::table().into_iter();
    let words = rows.flat_map(|(statement, said, _)| {
        let own = statement.strip_prefix("MQTT-").unwrap_or_default().to_owned();
        let others = said.split_whitespace().filter_map(|word| word.strip_suffix(':')).map(str::to_owned);
        others.chain([own]).collect::<Vec<_>>()
    });
    words.filter(|word| word.contains('-') && word.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[test]
fn each_statement_of_mqtt_3_1_1_has_its_place() {
    let of_section = |(section, last): &(&str, u32)| (1..=*last).map(|number| format!("{section}-{number}")).collect::<Vec<_>>();
    let all: BTreeSet<String> = SECTIONS.iter().flat_map(of_section).collect();
    let named = named();
    let unknown: Vec<_> = named.difference(&all).collect();
    assert!(unknown.is_empty(), "no statements: {unknown:?}");
    let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|(statement, _)| (*statement).to_owned()).collect();
    let forgotten: Vec<_> = all.difference(&named).filter(|statement| !elsewhere.contains(*statement)).collect();
    assert!(forgotten.is_empty(), "forgotten: {forgotten:?}");
    let twice: Vec<_> = named.intersection(&elsewhere).collect();
    assert!(twice.is_empty(), "they have rows: {twice:?}");
}
