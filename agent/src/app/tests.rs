//! No setting is ignored without notice.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::{LONG_TIMEOUT, eventually, within_timeout};
use tokio::time::sleep;

use super::*;
use crate::config;
use crate::config::Host;

/// Returns the configuration of all modules as text, and the warnings, or the errors if the file is refused.
fn convert(change: Value) -> (Option<String>, Vec<String>) {
    let host = Host {
        name: "edge-1".into(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (config, warnings) = match config::parse(Path::new("x"), &change.to_string(), None, &host) {
        Ok(parsed) => parsed,
        Err(config::Error::Invalid { errors, .. }) => {
            return (None, errors.iter().map(ToString::to_string).collect());
        }
        Err(other) => panic!("{other}"),
    };
    let (hub, inbound, _) = edgehub::new(hub_config(&config).unwrap());
    let store = MemoryStore::new();
    let meta = metamanager::Config {
        node_name: "edge-1".into(),
        store,
        hub,
        inbound,
        timing: timing(&config),
        server: None,
    };
    let told = warnings
        .iter()
        .map(|warning| warning.kind.to_string())
        .collect();
    let (meta, ..) = metamanager::new(meta);
    let runtime = connect(&config.edged.runtime_endpoint).unwrap();
    let inputs = pods::Inputs {
        runtime,
        signals: None,
        pod_network: None,
        secrets_in_memory: true,
        services: None,
    };
    let Ok(edged) = pods::config(&config, &meta, inputs, edged::Diagnostics::default()) else {
        return (None, told);
    };
    let Ok(server) = meta_server::config(&config, Some(MemoryStore::new())) else {
        return (None, told);
    };
    let server = server.map(|server| (server.address, server.authentication));
    let bus = config
        .event_bus
        .as_ref()
        .map(|wanted| devices::brokers(&config, wanted));
    let text = format!(
        "{} {} {edged:?} {:?} {server:?} {bus:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        config.edged.enable,
        // the runtime itself has no text of its own
        config.edged.runtime_endpoint,
        hub_config(&config).unwrap(),
        timing(&config),
        config.device_twin,
        config.edge_stream,
        (&config.service_bus, config.task_manager),
        config.edge_mesh,
        (databases(&config), &config.database, &config.status),
        config.database_keys,
    );
    (Some(text), told)
}

/// Returns a document with this value at the path, and nothing else.
fn at(place: &[String], value: &Value) -> Value {
    place
        .iter()
        .rev()
        .fold(value.clone(), |inner, key| json!({ key: inner }))
}

/// Collects every path below `value` without paths below it.
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

/// Returns other values of the same type, of which at least one should be valid.
fn others(value: &Value) -> Vec<Value> {
    let texts = [
        "7s",
        "7h",
        "/other/place",
        "unix:///other.sock",
        "systemd",
        "127.0.0.9",
        "127.0.0.9:7",
        "tcp://127.0.0.9:7",
        "https://127.0.0.9:7",
        "other",
        concat!(
            "0000000000000000000000000000000000000000000000000000000000000000",
            ".a.b.c"
        ),
        "20Mi",
        "None",
        "lo",
        "RoundRobin",
        "FilterIfLabelDoesNotExists",
    ];
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => vec![
            json!(number.as_i64().unwrap_or(1) + 3),
            json!(7),
            json!(2),
            json!(1),
        ],
        Value::String(_) => texts.iter().map(|text| json!(text)).collect(),
        Value::Array(_) => vec![
            json!(["127.0.0.9"]),
            json!(["/other/place"]),
            json!(["10.0.0.0/8"]),
            json!([8080]),
            json!([{"action": "all", "filter": "#"}]),
            json!([{"key": "a", "effect": "NoSchedule"}]),
            json!([{"priority": 1, "shutdownGracePeriodSeconds": 1}]),
        ],
        Value::Object(_) => {
            vec![
                json!({"memory": "20Mi"}),
                json!({"memory.available": "20Mi"}),
                json!({"a": true}),
            ]
        }
        Value::Null => vec![json!({"a": 1}), json!([1]), json!("a")],
    }
}

/// Merges `more` into `base`.
fn laid_over(base: &Value, more: &Value) -> Value {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            let mut all = base.clone();
            for (key, value) in more {
                let below = all
                    .get(key)
                    .map_or_else(|| value.clone(), |below| laid_over(below, value));
                all.insert(key.clone(), below);
            }
            Value::Object(all)
        }
        (_, more) => more.clone(),
    }
}

/// Returns whether the value at the path changes a module's configuration beside `base`, or is named in a warning.
fn is_noticed(base: &Value, usual: &str, place: &[String], value: &Value) -> bool {
    let (text, told) = convert(laid_over(base, &at(place, value)));
    // a mapping is warned of as a whole
    let is_named = |told: &String| {
        let above = (1..=place.len())
            .any(|length| told.starts_with(&format!("{}: ", place[..length].join("."))));
        above || told.starts_with(&format!("{}.", place.join(".")))
    };
    let is_named = text.is_some() && told.iter().any(is_named);
    is_named || text.is_some_and(|text| text != usual)
}

/// Returns the documents that a module's settings are tested with: enabled, in each of its modes.
fn contexts(path: &str) -> Vec<Value> {
    let modules = |modules: Value| json!({ "modules": modules });
    let meta_server = |more: Value| {
        let on = json!({"modules": {"metaManager": {"metaServer": {"enable": true}}}});
        laid_over(&on, &more)
    };
    let quic =
        modules(json!({"edgeHub": {"websocket": {"enable": false}, "quic": {"enable": true}}}));
    let bus = |mode: u8| modules(json!({"eventBus": {"mqttMode": mode}}));
    let plain = json!({"kind": "EdgeCore"});
    match path {
        path if path.ends_with(".enable") => vec![plain],
        "modules.metaManager.metaServer.anonymousAuth" => vec![meta_server(json!({}))],
        path if path.starts_with("modules.edgeHub.quic.") => vec![quic],
        path if path.starts_with("modules.edgeHub.websocket.") => vec![plain],
        path if path.starts_with("modules.edgeHub.") => vec![plain, quic],
        path if path.starts_with("modules.metaManager.metaServer.") => vec![
            meta_server(json!({})),
            meta_server(json!({"featureGates": {"requireAuthorization": true}})),
            meta_server(
                json!({"modules": {"metaManager": {"metaServer": {"anonymousAuth": true}}}}),
            ),
        ],
        path if path.starts_with("modules.eventBus.eventBusTLS.") => {
            vec![modules(
                json!({"eventBus": {"eventBusTLS": {"enable": true}}}),
            )]
        }
        path if path.starts_with("modules.eventBus.") => (0..=2).map(bus).collect(),
        path if path.starts_with("modules.edgeStream.") => {
            vec![modules(json!({"edgeStream": {"enable": true}}))]
        }
        path if path.starts_with("modules.serviceBus.tls") => {
            vec![modules(
                json!({"serviceBus": {"enable": true, "tlsCertFile": "/c", "tlsPrivateKeyFile": "/k"}}),
            )]
        }
        path if path.starts_with("modules.serviceBus.") => {
            vec![modules(json!({"serviceBus": {"enable": true}}))]
        }
        path if path.starts_with("modules.edgeMesh.") => {
            vec![modules(json!({"edgeMesh": {"enable": true}}))]
        }
        path if path.ends_with(".shutdownGracePeriodCriticalPods") => {
            let kubelet = json!({"shutdownGracePeriod": "7h"});
            vec![modules(
                json!({"edged": {"tailoredKubeletConfig": kubelet}}),
            )]
        }
        path if path.starts_with("featureGates") => vec![meta_server(json!({}))],
        _ => vec![plain],
    }
}

#[tokio::test]
async fn every_setting_is_used_or_warned_of() {
    let host = Host {
        name: "edge-1".into(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let shape = config::shape(&host).unwrap();
    let mut all = Vec::new();
    leaves(&shape, &mut Vec::new(), &mut all);
    assert!(all.len() > 180, "{} settings", all.len());
    let (_, none) = convert(json!({"kind": "EdgeCore"}));
    assert!(none.is_empty(), "{none:?}");
    // the kind of the file, and modules without which there is no agent: no other value is accepted
    let fixed = [
        "apiVersion",
        "kind",
        "modules.edgeHub.enable",
        "modules.metaManager.enable",
    ];
    let fixed: Vec<_> = fixed
        .into_iter()
        .chain([
            "modules.edgeHub.quic.enable",
            "modules.edgeHub.websocket.enable",
        ])
        .collect();
    let (mut silent, mut usuals) = (Vec::new(), BTreeMap::new());
    for (place, value) in &all {
        let path = place.join(".");
        for base in contexts(&path) {
            let usual = usuals
                .entry(base.to_string())
                .or_insert_with(|| convert(base.clone()).0.unwrap());
            let is_refused = || {
                let refused =
                    |other: &Value| convert(laid_over(&base, &at(place, other))).0.is_none();
                fixed.contains(&path.as_str()) && others(value).iter().all(refused)
            };
            if !is_refused()
                && !others(value)
                    .iter()
                    .any(|other| is_noticed(&base, usual, place, other))
            {
                silent.push(format!("{path} beside {base}"));
            }
        }
    }
    // the version of EdgeCore that wrote the file is no setting; a soft threshold and its grace period only work together
    let known = ["edgecoreVersion", "evictionSoft", "evictionSoftGracePeriod"];
    let silent: Vec<_> = silent
        .into_iter()
        .filter(|line| {
            !known.iter().any(|key| {
                line.split(' ')
                    .next()
                    .is_some_and(|path| path.ends_with(key))
            })
        })
        .collect();
    let pair = json!({"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "7s"}});
    let place = ["modules", "edged", "tailoredKubeletConfig"].map(str::to_owned);
    let (plain, usual) = (
        json!({"kind": "EdgeCore"}),
        convert(json!({"kind": "EdgeCore"})).0.unwrap(),
    );
    assert!(
        is_noticed(&plain, &usual, &place, &pair),
        "a soft threshold is ignored"
    );
    assert!(
        silent.is_empty(),
        "ignored in silence:\n{}",
        silent.join("\n")
    );
}

#[tokio::test]
async fn an_interface_gives_the_node_its_address() {
    let with = |name: &str| {
        convert(json!({"modules": {"edged": {"customInterfaceName": name, "nodeIP": "10.0.0.9"}}}))
    };
    assert!(with("lo").0.unwrap().contains("127.0.0.1"));
    assert!(with("no-such-interface").0.is_none());
}

#[tokio::test]
async fn a_missing_runtime_is_reported_with_its_socket() {
    let channel = connect("unix:///nowhere/containerd.sock").unwrap();
    let mut client = wire::cri::runtime_service_client::RuntimeServiceClient::new(channel);
    let status = client
        .version(wire::cri::VersionRequest::default())
        .await
        .unwrap_err();
    for part in [
        "/nowhere/containerd.sock",
        "containerRuntimeEndpoint",
        "No such file",
    ] {
        assert!(status.message().contains(part), "{status}");
    }
}

/// Returns a free address of this machine.
fn free() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Waits until something listens there.
async fn wait_listening(address: SocketAddr) {
    let connect = async || tokio::net::TcpStream::connect(address).await;
    eventually(&format!("somebody listens on {address}"), connect).await;
}

#[tokio::test(start_paused = true)]
async fn every_part_can_be_restarted() {
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
    let host = Host {
        name: "edge-1".into(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (config, _) = config::parse(Path::new("x"), &document.to_string(), None, &host).unwrap();
    let parts = AgentParts {
        runtime: connect(&config.edged.runtime_endpoint).unwrap(),
        store: MemoryStore::new(),
        signals: None,
        pod_network: None,
        copies: Some(MemoryStore::new()),
        secrets_in_memory: false,
        recorder: Default::default(),
        configuration: None,
        in_process: None,
        serves_mappers: true,
    };
    let shutdown = CancellationToken::new();
    let app = App::start(&config, parts, shutdown.clone()).unwrap();
    let vitals = app.supervisor.vitals();
    let mut running = tokio::spawn(Box::pin(app.run()));
    let parts: Vec<_> = vitals.read().iter().map(|vital| vital.part).collect();
    assert_eq!(
        parts,
        [
            "devicetwin",
            "dmi",
            "edged",
            "edgehub",
            "eventbus",
            "lost-messages",
            "metamanager",
            "metaserver"
        ],
        "all have a heart"
    );
    for part in parts {
        // as if one of its loops were hanging
        let heartbeat = vitals.part(part).heartbeat("forced");
        heartbeat.beat();
        let restarts = || {
            vitals
                .read()
                .into_iter()
                .find(|vital| vital.part == part)
                .unwrap()
                .restarts
        };
        within_timeout(LONG_TIMEOUT, part, async {
            while restarts() == 0 {
                assert!(!running.is_finished(), "{part}: {:?}", (&mut running).await);
                sleep(std::time::Duration::from_secs(1)).await;
            }
        })
        .await;
    }
    tokio::time::resume();
    for address in [mqtt, meta_server, kubelet] {
        wait_listening(address).await;
    }
    let socket = path("dmi.sock");
    eventually("mappers are served", async || {
        UnixStream::connect(&socket).await
    })
    .await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
