//! MQTT 5.

use super::{super::v5, BYTES, CLIENTS, Elsewhere, Section, WEBSOCKETS, complete};

/// There is no statement 2.2.1-1.
const SECTIONS: [Section; 56] = [
    ("1.5.4", 1, 3), ("1.5.5", 1, 1), ("1.5.7", 1, 1), ("2.1.3", 1, 1), ("2.2.1", 2, 6), ("2.2.2", 1, 1), ("3.1.0", 1, 2),
    ("3.1.2", 1, 30), ("3.1.3", 1, 12), ("3.1.4", 1, 6), ("3.2.0", 1, 2), ("3.2.2", 1, 22), ("3.3.1", 1, 13),
    ("3.3.2", 1, 20), ("3.3.4", 1, 10), ("3.4.2", 1, 3), ("3.5.2", 1, 3), ("3.6.1", 1, 1), ("3.6.2", 1, 3), ("3.7.2", 1, 3),
    ("3.8.1", 1, 1), ("3.8.3", 1, 5), ("3.8.4", 1, 8), ("3.9.2", 1, 2), ("3.9.3", 1, 2), ("3.10.1", 1, 1), ("3.10.3", 1, 2),
    ("3.10.4", 1, 6), ("3.11.2", 1, 2), ("3.11.3", 1, 2), ("3.12.4", 1, 1), ("3.14.0", 1, 1), ("3.14.1", 1, 1),
    ("3.14.2", 1, 4), ("3.14.4", 1, 3), ("3.15.1", 1, 1), ("3.15.2", 1, 3), ("4.1.0", 1, 2), ("4.2.0", 1, 1),
    ("4.3.1", 1, 1), ("4.3.2", 1, 5), ("4.3.3", 1, 13), ("4.4.0", 1, 2), ("4.5.0", 1, 2), ("4.6.0", 1, 6), ("4.7.0", 1, 1),
    ("4.7.1", 1, 2), ("4.7.2", 1, 1), ("4.7.3", 1, 4), ("4.8.2", 1, 6), ("4.9.0", 1, 3), ("4.12.0", 1, 7), ("4.12.1", 1, 2),
    ("4.13.1", 1, 1), ("4.13.2", 1, 1), ("6.0.0", 1, 4),
];

const ALL_QUALITIES: &str = "every quality of service is supported";
const DISCONNECTED: &str = "all rows with a DISCONNECT of the broker end with a closed connection";
const NO_AUTH: &str = "the broker sends no AUTH: rows 4.12.0-1 and 4.12.0-7";
const NO_TEXT: &str = "the broker does not send it: every row compares such packets byte by byte";
const SILENCE: &str = "slow.rs: a_client_that_says_nothing_is_given_up";

/// Statements without a row of their own.
const ELSEWHERE: [Elsewhere; 93] = [
    ("2.2.1-2", BYTES), ("2.2.1-5", "rows 4.3.2-4, 4.3.3-8 and 4.3.3-4"), ("2.2.1-6", "rows 3.8.4-2 and 3.10.4-5"),
    ("2.2.2-1", BYTES), ("3.1.2-7", "row 3.1.2-8"), ("3.1.2-20", CLIENTS), ("3.1.2-21", CLIENTS), ("3.1.2-22", SILENCE),
    ("3.1.2-28", "the broker has no response information"), ("3.1.2-30", CLIENTS), ("3.1.3-2", "row 3.1.2-5"),
    ("3.1.3-8", "no identifier is rejected for what it is"), ("3.1.4-1", "rows 3.1.2-3 to 3.1.2-19"),
    ("3.1.4-2", "access.rs: passwords_are_checked"), ("3.1.4-4", "rows 3.1.2-4 to 3.1.2-6"), ("3.1.4-5", BYTES),
    ("3.2.0-1", "row 3.1.2-23"), ("3.2.0-2", BYTES), ("3.2.2-1", BYTES), ("3.2.2-2", "row 3.1.2-4"),
    ("3.2.2-3", "rows 3.1.2-5 and 3.1.2-6"), ("3.2.2-4", CLIENTS), ("3.2.2-5", CLIENTS),
    ("3.2.2-7", "rows 3.1.2-2, 3.1.2-3 and 4.12.0-1"), ("3.2.2-8", "rows 3.1.2-2, 3.1.2-3 and 4.12.0-1"),
    ("3.2.2-9", ALL_QUALITIES), ("3.2.2-10", ALL_QUALITIES), ("3.2.2-11", CLIENTS), ("3.2.2-12", ALL_QUALITIES),
    ("3.2.2-13", "retained messages are supported"), ("3.2.2-14", CLIENTS), ("3.2.2-17", "row 3.3.2-9"),
    ("3.2.2-18", CLIENTS), ("3.2.2-20", NO_TEXT), ("3.2.2-21", CLIENTS), ("3.2.2-22", SILENCE), ("3.3.2-1", "row 1.5.4-1"),
    ("3.3.2-3", BYTES), ("3.3.2-10", CLIENTS), ("3.3.4-5", "row 3.3.4-4: one copy is sent"), ("3.3.4-8", CLIENTS),
    ("3.4.2-2", NO_TEXT), ("3.4.2-3", NO_TEXT), ("3.5.2-2", NO_TEXT), ("3.5.2-3", NO_TEXT), ("3.6.2-2", NO_TEXT),
    ("3.6.2-3", NO_TEXT), ("3.7.2-2", NO_TEXT), ("3.7.2-3", NO_TEXT), ("3.9.2-1", NO_TEXT), ("3.9.2-2", NO_TEXT),
    ("3.11.2-1", NO_TEXT), ("3.11.2-2", NO_TEXT),
    ("3.14.0-1", "rows 3.1.0-1 and 3.1.2-3: what is refused with CONNECT is told by CONNACK"),
    ("3.14.2-1", "rows 3.14.1-1, 3.3.2-2, 3.3.2-8 and 3.8.3-4"), ("3.14.2-2", "row 3.14.2-3"), ("3.14.2-4", NO_TEXT),
    ("3.14.4-1", DISCONNECTED), ("3.14.4-2", DISCONNECTED), ("3.15.2-1", NO_AUTH), ("3.15.2-2", NO_AUTH),
    ("3.15.2-3", NO_AUTH), ("4.2.0-1", "it is TCP, or TLS over it"), ("4.3.1-1", BYTES), ("4.3.2-1", "row 2.2.1-4"),
    ("4.3.2-2", BYTES), ("4.3.2-3", "row 4.4.0-1"), ("4.3.3-1", "row 4.4.0-1"), ("4.3.3-2", BYTES),
    ("4.3.3-3", "row 4.4.0-1"), ("4.3.3-9", "access.rs: a_device_has_its_own_topics_only"), ("4.5.0-2", CLIENTS),
    ("4.6.0-1", CLIENTS), ("4.6.0-2", CLIENTS), ("4.6.0-3", CLIENTS), ("4.6.0-4", CLIENTS), ("4.6.0-6", "row 4.6.0-5"),
    ("4.7.0-1", "row 3.3.2-2"), ("4.7.3-2", "row 1.5.4-2"), ("4.7.3-3", "a length has two bytes"), ("4.12.0-2", NO_AUTH),
    ("4.12.0-3", CLIENTS), ("4.12.0-4", "row 4.12.0-1"), ("4.12.0-5", NO_AUTH), ("4.12.0-6", NO_AUTH), ("4.12.1-1", CLIENTS),
    ("4.12.1-2", "row 4.12.0-7"), ("4.13.1-1", DISCONNECTED), ("4.13.2-1", DISCONNECTED), ("6.0.0-1", WEBSOCKETS),
    ("6.0.0-2", WEBSOCKETS), ("6.0.0-3", WEBSOCKETS), ("6.0.0-4", WEBSOCKETS),
];

#[test]
fn each_statement_of_mqtt_5_has_its_place() {
    complete(&SECTIONS, v5::table(), &ELSEWHERE);
}
