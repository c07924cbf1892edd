//! Generated configurations.

use std::{collections::BTreeSet, path::PathBuf};

use edged::{CgroupDriver, SIMULATED_RUNTIME};

use super::*;
use crate::{
    check::{
        Broker,
        tests::{config, join, machine, runtime_info},
    },
    config::MqttMode,
};

#[test]
fn options_and_machine_determine_the_configuration() {
    let plain = config(&join(""), &machine(None, Broker::None));
    assert_eq!(plain.node.name, "edge-7");
    assert_eq!(plain.edge_hub.servers[0].to_string(), "192.0.2.10:10000");
    assert_eq!(
        plain.edge_hub.http_servers[0].to_string(),
        "192.0.2.10:10002"
    );
    assert_eq!(plain.edged.runtime_endpoint, "unix:///run/x.sock");
    assert_eq!(plain.edged.groups.driver, CgroupDriver::Cgroupfs);
    let bus = plain.event_bus.unwrap();
    assert_eq!(
        (bus.mode, bus.internal_server.port()),
        (MqttMode::Internal, 1884)
    );
    assert!(plain.edge_stream.is_none());
    let streams = Machine {
        tunnel_port: Some(7),
        ..machine(None, Broker::None)
    };
    let streams = config(&join("--root /srv/e"), &streams)
        .edge_stream
        .unwrap();
    assert_eq!(streams.endpoint.server.to_string(), "192.0.2.10:7");
    assert_eq!(
        streams.tls.cert,
        PathBuf::from("/srv/e/etc/kubeedge/certs/server.crt")
    );

    let given = "--name edge-8 --cert-port 7 --labels zone=harbour,empty= --node-ip 10.0.0.8 --read-only-port 0 --root /srv/e";
    let given = config(
        &join(given),
        &machine(Some(CgroupDriver::Systemd), Broker::Refuses(5)),
    );
    assert_eq!(
        (given.node.name.as_str(), given.node.ip),
        ("edge-8", Some([10, 0, 0, 8].into()))
    );
    assert_eq!(given.edge_hub.http_servers[0].port, 7);
    assert_eq!(
        given.node.labels.get("zone").map(String::as_str),
        Some("harbour")
    );
    assert_eq!(given.edged.groups.driver, CgroupDriver::Systemd);
    let bus = given.event_bus.unwrap();
    assert_eq!(
        (bus.mode, bus.external_server.port),
        (MqttMode::External, 1883)
    );
    for path in [
        given.database,
        given.edge_hub.tls.key,
        given.edged.root_dir,
        given.edged.pod_logs_dir,
        given.device_twin.unwrap().dmi_socket_dir,
    ] {
        assert!(path.starts_with("/srv/e/"), "{}", path.display());
    }
}

#[test]
fn root_moves_every_path_of_the_configuration() {
    let config = config(&join("--root /srv/e"), &machine(None, Broker::None));
    let volumes = app::volumes_directory(&config);
    let text = format!("{config:?} {volumes:?}");
    let paths: BTreeSet<&str> = text
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with('/'))
        .collect();
    // the resolver of the machine is read, not written
    let elsewhere: Vec<_> = paths
        .iter()
        .filter(|path| !path.starts_with("/srv/e/"))
        .collect();
    assert_eq!(elsewhere, [&"/etc/resolv.conf"]);
    for expected in [
        "etc/kubeedge/manifests",
        "var/lib/kubelet",
        "var/log/pods",
        "var/lib/kubeedge/volumes",
    ] {
        assert!(
            paths.contains(format!("/srv/e/{expected}").as_str()),
            "{expected}: {paths:?}"
        );
    }
}

#[test]
fn machine_with_a_simulated_runtime_evicts_nothing_unless_configured() {
    let of = |name: &str| Machine {
        runtimes: vec![("unix:///run/x.sock".into(), Ok(runtime_info(name, None)))],
        ..machine(None, Broker::None)
    };
    let real = config(&join(""), &of("containerd")).edged;
    assert_eq!(
        (
            real.eviction.thresholds.len(),
            real.housekeeping.image_high_percent
        ),
        (5, 85)
    );
    let simulated = config(&join(""), &of(SIMULATED_RUNTIME)).edged;
    assert_eq!(
        (
            simulated.eviction.thresholds.len(),
            simulated.housekeeping.image_high_percent
        ),
        (0, 100)
    );
}

#[test]
fn an_invalid_option_is_named_instead_of_the_setting_that_it_becomes() {
    let error = |path: &str| config::FieldError {
        path: path.into(),
        message: "is wrong".into(),
        line: None,
    };
    let errors = [
        "modules.edgeHub.token",
        "modules.edged.hostnameOverride",
        "modules.edged.nodeIP",
        "modules.edged.nodeLabels.zone",
        "modules.edged.rootDirectory",
    ]
    .map(error);
    let error = config::Error::Invalid {
        path: "edgecore.yaml".into(),
        errors: errors.into(),
        typos: Vec::new(),
    };
    assert_eq!(
        super::config_error(error).to_string(),
        "invalid options:\n  --token: is wrong\n  --name: is wrong\n  --node-ip: is wrong\n  --labels: is wrong\n  \
         modules.edged.rootDirectory: is wrong"
    );
}

#[test]
fn failed_join_leaves_only_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for path in ["new/certs/server.key", "old/ca/rootCA.crt", "old/notes"] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let created = [root.join("new"), root.join("old/ca")].into();
    for path in [
        "new/certs/server.key",
        "new/certs/server.crt",
        "old/ca/rootCA.crt",
    ] {
        remove_new(&root.join(path), &created);
    }
    assert!(!root.join("new").exists() && !root.join("old/ca").exists());
    assert!(root.join("old/notes").exists());
}
