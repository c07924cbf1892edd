//! Valid and invalid names and values.

use serde_json::json;

use super::*;

fn model() -> Model {
    let spec: DeviceModelSpec = serde_json::from_value(json!({"properties": [
        {"name": "temp", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "-20", "maximum": "120.5"},
        {"name": "count", "type": "INT", "accessMode": "ReadOnly", "minimum": "zero"},
        {"name": "on", "type": "BOOLEAN"},
        {"name": "note", "type": "STRING", "minimum": "5"},
        {"type": "STRING"},
    ]}))
    .unwrap();
    Model::of(&spec)
}

#[test]
fn values_by_the_model() {
    let model = model();
    let rules = PropertyRules {
        spec: None,
        model: Some(&model),
    };
    let says = |name: &str, value: &str| {
        rules
            .value(name, value, rules.kind(name).unwrap())
            .err()
            .unwrap_or_default()
    };
    for (name, value) in [
        ("temp", "-20"),
        ("temp", "120.5"),
        ("temp", "1e2"),
        ("count", "-9"),
        ("on", "TRUE"),
        ("note", "21 °C, as ever"),
        ("note", ""),
        ("note", &"°".repeat(512)),
    ] {
        assert_eq!(says(name, value), "", "{name} {value}");
    }
    for (name, value, why) in [
        (
            "temp",
            "-20.1",
            "temp is at least -20 by the device's model, and -20.1 is less",
        ),
        (
            "temp",
            "121",
            "temp is at most 120.5 by the device's model, and 121 is more",
        ),
        (
            "temp",
            "warm",
            "temp is of type float, and \"warm\" is not a finite number",
        ),
        (
            "temp",
            "NaN",
            "temp is of type float, and \"NaN\" is not a finite number",
        ),
        (
            "temp",
            "inf",
            "temp is of type float, and \"inf\" is not a finite number",
        ),
        (
            "temp",
            "",
            "temp is of type float, and \"\" is not a finite number",
        ),
        (
            "temp",
            " 20",
            "temp is of type float, and \" 20\" is not a finite number",
        ),
        ("count", "1.5", "count is of type int, and \"1.5\" is not"),
        (
            "on",
            "1",
            "on is of type boolean, and \"1\" is neither true nor false",
        ),
        (
            "on",
            "",
            "on is of type boolean, and \"\" is neither true nor false",
        ),
        (
            "note",
            "a\nb",
            "note is text without control characters, and \"a\\nb\" has some",
        ),
        (
            "note",
            &"x".repeat(513),
            "the value of note has 513 characters, and at most 512 are taken",
        ),
    ] {
        assert_eq!(says(name, value), why);
    }
    assert!(rules.writable("temp").is_ok() && rules.writable("on").is_ok());
    assert_eq!(
        rules.writable("count"),
        Err("count is read-only by the device's model".to_owned())
    );
}

#[test]
fn names_that_a_device_has() {
    let model = model();
    let spec: DeviceSpec = serde_json::from_value(
        json!({"deviceModelRef": {"name": "m"}, "properties": [{"name": "extra"}]}),
    )
    .unwrap();
    let spec = Spec::of("ns", &spec);
    let rules = PropertyRules {
        spec: Some(&spec),
        model: Some(&model),
    };
    assert!(rules.name("temp").is_ok() && rules.name("extra").is_ok());
    assert_eq!(
        rules.name("other"),
        Err("other is no property of the device and its model ns/m".to_owned())
    );
    assert!(
        PropertyRules {
            spec: Some(&spec),
            model: None
        }
        .name("temp")
        .is_err(),
        "the model is not here yet"
    );
    assert!(
        PropertyRules::default().name("anything-_.,:/@#1").is_ok(),
        "nothing is known of it"
    );
    for bad in ["", "a b", "ä", "a\"", &"x".repeat(129)] {
        assert!(PropertyRules::default().name(bad).is_err(), "{bad}");
    }
}

#[test]
fn values_without_a_model() {
    let rules = PropertyRules::default();
    for good in ["", &"y".repeat(512)] {
        assert_eq!(rules.value("x", good, Kind::String), Ok(()));
    }
    let why = rules.value("x", "a b", Kind::String).unwrap_err();
    assert!(
        why.contains("letters, digits and -_.,:/@# only, and \"a b\" has others"),
        "{why}"
    );
    let why = rules
        .value("x", &"y".repeat(513), Kind::String)
        .unwrap_err();
    assert_eq!(
        why,
        "the value of x has 513 characters, and at most 512 are taken"
    );
    assert!(rules.value("x", "", Kind::Int).is_err());
    assert!(rules.value("x", "9223372036854775808", Kind::Int).is_err());
    assert!(
        rules
            .value("x", "9223372036854775807", Kind::Integer)
            .is_ok()
    );
}

#[test]
fn words_of_types() {
    for kind in [
        Kind::Int,
        Kind::Integer,
        Kind::Float,
        Kind::Boolean,
        Kind::String,
    ] {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(Kind::parse(""), Some(Kind::String));
    for (word, kind) in [
        ("DOUBLE", Kind::Float),
        ("INT", Kind::Int),
        ("Boolean", Kind::Boolean),
        ("bytes", Kind::String),
        ("STREAM", Kind::String),
        ("enum", Kind::String),
    ] {
        assert_eq!(Kind::parse(word), Some(kind), "{word}");
    }
    assert_eq!(
        (Kind::parse("Updated"), Kind::parse("deleted")),
        (None, None)
    );
}
