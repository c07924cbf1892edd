//! Tests of [`super`].

use k8s_openapi::api::core::v1::NodeAddress;
use wire::cri;

use super::*;
use crate::{NodeConfig, pressure::Pressure, runtime::Runtime};

fn machine() -> Machine {
    Machine {
        cpus: 4,
        memory: 2 << 30,
        storage: 8 << 30,
        kernel: "6.1.0".into(),
        os_image: "Debian GNU/Linux 12".into(),
        machine_id: "m".into(),
        boot_id: "b".into(),
        system_uuid: "s".into(),
        architecture: "arm64",
        ..Machine::default()
    }
}

fn description(config: &NodeConfig) -> Description<'_> {
    let addresses = Addresses::new(AddressSource::Fixed([192, 168, 1, 5].into()));
    Description {
        name: "edge-1",
        config,
        addresses: addresses.of_status("edge-1"),
        machine: machine(),
        pressure: Pressure::none(),
        devices: tokio::sync::watch::channel(Default::default()).1,
    }
}

fn health(network: bool) -> RuntimeHealth {
    let condition = |kind: &str, status| cri::RuntimeCondition {
        r#type: kind.into(),
        status,
        reason: "NoCni".into(),
        message: "no network plugin".into(),
    };
    let conditions = vec![
        condition("RuntimeReady", true),
        condition("NetworkReady", network),
    ];
    let version = cri::VersionResponse {
        runtime_name: "containerd".into(),
        runtime_version: "1.7.0".into(),
        ..Default::default()
    };
    let features = cri::RuntimeHandlerFeatures {
        recursive_read_only_mounts: true,
        user_namespaces: false,
    };
    let handler = cri::RuntimeHandler {
        name: "runc".into(),
        features: Some(features),
    };
    let status = cri::StatusResponse {
        status: Some(cri::RuntimeStatus { conditions }),
        runtime_handlers: vec![handler],
        ..Default::default()
    };
    RuntimeHealth::of(&version, &status)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

#[test]
fn the_node_presents_itself_as_an_edge_node() {
    let mut config = NodeConfig {
        register_schedulable: false,
        ..Default::default()
    };
    config.labels.insert("site".into(), "harbour".into());
    let description = description(&config);
    let node = description.node(description.status(&NodeStatus::default(), &health(true), at(0)));
    insta::assert_json_snapshot!(node);
}

#[test]
fn a_status_differs_when_more_than_time_has_passed() {
    let config = NodeConfig::default();
    let description = description(&config);
    let first = description.status(&NodeStatus::default(), &health(true), at(0));
    let second = description.status(&first, &health(true), at(10));
    assert!(!status::differs(&first, &second));
    // what the cloud has put before the own addresses is no difference, and a lost address is
    let address = |type_: &str, address: &str| NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    };
    let own = vec![
        address("InternalIP", "192.0.2.7"),
        address("Hostname", "edge-1"),
    ];
    let with = |addresses: &[NodeAddress]| NodeStatus {
        addresses: Some(addresses.to_vec()),
        ..first.clone()
    };
    let with_cloud = [vec![address("Hostname", "10.96.0.7")], own.clone()].concat();
    for (old, new, expected) in [
        (&own, &own, false),
        (&with_cloud, &own, false),
        (&own, &own[..1].to_vec(), true),
        (&own[..1].to_vec(), &own, true),
    ] {
        assert_eq!(
            status::differs(&with(old), &with(new)),
            expected,
            "{old:?} {new:?}"
        );
    }
    let third = description.status(&second, &health(false), at(20));
    assert!(status::differs(&second, &third));
    let ready = third
        .conditions
        .unwrap()
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.status, "False");
    assert_eq!(
        ready.last_transition_time,
        Some(crate::timestamps::to_api(at(20)))
    );
    assert!(
        ready
            .message
            .unwrap()
            .ends_with("NetworkReady=false reason:NoCni message:no network plugin")
    );
    let down = description.status(&second, &RuntimeHealth::down("refused"), at(30));
    assert_eq!(
        down.node_info.unwrap().container_runtime_version,
        "containerd://1.7.0"
    );
}

#[test]
fn kubelet_port_set_by_the_cloud_is_kept() {
    let config = NodeConfig::default();
    let description = description(&config);
    let port = |status: &NodeStatus| {
        status
            .daemon_endpoints
            .as_ref()
            .and_then(|endpoints| Some(endpoints.kubelet_endpoint.as_ref()?.port))
    };
    let mut first = description.status(&NodeStatus::default(), &health(true), at(0));
    assert_eq!(port(&first), Some(i32::from(config.kubelet_port)));
    let endpoint = first
        .daemon_endpoints
        .as_mut()
        .unwrap()
        .kubelet_endpoint
        .as_mut()
        .unwrap();
    endpoint.port = 10351;
    let second = description.status(&first, &health(true), at(300));
    assert_eq!(port(&second), Some(10351));
    let mut unset = second;
    unset
        .daemon_endpoints
        .as_mut()
        .unwrap()
        .kubelet_endpoint
        .as_mut()
        .unwrap()
        .port = 0;
    assert_eq!(
        port(&description.status(&unset, &health(true), at(600))),
        Some(i32::from(config.kubelet_port))
    );
}

#[test]
fn existing_node_gets_only_missing_labels_and_annotations() {
    let config = NodeConfig::default();
    let description = description(&config);
    let mut node = description.node(NodeStatus::default());
    node.metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("theirs".into(), "stays".into());
    assert_eq!(description.metadata_patch(&node), None);
    node.metadata
        .labels
        .as_mut()
        .unwrap()
        .remove("node-role.kubernetes.io/edge");
    let patch = description.metadata_patch(&node).unwrap();
    assert_eq!(
        patch["metadata"]["labels"],
        json!({"node-role.kubernetes.io/edge": ""})
    );
}

#[test]
fn a_renewed_lease_keeps_its_version() {
    let first = lease::renew(
        &Default::default(),
        "edge-1",
        Duration::from_secs(40),
        at(0),
    );
    assert_eq!(
        first.spec.as_ref().unwrap().lease_duration_seconds,
        Some(40)
    );
    let mut stored = first;
    stored.metadata.resource_version = Some("7".into());
    let second = lease::renew(&stored, "edge-1", Duration::from_secs(40), at(10));
    let third = lease::renew(&second, "edge-1", Duration::from_secs(40), at(20));
    assert_eq!(third.metadata.resource_version.as_deref(), Some("7"));
    assert!(third.spec.unwrap().renew_time > second.spec.unwrap().renew_time);
}

#[test]
fn the_machine_is_read_from_the_kernels_text() {
    assert_eq!(
        machine::memory("MemTotal:       2048 kB\nMemFree: 1 kB"),
        Some(2 << 20)
    );
    assert_eq!(machine::memory("nonsense"), None);
    assert_eq!(
        machine::os_name("ID=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(),
        Some("Debian 12")
    );
    let here = Machine::read(std::path::Path::new("/"));
    assert!(here.memory > 0 && here.storage > 0 && here.cpus > 0);
}

#[tokio::test]
async fn the_status_follows_the_nodes_address_and_pods_are_looked_at() {
    let store = objectstore::MemoryStore::new();
    let client = kubeapi::Api::builder(store).build().client("default");
    let config = NodeConfig::default();
    let (triggers, mut triggered) = mpsc::channel(1);
    let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let mut reporter = Reporter {
        shutdown: crate::shutdown_status::ShutdownStatus::default(),
        api: Api::all(client),
        description: description(&config),
        addresses: Addresses::new(AddressSource::Fixed([192, 168, 1, 5].into())),
        triggers,
        runtime: Runtime::new(channel, None),
        last: None,
        pod_cidr: String::new(),
        reported_at: None,
        heart: componentbase::Heartbeat::unmonitored(),
    };
    let mut told = Vec::new();
    for address in [[192, 168, 1, 5], [192, 168, 1, 5], [10, 0, 0, 7]] {
        reporter.addresses = reporter
            .addresses
            .now_from(AddressSource::Fixed(address.into()));
        reporter.sync_status().await.unwrap();
        let node = reporter.api.get("edge-1").await.unwrap();
        let address = node.status.unwrap().addresses.unwrap().remove(0).address;
        told.push((address, triggered.try_recv().is_ok()));
    }
    let row = |address: &str, triggered| (address.to_owned(), triggered);
    assert_eq!(
        told,
        [
            row("192.168.1.5", false),
            row("192.168.1.5", false),
            row("10.0.0.7", true)
        ]
    );
}
