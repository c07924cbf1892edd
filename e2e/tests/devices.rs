//! A Device applied with kubectl reaches a mapper, and what that reports stands in `kubectl get devicestatus`: also when the agent
//! is killed in the middle, and while the cloud is away.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{Kubectl, Rig, until};
use mapper::{Config, Device, Link, Mapper, Property, Protocol, Result};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const MANIFESTS: &str = "
apiVersion: devices.kubeedge.io/v1beta1
kind: DeviceModel
metadata: {name: valve}
spec:
  protocol: memory
  properties:
  - {name: opening, type: INT, accessMode: ReadWrite, minimum: '0', maximum: '100', unit: percent}
---
apiVersion: devices.kubeedge.io/v1beta1
kind: Device
metadata: {name: valve}
spec:
  deviceModelRef: {name: valve}
  nodeName: edge-1
  protocol: {protocolName: memory}
  properties:
  - {name: opening, desired: {value: '10'}, collectCycle: 50, reportCycle: 50, reportToCloud: true}
";

/// A valve that stays where it is put.
#[derive(Clone, Default)]
struct Valve(Arc<Mutex<String>>);

impl Valve {
    fn opening(&self) -> String {
        self.0.lock().map(|opening| opening.clone()).unwrap_or_default()
    }

    fn put(&self, value: &str) {
        if let Ok(mut opening) = self.0.lock() {
            value.clone_into(&mut opening);
        }
    }
}

impl Protocol for Valve {
    type Link = Self;

    async fn open(&self, _: &Device) -> Result<Self> {
        Ok(self.clone())
    }
}

impl Link for Valve {
    async fn read(&mut self, _: &Property) -> Result<String> {
        Ok(self.opening())
    }

    async fn write(&mut self, _: &Property, value: &str) -> Result<()> {
        self.put(value);
        Ok(())
    }
}

fn until_reported(kubectl: &Kubectl, value: &str) -> anyhow::Result<()> {
    until(&format!("the valve is reported at {value}"), || {
        let path = "jsonpath={.status.twins[0].reported.value}";
        let found = kubectl.run(&["get", "devicestatus", "valve", "-o", path])?;
        ensure!(found == value, "it is {found}");
        Ok(())
    })
}

fn want(kubectl: &Kubectl, value: &str) -> anyhow::Result<()> {
    kubectl.apply(&MANIFESTS.replace("'10'", &format!("'{value}'"))).map(drop)
}

#[test]
fn a_device_over_dmi() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    let kubectl = rig.cloud.kubectl.clone();
    let sockets = rig.directory.path().join("node");
    let config = Config {
        socket: sockets.join("valve.sock"),
        agent: sockets.join("dmi.sock"),
        ..Config::new("valve", "memory")
    };
    let valve = Valve::default();
    let (runtime, shutdown) = (Runtime::new()?, CancellationToken::new());
    let within = runtime.enter();
    let mapper = Mapper::bind(config, valve.clone())?;
    drop(within);
    let mapper = runtime.spawn(mapper.run(shutdown.clone()));

    want(&kubectl, "10")?;
    until_reported(&kubectl, "10")?;
    let yaml = kubectl.run(&["get", "devicestatus", "valve", "-o", "yaml"])?;
    for line in ["state: online", "propertyName: opening", "kind: Device"] {
        ensure!(yaml.contains(line), "no {line:?} in\n{yaml}");
    }
    let refused =
        kubectl.apply(&MANIFESTS.replace("'10'", "'101'")).err().context("101 percent were taken")?;
    let refused = format!("{refused:#}");
    ensure!(
        refused.contains("spec.properties[0].desired.value") && refused.contains("maximum, 100 percent"),
        "{refused}"
    );

    rig.node.process.kill()?;
    valve.put("33");
    want(&kubectl, "20")?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent runs")?;
    until("the valve is moved", || {
        let opening = valve.opening();
        ensure!(opening == "20", "it is at {opening}");
        Ok(())
    })?;
    until_reported(&kubectl, "20")?;
    // a value of its own, told by an agent that knew the mapper from its database
    valve.put("44");
    until_reported(&kubectl, "44")?;

    rig.cloud.process.kill()?;
    valve.put("55");
    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    until_reported(&kubectl, "55")?;

    shutdown.cancel();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), mapper).await })???;
    kubectl.run(&["delete", "device", "valve"])?;
    until("the status goes with its device", || {
        let left = kubectl.run(&["get", "devicestatus", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
}
