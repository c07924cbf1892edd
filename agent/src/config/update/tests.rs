//! Changes of values by their paths, and which of them a job may make.

use super::*;

const TEXT: &str = "apiVersion: edgecore.config.kubeedge.io/v1alpha2
kind: EdgeCore
modules:
  # how often
  edgeHub:
    heartbeat: 15 # seconds
    websocket: {enable: true, server: 'cloud.example:10000'}
  edged:
    registerNodeLabels: {site: a}
";

fn change(fields: &[(&str, &str)], may_disconnect: bool) -> Result<String, String> {
    let fields = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    update(
        Path::new("edgecore.yaml"),
        TEXT,
        &fields.collect(),
        may_disconnect,
    )
}

#[test]
fn a_value_of_a_line_keeps_its_comments() {
    let text = change(&[("modules.edgeHub.heartbeat", "30")], false).unwrap();
    assert_eq!(text, TEXT.replace("heartbeat: 15", "heartbeat: 30"));
    assert_eq!(
        change(&[("modules.edgehub.heartbeat", "15")], false).unwrap(),
        TEXT
    );
}

#[test]
fn values_have_the_type_of_their_key() {
    for (key, value, pointer, wanted) in [
        (
            "modules.edgeStream.enable",
            "true",
            "/modules/edgeStream/enable",
            Value::from(true),
        ),
        (
            "modules.eventBus.mqttQOS",
            "1",
            "/modules/eventBus/mqttQOS",
            Value::from(1),
        ),
        (
            "modules.edged.hostnameOverride",
            "123",
            "/modules/edged/hostnameOverride",
            Value::from("123"),
        ),
        (
            "modules.edged.hostnameOverride",
            "\"a\"",
            "/modules/edged/hostnameOverride",
            Value::from("a"),
        ),
        (
            "modules.edgeHub.tlsCaFile",
            "/etc/a=b,c.crt",
            "/modules/edgeHub/tlsCaFile",
            Value::from("/etc/a=b,c.crt"),
        ),
        (
            "modules.serviceBus.allowedPorts",
            "{80,443}",
            "/modules/serviceBus/allowedPorts",
            serde_json::json!([80, 443]),
        ),
        (
            "modules.edged.tailoredKubeletConfig.maxPods",
            "20",
            "/modules/edged/tailoredKubeletConfig/maxPods",
            Value::from(20),
        ),
    ] {
        let text = change(&[(key, value)], true).unwrap();
        assert_eq!(
            yaml::parse(&text).unwrap().pointer(pointer),
            Some(&wanted),
            "{key}"
        );
    }
}

#[test]
fn an_element_is_appended_to_a_list_that_does_not_exist() {
    let taint = "modules.edged.tailoredKubeletConfig.registerWithTaints[0]";
    let fields = [("key", "site"), ("effect", "NoSchedule")];
    let fields = fields.map(|(key, value)| (format!("{taint}.{key}"), value));
    let fields = fields.each_ref().map(|(key, value)| (key.as_str(), *value));
    let text = change(&fields, false).unwrap();
    let taints = "/modules/edged/tailoredKubeletConfig/registerWithTaints";
    assert_eq!(
        yaml::parse(&text).unwrap().pointer(taints),
        Some(&serde_json::json!([{"effect": "NoSchedule", "key": "site"}]))
    );
}

#[test]
fn jobs_may_change_these_keys() {
    let (_, shape) = document::known_documents(&Host::detect()).unwrap();
    let known = changed_keys(&Value::Null, &fill_in(&shape));
    for prefix in PROTECTED.iter().chain(&HARMLESS) {
        // the kubelet's keys that EdgeCore has and this agent does not know yet
        let is_unknown = ["authentication", "authorization", "staticpodurl"]
            .iter()
            .any(|key| prefix.ends_with(key));
        let is_below = |key: &String| key.to_ascii_lowercase().starts_with(prefix);
        assert!(is_unknown || known.iter().any(is_below), "{prefix}");
    }
    let (protected, free): (Vec<_>, Vec<_>) = known.into_iter().partition(|key| is_protected(key));
    assert!(protected.len() > free.len() / 3, "{protected:?}");
    insta::assert_snapshot!(free.join("\n"));
}

/// Returns the shape with a value for each key, also for those without one.
fn fill_in(shape: &Value) -> Value {
    match shape {
        Value::Object(map) if !map.is_empty() => {
            let each = map.iter().map(|(key, value)| (key.clone(), fill_in(value)));
            Value::Object(each.collect())
        }
        _ => Value::from("x"),
    }
}

#[test]
fn what_is_wrong_or_could_disconnect_the_node_is_refused() {
    for (key, value, why) in [
        (
            "modules.edgeHub.heartBeats",
            "1",
            "edgecore.yaml has no key modules.edgeHub.heartBeats",
        ),
        (
            "modules..x",
            "1",
            "modules..x is not a path of edgecore.yaml",
        ),
        (
            "modules.edgeHub.heartbeat",
            "often",
            "must be a number, not \"often\"",
        ),
        (
            "modules.edgeStream.enable",
            "maybe",
            "must be true or false, not \"maybe\"",
        ),
        (
            "modules.serviceBus.allowedPorts",
            "80",
            "must be a list, for example {a,b}, not \"80\"",
        ),
        (
            "modules.edgeHub.heartbeat",
            "-1",
            "modules.edgeHub.heartbeat",
        ),
        (
            "modules.edgeHub.websocket.server",
            "nowhere:1",
            "could disconnect the node",
        ),
        // in a mapping, in another case, or by removing it
        (
            "modules",
            "{EDGED: {rootDirectory: /tmp}}",
            "modules.EDGED.rootDirectory could disconnect",
        ),
        (
            "modules.edgeHub",
            "null",
            "modules.edgeHub.websocket.enable could disconnect",
        ),
    ] {
        let error = change(&[(key, value)], false).unwrap_err();
        assert!(error.contains(why), "{key}: {error}");
    }
    assert!(
        change(
            &[("modules.edgeHub.websocket.server", "other.example:10000")],
            true
        )
        .is_ok()
    );
}
