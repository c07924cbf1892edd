//! Modules that hang, in virtual time: they are restarted, and later requests are answered.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    time::Duration,
};

use componentbase::Supervisor;
use objectstore::Store;
use serde_json::json;
use testkit::{LONG_TIMEOUT, eventually_paused, within_timeout};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    super::{Config, Internal, new},
    mapper::Mapper,
    node::{FailingStore, device, internal, meta_config},
    topic,
};
use crate::{
    devicetwin::{self, Reading},
    edgehub::fake_cloud::fake_cloud,
    metamanager::{self, DeviceObject, DeviceObjects},
};

/// Returns a free port.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Stores a device and its model, as if the cloud had sent them.
async fn put_device(objects: &DeviceObjects) {
    let spec = json!({"metadata": {"namespace": "default", "name": "d", "uid": "d"}, "spec": {
        "deviceModelRef": {"name": "m"}, "properties": [{"name": "temp", "desired": {"value": "21"}}],
    }});
    let model = json!({"metadata": {"namespace": "default", "name": "m", "uid": "m"}, "spec": {"properties": [
        {"name": "temp", "type": "FLOAT", "accessMode": "ReadWrite"},
    ]}});
    let model_id = wire::topic::DeviceId::parse("default/m").unwrap();
    objects
        .put(DeviceObject::Model, &model_id, Some(model))
        .await;
    objects
        .put(DeviceObject::Device, &device(), Some(spec))
        .await;
}

#[tokio::test(start_paused = true)]
async fn devices_and_broker_work_again_after_they_hung() {
    let hanging = FailingStore::new();
    let store: Arc<dyn Store> = hanging.clone();
    let (hub, inbound, mut line) = fake_cloud();
    let (meta, ends) = metamanager::new(meta_config(store.clone(), &hub, inbound));
    let address = (Ipv4Addr::LOCALHOST, free_port()).into();
    let internal = Some(Internal {
        address,
        ..internal(None)
    });
    let messages = ends.topic_messages;
    let bus = Config {
        internal,
        external: None,
        store: store.clone(),
        hub: hub.clone(),
        messages,
    };
    let (bus, requests, bus_task) = new(bus).unwrap();
    let (devices, task) = devicetwin::new(devicetwin::Config {
        node_name: "edge-1".into(),
        store,
        objects: meta.devices(),
        messages: ends.device_messages,
        hub,
        bus: bus.clone(),
        requests,
    });
    put_device(&meta.devices()).await;
    let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
    let vitals = supervisor.vitals();
    supervisor.supervise("eventbus", bus_task, &shutdown);
    supervisor.supervise("devicetwin", task, &shutdown);
    supervisor.supervise("metamanager", ends.task, &shutdown);
    let running = tokio::spawn(supervisor.run(shutdown.clone()));
    line.up();
    let report = async |value: &str| {
        let reading = Reading {
            property: "temp".into(),
            value: Some(value.into()),
            at: None,
            observed: None,
        };
        devices.report(&device(), vec![reading]).await
    };
    let restarts = |part: &str| {
        vitals
            .read()
            .into_iter()
            .find(|vital| vital.part == part)
            .map_or(0, |vital| vital.restarts)
    };
    // the device is read concurrently
    eventually_paused("the first report is taken", async || report("1").await).await;
    hanging.hang_once();
    let begun = Instant::now();
    report("2").await.unwrap_err();
    assert!(
        begun.elapsed() < Duration::from_secs(120),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(restarts("devicetwin"), 1);
    eventually_paused("the third report is taken", async || report("3").await).await;
    let twins = serde_json::to_value(devices.twin(&device()).await.unwrap()).unwrap();
    assert_eq!(twins["temp"]["actual"]["value"], "3", "{twins}");
    // as if loops of the other modules were past their deadlines
    for part in ["eventbus", "metamanager"] {
        let heartbeat = vitals.part(part).heartbeat("forced");
        heartbeat.beat();
        within_timeout(LONG_TIMEOUT, part, async {
            while restarts(part) == 0 {
                sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
    }
    tokio::time::resume();
    let mut mapper = Mapper::connect(address, "mapper").await;
    mapper
        .publish(
            &topic("d", "twin/get"),
            json!({"event_id": "e", "timestamp": 1}),
        )
        .await;
    let told = mapper.wait_told(&topic("d", "twin/get/result"), "e").await;
    assert_eq!(told["twin"]["temp"]["actual"]["value"], "3", "{told}");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
