//! Measures a node with devices, with each program as a process: how long a value takes from a mapper's socket to the custom
//! resource, and how much memory an agent with ten thousand devices uses.

use std::{
    net::SocketAddr,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use crds::devices::{Device, DeviceModel, DeviceStatus};
use e2e::{Ports, Rig, mosquitto};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use rumqttc::{AsyncClient, Broker, Event, EventLoop, Incoming, MqttOptions, PublishOptions, QoS};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{LONG_TIMEOUT, eventually_within};
use tokio::{sync::watch, time::interval};

use crate::{
    Figure,
    processes::{client, memory},
};

/// How many values are timed.
const VALUES: usize = 500;
/// The interval between values, which stays below the messages that a node may send in a second (`messageQPS`).
const PACE: Duration = Duration::from_millis(50);
/// The number of devices of one node.
const MANY: usize = 10_000;
/// How many requests to the API are in flight at a time.
const AT_ONCE: usize = 32;
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Measures from a publication on `twin/update` to the event of the `DeviceStatus` in a watch of the API, with the broker in the
/// agent and with a separate mosquitto.
pub(crate) async fn reports() -> anyhow::Result<Vec<Figure>> {
    let node = Node::start().await?;
    node.create(&model()).await?;
    node.create(&device(0)).await?;
    let value = watch_reported(&node.client);
    let mut figures = Vec::new();
    for (address, names) in [
        (
            node.inside,
            ["devices.report.internal-p50", "devices.report.internal-p99"],
        ),
        (
            node.beside,
            [
                "devices.report.mosquitto-p50",
                "devices.report.mosquitto-p99",
            ],
        ),
    ] {
        let mut took = time(address, value.clone()).await?;
        took.sort_by(f64::total_cmp);
        let at = |part: f64| took[((took.len() - 1) as f64 * part).round() as usize];
        for (name, value) in names.into_iter().zip([at(0.5), at(0.99)]) {
            figures.push(Figure {
                name: name.into(),
                value,
                unit: "ms",
            });
        }
    }
    node.end().await?;
    Ok(figures)
}

/// Measures the agent's memory before and after it gets the devices, and after each of them was reported once.
pub(crate) async fn many() -> anyhow::Result<Vec<Figure>> {
    let node = Node::start().await?;
    node.create(&model()).await?;
    let mut figures = vec![node.resident("devices.none-resident")?];
    let begun = Instant::now();
    let creating = stream::iter(0..MANY).map(|number| {
        let node = &node;
        async move { node.create(&device(number)).await }
    });
    creating
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let mut mapper = Mapper::at(node.inside, "$hw/events/node/+/membership/get/result").await?;
    let members = async {
        loop {
            mapper
                .publish(
                    "$hw/events/node/edge-1/membership/get",
                    "{\"event_id\":\"m\"}".to_owned(),
                )
                .await?;
            let list = mapper.next().await?;
            if list["devices"]
                .as_array()
                .is_some_and(|devices| devices.len() >= MANY)
            {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, members)
        .await
        .context("the devices do not reach the node")??;
    figures.push(Figure {
        name: "devices.10000-known".into(),
        value: begun.elapsed().as_secs_f64(),
        unit: "s",
    });
    figures.push(node.resident("devices.10000-resident")?);
    let mut mapper = Mapper::at(node.inside, "$hw/events/device/+/+/twin/update/result").await?;
    for number in 0..MANY {
        mapper
            .publish(
                &format!("$hw/events/device/default/d{number}/twin/update"),
                update("21"),
            )
            .await?;
        if number % AT_ONCE == AT_ONCE - 1 {
            for _ in 0..AT_ONCE {
                mapper.next().await?;
            }
        }
    }
    figures.push(node.resident("devices.10000-reported-resident")?);
    node.end().await?;
    Ok(figures)
}

fn model() -> Value {
    json!({"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel", "metadata": {"name": "m"}, "spec": {"properties": [
        {"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "-50", "maximum": "1000000", "unit": "celsius"},
    ]}})
}

fn device(number: usize) -> Value {
    json!({"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": format!("d{number}")}, "spec": {
        "deviceModelRef": {"name": "m"}, "nodeName": e2e::NODE,
        "protocol": {"protocolName": "modbus", "configData": {"slaveID": 1, "address": "127.0.0.1:502"}},
        "properties": [{"name": "temperature", "desired": {"value": "20"}, "collectCycle": 1000, "reportCycle": 1000, "reportToCloud": true,
            "visitors": {"protocolName": "modbus", "configData": {"register": "HoldingRegister", "offset": 2, "limit": 1}}}],
    }})
}

fn update(value: &str) -> String {
    json!({"event_id": value, "timestamp": 0, "twin": {"temperature": {"actual": {"value": value}}}})
        .to_string()
}

/// A cloud, an agent and mosquitto.
struct Node {
    rig: Rig,
    _mosquitto: e2e::Process,
    client: Client,
    inside: SocketAddr,
    beside: SocketAddr,
}

impl Node {
    async fn start() -> anyhow::Result<Self> {
        let start = || {
            let (directory, ports) = (TempDir::new()?, Ports::free()?);
            let mosquitto = mosquitto(directory.path(), ports.https)?;
            anyhow::Ok((Rig::with_brokers(directory, ports)?, mosquitto, ports))
        };
        let (rig, mosquitto, ports) = tokio::task::spawn_blocking(start).await??;
        let client = client(&rig.cloud.kubeconfig).await?;
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self {
            rig,
            _mosquitto: mosquitto,
            client,
            inside: at(ports.api),
            beside: at(ports.https),
        })
    }

    async fn end(self) -> anyhow::Result<()> {
        Ok(tokio::task::spawn_blocking(move || drop(self)).await?)
    }

    async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let (client, parameters) = (self.client.clone(), PostParams::default());
        if object["kind"] == "Device" {
            let device = decode::<Device>(object)?;
            Api::default_namespaced(client)
                .create(&parameters, &device)
                .await?;
        } else {
            let model = decode::<DeviceModel>(object)?;
            Api::default_namespaced(client)
                .create(&parameters, &model)
                .await?;
        }
        Ok(())
    }

    fn resident(&self, name: &'static str) -> anyhow::Result<Figure> {
        let agent = self.rig.node.process.id().context("the agent has ended")?;
        Ok(Figure {
            name: name.into(),
            value: memory(agent)?.resident,
            unit: "MB",
        })
    }
}

fn decode<T: DeserializeOwned>(object: &Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(object.clone())?)
}

/// Returns the reported value as a watch of the API shows it, and when it did.
fn watch_reported(client: &Client) -> watch::Receiver<Option<(String, Instant)>> {
    let (sender, receiver) = watch::channel(None);
    let statuses = Api::<DeviceStatus>::default_namespaced(client.clone());
    tokio::spawn(async move {
        let events = watcher::watcher(statuses, watcher::Config::default());
        let mut statuses = pin!(events.default_backoff().applied_objects());
        while let Ok(Some(status)) = statuses.try_next().await {
            let twins = status.status.map(|status| status.twins).unwrap_or_default();
            let value = twins
                .into_iter()
                .find_map(|twin| Some(twin.reported?.value));
            sender.send_replace(value.map(|value| (value, Instant::now())));
        }
    });
    receiver
}

/// Returns how long each value took, in milliseconds.
async fn time(
    address: SocketAddr,
    mut value: watch::Receiver<Option<(String, Instant)>>,
) -> anyhow::Result<Vec<f64>> {
    let mapper = Mapper::ready(address).await?;
    let mut took = Vec::with_capacity(VALUES);
    let mut pace = interval(PACE);
    for number in 0..VALUES {
        pace.tick().await;
        let wanted = format!("{}", address.port() as usize % 7 * 100_000 + number);
        let begun = Instant::now();
        mapper
            .publish("$hw/events/device/default/d0/twin/update", update(&wanted))
            .await?;
        let is_it = |seen: &Option<(String, Instant)>| {
            seen.as_ref().is_some_and(|(value, _)| *value == wanted)
        };
        let seen = tokio::time::timeout(LONG_TIMEOUT, value.wait_for(is_it))
            .await??
            .clone();
        took.extend(seen.map(|(_, at)| at.duration_since(begun).as_secs_f64() * 1e3));
    }
    ensure!(took.len() == VALUES, "values are missing");
    Ok(took)
}

/// A mapper that uses MQTT at QoS 1.
struct Mapper {
    client: AsyncClient,
    heard: tokio::sync::mpsc::Receiver<Value>,
}

impl Mapper {
    /// Connects as soon as there is a broker.
    async fn at(address: SocketAddr, filter: &str) -> anyhow::Result<Self> {
        let connect = async || Self::connect(address, filter).await;
        Ok(eventually_within(LONG_TIMEOUT, "a broker for the mapper", connect).await)
    }

    /// Connects, and waits until the agent answers there and has the first device.
    async fn ready(address: SocketAddr) -> anyhow::Result<Self> {
        let mut mapper = Self::at(address, "$hw/events/device/+/+/twin/+/result").await?;
        let begun = Instant::now();
        loop {
            mapper
                .publish("$hw/events/device/default/d0/twin/get", "{}".to_owned())
                .await?;
            if let Ok(Some(answer)) = tokio::time::timeout(POLL_INTERVAL, mapper.heard.recv()).await
                && answer.get("code").is_none()
            {
                return Ok(mapper);
            }
            ensure!(
                begun.elapsed() < LONG_TIMEOUT,
                "the agent does not know its device"
            );
        }
    }

    /// Connects and subscribes.
    async fn connect(address: SocketAddr, filter: &str) -> anyhow::Result<Self> {
        let name = format!("bench-{}", filter.len());
        let mut options =
            MqttOptions::new(name, Broker::tcp(address.ip().to_string(), address.port()));
        options.set_max_packet_size(1 << 20, 1 << 20);
        let (client, mut events) = AsyncClient::builder(options).capacity(64).build();
        client.subscribe(filter, QoS::AtLeastOnce).await?;
        wait_subscribed(&mut events).await?;
        let (sender, heard) = tokio::sync::mpsc::channel(1024);
        tokio::spawn(async move {
            while let Ok(event) = events.poll().await {
                if let Event::Incoming(Incoming::Publish(message)) = event {
                    // A client that only publishes has no reader.
                    let _ = sender
                        .try_send(serde_json::from_slice(&message.payload).unwrap_or_default());
                }
            }
        });
        Ok(Self { client, heard })
    }

    async fn publish(&self, topic: &str, body: String) -> anyhow::Result<()> {
        Ok(self
            .client
            .publish(topic, body, PublishOptions::new(QoS::AtLeastOnce))
            .await?)
    }

    async fn next(&mut self) -> anyhow::Result<Value> {
        let next = tokio::time::timeout(LONG_TIMEOUT, self.heard.recv())
            .await
            .context("no answer")?;
        next.context("the broker is gone")
    }
}

async fn wait_subscribed(events: &mut EventLoop) -> anyhow::Result<()> {
    while !matches!(events.poll().await?, Event::Incoming(Incoming::SubAck(_))) {}
    Ok(())
}
