//! No setting of pods and of the node is ignored in silence.

use std::path::Path;

use kubeapi::store::MemoryStore;
use serde_json::{Value, json};

use super::*;
use crate::config;

/// What EdgeD is given, as text, and the warnings; `None` where the configuration is refused.
fn given(change: Value) -> Option<(String, Vec<String>)> {
    let host = Host { name: "edge-1".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
    let (config, warnings) = config::parse(Path::new("x"), &change.to_string(), None, &host).ok()?;
    let (hub, inbound, _) = edgehub::new(hub_config(&config).unwrap());
    let store = MemoryStore::new();
    let meta = metamanager::Config {
        node_name: "edge-1".into(),
        store,
        hub,
        inbound,
        timing: Timing::default(),
        server: None,
    };
    let (meta, ..) = metamanager::new(meta);
    let runtime = connect(&config.edged.runtime_endpoint).unwrap();
    let edged = edged_config(&config, &meta, runtime, None, edged::Shown::default()).ok()?;
    // the runtime itself has no text of its own
    let text = format!("{} {} {edged:?}", config.edged.enable, config.edged.runtime_endpoint);
    Some((text, warnings.iter().map(ToString::to_string).collect()))
}

/// The document with this value at the place, and nothing else.
fn at(place: &[String], value: &Value) -> Value {
    place.iter().rev().fold(value.clone(), |inner, key| json!({ key: inner }))
}

/// Every place below `value` that has no places of its own.
fn leaves(value: &Value, place: &mut Vec<String>, all: &mut Vec<(Vec<String>, Value)>) {
    match value {
        Value::Object(map) if !map.is_empty() && !map.contains_key("*") => {
            for (key, value) in map {
                place.push(key.clone());
                leaves(value, place, all);
                place.pop();
            }
        }
        _ => all.push((place.clone(), value.clone())),
    }
}

/// Other values of the same type, of which at least one should be a good one.
fn others(value: &Value) -> Vec<Value> {
    let texts = [
        "7s",
        "7h",
        "/other/place",
        "unix:///other.sock",
        "systemd",
        "127.0.0.9",
        "other",
        "20Mi",
        "None",
        "lo",
    ];
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => vec![json!(number.as_i64().unwrap_or(1) + 3), json!(7)],
        Value::String(_) => texts.iter().map(|text| json!(text)).collect(),
        Value::Array(_) => vec![
            json!(["127.0.0.9"]),
            json!([{"key": "a", "effect": "NoSchedule"}]),
            json!([{"priority": 1, "shutdownGracePeriodSeconds": 1}]),
        ],
        Value::Object(_) => {
            vec![json!({"memory": "20Mi"}), json!({"memory.available": "20Mi"}), json!({"a": true})]
        }
        Value::Null => vec![json!({"a": 1}), json!([1]), json!("a")],
    }
}

#[tokio::test]
async fn every_setting_of_pods_and_node_is_used_or_warned_of() {
    let host = Host { name: "edge-1".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
    let shape = config::shape(&host).unwrap();
    let mut all = Vec::new();
    leaves(&shape["modules"]["edged"], &mut vec!["modules".into(), "edged".into()], &mut all);
    assert!(all.len() > 100, "{} settings", all.len());
    let (usual, none) = given(json!({"kind": "EdgeCore"})).unwrap();
    assert!(none.is_empty(), "{none:?}");
    let noticed = |place: &[String], value: &Value| {
        let Some((text, warnings)) = given(at(place, value)) else { return false };
        // a mapping is warned of as a whole
        let path = |place: &[String]| format!("{}: ", place.join("."));
        let named = (2..=place.len()).any(|length| {
            let path = path(&place[..length]);
            warnings.iter().any(|warning| warning.starts_with(&path))
        });
        named || text != usual
    };
    let silent: Vec<_> = all
        .iter()
        .filter(|(place, value)| !others(value).iter().any(|other| noticed(place, other)))
        .map(|(place, _)| place.join("."))
        .collect();
    // a soft threshold and its grace period mean something together only
    let soft = ["evictionSoft", "evictionSoftGracePeriod"];
    let silent: Vec<_> =
        silent.into_iter().filter(|path| !soft.iter().any(|key| path.ends_with(key))).collect();
    let pair = json!({"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "7s"}});
    let place = ["modules", "edged", "tailoredKubeletConfig"].map(str::to_owned);
    assert!(noticed(&place, &pair), "a soft threshold is ignored");
    assert!(silent.is_empty(), "ignored in silence:\n{}", silent.join("\n"));
}

#[tokio::test]
async fn an_interface_gives_the_node_its_address() {
    let with = |name: &str| {
        given(json!({"modules": {"edged": {"customInterfaceName": name, "nodeIP": "10.0.0.9"}}}))
    };
    assert!(with("lo").unwrap().0.contains("127.0.0.1"));
    assert!(with("no-such-interface").is_none());
}

#[tokio::test]
async fn a_runtime_that_is_not_there_is_told_with_its_socket() {
    let channel = connect("unix:///nowhere/containerd.sock").unwrap();
    let mut client = wire::cri::runtime_service_client::RuntimeServiceClient::new(channel);
    let status = client.version(wire::cri::VersionRequest::default()).await.unwrap_err();
    for part in ["/nowhere/containerd.sock", "containerRuntimeEndpoint", "No such file"] {
        assert!(status.message().contains(part), "{status}");
    }
}
