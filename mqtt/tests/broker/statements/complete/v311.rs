//! MQTT 3.1.1.

use super::{super::v311, BYTES, CLIENTS, Elsewhere, Section, WEBSOCKETS, complete};

const SECTIONS: [Section; 37] = [
    ("1.5.3", 1, 3), ("2.2.2", 1, 2), ("2.3.1", 1, 7), ("3.1.0", 1, 2), ("3.1.2", 1, 24), ("3.1.3", 1, 11), ("3.1.4", 1, 5),
    ("3.2.0", 1, 1), ("3.2.2", 1, 6), ("3.3.1", 1, 12), ("3.3.2", 1, 3), ("3.3.4", 1, 1), ("3.3.5", 1, 2), ("3.6.1", 1, 1),
    ("3.8.1", 1, 1), ("3.8.3", 1, 4), ("3.8.4", 1, 6), ("3.9.3", 1, 2), ("3.10.1", 1, 1), ("3.10.3", 1, 2), ("3.10.4", 1, 6),
    ("3.12.4", 1, 1), ("3.14.1", 1, 1), ("3.14.4", 1, 3), ("4.1.0", 1, 2), ("4.2.0", 1, 1), ("4.3.1", 1, 1), ("4.3.2", 1, 2),
    ("4.3.3", 1, 2), ("4.4.0", 1, 1), ("4.5.0", 1, 2), ("4.6.0", 1, 6), ("4.7.1", 1, 3), ("4.7.2", 1, 1), ("4.7.3", 1, 4),
    ("4.8.0", 1, 2), ("6.0.0", 1, 4),
];

const FILTERS: &str = "src/topic/tests.rs: malformed_filters_are_refused";

/// Statements without a row of their own.
const ELSEWHERE: [Elsewhere; 58] = [
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
    ("4.7.1-1", "row 3.3.2-2"), ("4.7.1-2", FILTERS), ("4.7.1-3", FILTERS),
    ("4.7.3-2", "row 1.5.3-2"), ("4.7.3-3", "a length has two bytes"), ("4.8.0-1", "all malformed rows"),
    ("4.8.0-2", "restart.rs: a_stopped_broker_tells_its_clients_and_goes_on_where_it_was"),
    ("6.0.0-1", WEBSOCKETS), ("6.0.0-2", WEBSOCKETS), ("6.0.0-3", WEBSOCKETS), ("6.0.0-4", WEBSOCKETS),
];

#[test]
fn each_statement_of_mqtt_3_1_1_has_its_place() {
    complete(&SECTIONS, v311::table(), &ELSEWHERE);
}
