//! Amounts are read, compared and written as Kubernetes does it.

use proptest::prelude::*;

use super::*;

#[test]
fn amounts_compare_over_their_suffixes() {
    let equal = [
        ("1", "1000m"),
        ("0.5", "500m"),
        ("1Ki", "1024"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1k"),
        ("1E3", "1000"),
        ("1E", "1000P"),
        ("12e-3", "12m"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-1", "-1000m"),
        ("0", "0Gi"),
        ("0.1n", "1n"),
        ("0e999", "0"),
    ];
    for (left, right) in equal {
        assert_eq!(
            Quantity::parse(left).unwrap(),
            Quantity::parse(right).unwrap(),
            "{left} {right}"
        );
    }
    for (less, more) in [
        ("99m", "0.1"),
        ("1M", "1Mi"),
        ("-1", "0"),
        ("1", "1e999"),
        ("1Ei", "99999999999999999999999999E"),
    ] {
        assert!(
            Quantity::parse(less).unwrap() < Quantity::parse(more).unwrap(),
            "{less} {more}"
        );
    }
}

#[test]
fn amounts_are_written_in_one_way() {
    let cases = [
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("1500Mi", "1500Mi"),
        ("0Gi", "0"),
        ("0", "0"),
        ("1000", "1k"),
        ("128974848", "128974848"),
        ("1500", "1500"),
        ("1.50", "1500m"),
        ("+1", "1"),
        ("-1000m", "-1"),
        ("1e3", "1e3"),
        ("1000e0", "1e3"),
        ("12E6", "12e6"),
        ("100e-3", "100e-3"),
        ("1E", "1E"),
        ("2Ei", "2Ei"),
        ("1.1Ki", "1127"),
        ("0.0000000001", "1n"),
    ];
    for (text, expected) in cases {
        let written = canonical(text).unwrap();
        assert_eq!(written, expected, "{text}");
        assert_eq!(canonical(&written).as_deref(), Some(expected), "{text}");
    }
    for text in ["", "x", "1e999", "9999999E"] {
        assert_eq!(canonical(text), None, "{text}");
    }
}

#[test]
fn what_is_no_amount_is_refused() {
    for text in [
        "", "+", ".", "m", "1 Gi", "1GiB", "1.2.3", "1e", "1e+", "0x10", "--1", "1e1.5", "NaN",
        "1K",
    ] {
        assert!(Quantity::parse(text).is_none(), "{text}");
    }
}

fn q(text: &str) -> Written {
    Written(text.into())
}

#[test]
fn quantities_are_read_as_kubernetes_reads_them() {
    for (text, wanted) in [
        ("0", 0),
        ("1", 1000),
        ("0.1", 100),
        ("100m", 100),
        ("1.5", 1500),
        ("2k", 2_000_000),
        ("1n", 1),
    ] {
        assert_eq!(milli(&q(text)), Some(wanted), "{text}");
    }
    for (text, wanted) in [
        ("128Mi", 134_217_728),
        ("1.5Gi", 1_610_612_736),
        ("1e3", 1000),
        ("100M", 100_000_000),
        ("1m", 1),
    ] {
        assert_eq!(whole(&q(text)), Some(wanted), "{text}");
    }
    for bad in [
        "",
        "x",
        "1.2.3",
        "1Kib",
        "--1",
        "1e99",
        "99999999999999999999999999999Ei",
        ".",
        "1 ",
    ] {
        assert_eq!(whole(&q(bad)), None, "{bad}");
    }
    assert_eq!(
        (positive(&q("1Ki")), positive(&q("0")), positive(&q("-1"))),
        (Some(1024), None, None)
    );
    assert_eq!(divide(&q("250m"), &q("1m")), Some(250));
    assert_eq!(divide(&q("1Gi"), &q("1Mi")), Some(1024));
    assert_eq!(divide(&q("1500m"), &q("0")), Some(2));
    for (bytes, wanted) in [
        (0, "0"),
        (1000, "1000"),
        (1025, "1025"),
        (1024, "1Ki"),
        (100 << 20, "100Mi"),
        (1 << 60, "1Ei"),
    ] {
        assert_eq!(binary(bytes), wanted);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}", by in ".{0,8}") {
        divide(&q(&text), &q(&by));
    }
}
