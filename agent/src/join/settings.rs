//! Generates the edgecore.yaml of a machine: the short one, with the options and the machine's state. Pure.

use anyhow::Context;
use edged::CgroupDriver;
use serde_json::{Map, Value, json};

use crate::{
    check::{Machine, STREAM_PORT},
    cli::{Driver, Join},
    config::{self, Host, HostPort},
};

/// Returns the text, without the token.
pub(crate) fn edgecore_yaml(join: &Join, host: &Host, machine: &Machine) -> anyhow::Result<String> {
    const KUBELET: &str = "modules.edged.tailoredKubeletConfig";
    let mut text = config::minimal_config(host);
    let mut set = |path: &str, value: Value| {
        text = config::fill(&text, path, &value)
            .with_context(|| format!("the configuration has no {path}"))?;
        anyhow::Ok(())
    };
    let https = HostPort {
        port: join.cert_port,
        ..join.cloud.clone()
    };
    set(
        "modules.edgeHub.httpServer",
        json!(format!("https://{https}")),
    )?;
    set(
        "modules.edgeHub.websocket.server",
        json!(join.cloud.to_string()),
    )?;
    let streams = HostPort {
        port: machine.tunnel_port.unwrap_or(STREAM_PORT),
        ..join.cloud.clone()
    };
    set(
        "modules.edgeStream.enable",
        json!(machine.tunnel_port.is_some()),
    )?;
    set("modules.edgeStream.server", json!(streams.to_string()))?;
    if let Some(name) = &join.name {
        set("modules.edged.hostnameOverride", json!(name))?;
    }
    if let Some(ip) = join.node_ip {
        set("modules.edged.nodeIP", json!(ip.to_string()))?;
    }
    if !join.labels.is_empty() {
        let labels: Map<_, _> = join
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        set("modules.edged.nodeLabels", Value::Object(labels))?;
    }
    set(
        &format!("{KUBELET}.containerRuntimeEndpoint"),
        json!(machine.endpoint),
    )?;
    let driver = match join.cgroup_driver {
        Some(Driver::Systemd) => CgroupDriver::Systemd,
        Some(Driver::Cgroupfs) => CgroupDriver::Cgroupfs,
        None => machine.driver(),
    };
    let driver = if driver == CgroupDriver::Systemd {
        "systemd"
    } else {
        "cgroupfs"
    };
    set(&format!("{KUBELET}.cgroupDriver"), json!(driver))?;
    set(
        &format!("{KUBELET}.readOnlyPort"),
        json!(join.read_only_port),
    )?;
    if machine.is_simulated() {
        set(
            &format!("{KUBELET}.evictionHard"),
            config::disabled_eviction(),
        )?;
        set(
            &format!("{KUBELET}.imageGCHighThresholdPercent"),
            json!(100),
        )?;
    }
    let broker = format!("tcp://127.0.0.1:{}", machine.broker_port);
    if machine.broker.is_broker() {
        set("modules.eventBus.mqttMode", json!(2))?;
        set("modules.eventBus.mqttServerExternal", json!(broker))?;
    } else {
        set("modules.eventBus.mqttMode", json!(0))?;
        set("modules.eventBus.mqttServerInternal", json!(broker))?;
    }
    Ok(config::relocate(&text, |usual| join.paths.in_root(usual))?)
}
