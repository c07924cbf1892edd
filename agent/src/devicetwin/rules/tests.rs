//! Names and values that are taken, and those that are not.

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
    let rules = Rules { spec: None, model: Some(&model) };
    let says = |name: &str, value: &str| {
        rules.value(name, value, rules.kind(name).unwrap()).err().unwrap_or_default()
    };
    for (name, value) in [
        ("temp", "-20"),
        ("temp", "120.5"),
        ("temp", "1e2"),
        ("count", "-9"),
        ("on", "TRUE"),
        ("note", "21 °C, as ever"),
    ] {
        assert_eq!(says(name, value), "", "{name} {value}");
    }
    for (name, value, why) in [
        ("temp", "-20.1", "temp is at least -20 by the device's model, and -20.1 is less"),
        ("temp", "121", "temp is at most 120.5 by the device's model, and 121 is more"),
        ("temp", "warm", "temp is of type float, and \"warm\" is not"),
        ("temp", "NaN", "temp is of type float, and \"NaN\" is not"),
        ("temp", "inf", "temp is of type float, and \"inf\" is not"),
        ("count", "1.5", "count is of type int, and \"1.5\" is not"),
        ("on", "1", "on is of type boolean, and \"1\" is neither true nor false"),
    ] {
        assert_eq!(says(name, value), why);
    }
    assert!(says("note", "a\nb").contains("letters, digits"));
    assert!(rules.writable("temp").is_ok() && rules.writable("on").is_ok());
    assert_eq!(rules.writable("count"), Err("count is read-only by the device's model".to_owned()));
}

#[test]
fn names_that_a_device_has() {
    let model = model();
    let spec: DeviceSpec =
        serde_json::from_value(json!({"deviceModelRef": {"name": "m"}, "properties": [{"name": "extra"}]}))
            .unwrap();
    let spec = Spec::of("ns", &spec);
    let rules = Rules { spec: Some(&spec), model: Some(&model) };
    assert!(rules.name("temp").is_ok() && rules.name("extra").is_ok());
    assert_eq!(rules.name("other"), Err("other is no property of the device and its model ns/m".to_owned()));
    assert!(Rules { spec: Some(&spec), model: None }.name("temp").is_err(), "the model is not here yet");
    assert!(Rules::default().name("anything-_.,:/@#1").is_ok(), "nothing is known of it");
    for bad in ["", "a b", "ä", "a\"", &"x".repeat(129)] {
        assert!(Rules::default().name(bad).is_err(), "{bad}");
    }
}

#[test]
fn values_without_a_model() {
    let rules = Rules::default();
    assert!(rules.value("x", &"y".repeat(512), Kind::String).is_ok());
    for bad in ["", "a b", &"y".repeat(513)] {
        assert!(rules.value("x", bad, Kind::String).is_err(), "{bad}");
    }
    assert!(rules.value("x", "9223372036854775808", Kind::Int).is_err());
    assert!(rules.value("x", "9223372036854775807", Kind::Integer).is_ok());
}

#[test]
fn words_of_types() {
    for kind in [Kind::Int, Kind::Integer, Kind::Float, Kind::Boolean, Kind::String] {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(Kind::parse(""), Some(Kind::String));
    assert_eq!((Kind::parse("double"), Kind::parse("deleted")), (None, None));
}
