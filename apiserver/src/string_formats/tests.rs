//! Tests of [`super`].

use super::*;

#[test]
fn patterns_compile() {
    for pattern in [
        &RGB_COLOR,
        &WORD,
        &TOP,
        &BASE64,
        &SSN,
        &TIME,
        &SPANS,
        &patterns::CREDIT_CARD,
    ] {
        assert!(pattern.0.is_some());
    }
}

/// A format, texts that it takes, and texts that it does not take.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const ROWS: &[Row] = &[
    (
        "bsonobjectid",
        &["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
        &["", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"],
    ),
    (
        "uri",
        &[
            "http://a.example",
            "/a/b",
            "urn:x:y",
            "a:b",
            "http://[::1]:8080/",
            "HTTP://A/%41",
        ],
        &[
            "",
            "a.example",
            "./a",
            "http://a b/",
            "http://a/%4",
            "http://a:x/",
        ],
    ),
    (
        "email",
        &[
            "a@b",
            "a.b+c@d.example",
            "\"a b\"@c",
            "Jane Doe <jane@example.org>",
            "<a@b>",
            "a@[127.0.0.1]",
            "ü@ö.example",
            "a@b (note)",
            "\"J. D.\" <j@d>",
        ],
        &[
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "\"\"@b",
            "Jane <a@b",
            "a@b, c@d",
            "a@b.",
            "\"a@b",
        ],
    ),
    (
        "hostname",
        &[
            "a",
            "localhost",
            "a-b",
            "a.example",
            "1.2.3.example",
            "a-b.c-d.example",
            "xn--bcher-kva.example",
            "ôlà.ôlà",
            "☃.example",
            "ex$mple",
            "x-",
        ],
        &[
            "",
            "a.b",
            "1.1.1.1",
            "-a.example",
            "a-.example",
            "a_b.example",
            "a.example.",
            "a..example",
            "my-long-host",
            "a b.example",
            "a.exa-mple",
            "a.example1",
            "user@a.example",
        ],
    ),
    (
        "ipv4",
        &["10.0.0.1", "192.168.1.01", "::1.2.3.4"],
        &[
            "",
            "10.0.0",
            "10.0.0.256",
            "10.0.0.1.2",
            "::1",
            "10.0.0.a",
            "10.0.0.-1",
        ],
    ),
    (
        "ipv6",
        &["::1", "2001:db8::1", "::ffff:10.0.0.1"],
        &["", "10.0.0.1", "2001:db8::1::", "fe80::1%eth0", "g::1"],
    ),
    (
        "cidr",
        &["10.0.0.0/8", "10.0.00.1/24", "2001:db8::/32", "10.0.0.0/08"],
        &[
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "/8",
        ],
    ),
    (
        "mac",
        &[
            "01:02:03:04:05:06",
            "01-02-03-04-05-0a",
            "0102.0304.0506",
            "01:02:03:04:05:06:07:08",
        ],
        &[
            "",
            "01:02:03:04:05",
            "01:02:03:04:05:0g",
            "01:02-03:04:05:06",
            "0102030405.06",
        ],
    ),
    (
        "uuid",
        &[
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6BA7B8109DAD11D180B400C04FD430C8",
            "6ba7b810-9dad11d180b4-00c04fd430c8",
        ],
        &[
            "",
            "6ba7b810",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c",
            "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
            "6ba7b810--9dad-11d1-80b4-00c04fd430c8",
        ],
    ),
    (
        "uuid3",
        &[
            "bcd02e22-68f0-3046-a512-327cca9def8f",
            "bcd02e22-68f0-3046-0512-327cca9def8f",
        ],
        &["bcd02e22-68f0-4046-a512-327cca9def8f", ""],
    ),
    (
        "uuid4",
        &["025b0d74-00a2-4048-bf57-227c5111bb34"],
        &[
            "025b0d74-00a2-5048-bf57-227c5111bb34",
            "025b0d74-00a2-4048-cf57-227c5111bb34",
        ],
    ),
    (
        "uuid5",
        &["886313e1-3b8a-5372-9b90-0c9aee199e5d"],
        &[
            "886313e1-3b8a-4372-9b90-0c9aee199e5d",
            "886313e1-3b8a-5372-7b90-0c9aee199e5d",
        ],
    ),
    (
        "isbn",
        &[
            "0321751043",
            "978-0321751041",
            "0-8044-2957-X",
            "9780306406157",
        ],
        &["", "0321751044", "978-0321751042", "836217463"],
    ),
    (
        "isbn10",
        &["0321751043", "0 8044 2957 X"],
        &["9780306406157", "0-8044-2957-x", "03217510431"],
    ),
    (
        "isbn13",
        &["978-0321751041"],
        &["0321751043", "9780321751042"],
    ),
    (
        "creditcard",
        &[
            "4111-1111-1111-1111",
            "378282246310005",
            "5555 5555 5555 4444",
        ],
        &["", "4111-1111-1111-1112", "1234567890123456", "4111"],
    ),
    (
        "ssn",
        &["111-11-1111", "111 11 1111"],
        &["", "111111111", "999 99 999", "111.11.1111", "111-11 11111"],
    ),
    (
        "hexcolor",
        &["#FFF", "ffffff", "#0a1B2c"],
        &["", "#FFFF", "#ggg", "#", "##fff"],
    ),
    (
        "rgbcolor",
        &["rgb(0,0,0)", "rgb( 255 , 100 ,1 )"],
        &[
            "",
            "rgb(256,0,0)",
            "rgb(01,0,0)",
            "rgb(0,0)",
            "rgba(0,0,0)",
            "rgb (0,0,0)",
        ],
    ),
    (
        "byte",
        &["YQ==", "YWI=", "YWJj", "YWJjYWJj"],
        &["", "YQ", "YQ=", "YWJj\n", "Y-Jj", "===="],
    ),
    ("password", &["", "anything"], &[]),
    (
        "date",
        &["2024-02-29", "0001-01-01", "9999-12-31"],
        &[
            "",
            "2023-02-29",
            "2024-1-1",
            "24-01-01",
            "2024-01-01T00:00:00Z",
            "10000-01-01",
        ],
    ),
    (
        "date-time",
        &[
            "2024-01-01T10:00:00Z",
            "2024-01-01t10:00:00z",
            "2024-01-01T10:00:00.123456789+02:00",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999Z",
            "2024-01-01T10:00:00-23:59",
        ],
        &[
            "",
            "2024-01-01",
            "2024-01-01 10:00:00Z",
            "2024-01-01T10:00:00",
            "2024-01-01T24:00:00Z",
            "2024-01-01T10:60:00Z",
            "2024-01-01T10:00:60Z",
            "0000-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "-0001-01-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-01-01T10:00Z",
            "today",
        ],
    ),
    (
        "duration",
        &[
            "1h30m",
            "0",
            "-1.5s",
            "2 weeks",
            "1 day",
            "3hours",
            "22 ns",
            "1h, 2 min",
        ],
        &[
            "",
            "1",
            "h",
            "12 parsecs",
            "three weeks",
            "1 y",
            "99999999999999999999 s",
        ],
    ),
    (
        "k8s-short-name",
        &["a", "a-1", "0"],
        &["", "A", "a.b", "-a", "a-", "a_b"],
    ),
    (
        "k8s-long-name",
        &["a", "a.b-c.1"],
        &["", "a..b", "A.b", ".a", "a."],
    ),
    ("unknown", &["", "anything"], &[]),
];

#[test]
fn formats_take_what_the_api_server_takes() {
    for (format, good, bad) in ROWS {
        for text in *good {
            assert!(fits(format, text), "{format} takes {text:?}");
        }
        for text in *bad {
            assert!(!fits(format, text), "{format} refuses {text:?}");
        }
    }
    let long = |count: usize| "a".repeat(count);
    assert!(fits("hostname", &long(63)) && !fits("hostname", &long(64)));
    assert!(fits("k8s-short-name", &long(63)) && !fits("k8s-short-name", &long(64)));
    assert!(fits("k8s-long-name", &long(253)) && !fits("k8s-long-name", &long(254)));
}

#[test]
fn every_format_has_a_row() {
    for (name, _) in STRINGS {
        assert!(
            ROWS.iter()
                .any(|(format, ..)| format.replace('-', "") == name),
            "{name}"
        );
    }
}

#[test]
fn unknown_formats_are_those_without_effect() {
    let rows = [
        ("uri", "string", true),
        ("date-time", "string", true),
        ("datetime", "", true),
        ("uri-reference", "string", false),
        ("int32", "integer", true),
        ("int8", "integer", false),
        ("double", "number", true),
        ("int32", "number", false),
        ("uri", "object", false),
        ("int64", "string", false),
    ];
    for (format, type_, expected) in rows {
        assert_eq!(is_known(format, type_), expected, "{format} of {type_}");
    }
}
