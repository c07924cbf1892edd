//! No setting of pods and of the node is ignored in silence.

use std::path::Path;

use kubeapi::store::MemoryStore;
use serde_json::{Value, json};
use tokio::time::sleep;

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
    let given = Given { runtime, signals: None, pod_network: None, secrets_in_memory: true };
    let edged = edged_config(&config, &meta, given, edged::Shown::default()).ok()?;
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

/// An address of this machine that is free.
fn free() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Waits until somebody listens there.
async fn reached(address: SocketAddr) {
    let reach = async {
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), reach).await.expect("somebody listens");
}

#[tokio::test(start_paused = true)]
async fn every_part_can_be_started_anew() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let path = |file: &str| directory.path().join(file);
    let [mqtt, meta_server, kubelet] = [free(), free(), free()];
    let token = format!("{}.a.b.c", "0".repeat(64));
    let document = json!({"modules": {
        "edgeHub": {
            "httpServer": "https://127.0.0.1:1", "websocket": {"server": "127.0.0.1:1"}, "token": token,
            "tlsCaFile": path("ca"), "tlsCertFile": path("cert"), "tlsPrivateKeyFile": path("key"),
        },
        "deviceTwin": {"dmiSockPath": directory.path()},
        "eventBus": {"mqttMode": 0, "mqttServerInternal": format!("tcp://{mqtt}")},
        "metaManager": {"metaServer": {"enable": true, "server": meta_server.to_string()}},
        "edged": {"rootDirectory": path("kubelet"), "nodeIP": "127.0.0.1", "tailoredKubeletConfig": {
            "podLogsDir": path("logs"), "readOnlyPort": kubelet.port(), "staticPodPath": path("manifests"),
            "containerRuntimeEndpoint": "unix:///nowhere/containerd.sock",
        }},
    }, "database": {"dataSource": path("edgecore.db")}});
    let host = Host { name: "edge-1".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
    let (config, _) = config::parse(Path::new("x"), &document.to_string(), None, &host).unwrap();
    let parts = Parts {
        runtime: connect(&config.edged.runtime_endpoint).unwrap(),
        store: MemoryStore::new(),
        signals: None,
        pod_network: None,
        copies: Some(MemoryStore::new()),
        secrets_in_memory: false,
    };
    let shutdown = CancellationToken::new();
    let app = App::start(&config, parts, shutdown.clone()).unwrap();
    let vitals = app.supervisor.vitals();
    let mut running = tokio::spawn(Box::pin(app.run()));
    let parts: Vec<_> = vitals.read().iter().map(|vital| vital.part).collect();
    assert_eq!(
        parts,
        ["devicetwin", "dmi", "edged", "edgehub", "eventbus", "metamanager", "metaserver"],
        "all have a heart"
    );
    for part in parts {
        // as if one of its loops did not come round
        let heart = vitals.part(part).heart("forced");
        heart.beat();
        let restarts = || vitals.read().into_iter().find(|vital| vital.part == part).unwrap().restarts;
        while restarts() == 0 {
            assert!(!running.is_finished(), "{part}: {:?}", (&mut running).await);
            sleep(std::time::Duration::from_secs(1)).await;
        }
    }
    tokio::time::resume();
    for address in [mqtt, meta_server, kubelet] {
        reached(address).await;
    }
    let socket = path("dmi.sock");
    let reach = async {
        while UnixStream::connect(&socket).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), reach).await.expect("mappers are served");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
