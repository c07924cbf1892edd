//! Measures twin updates from a mapper's socket through the broker and `DeviceTwin` to the disk, acknowledged and answered.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{
    config::{HostPort, Transport},
    devicetwin::{self, DeviceTwin, RequestOutcome},
    edgehub::{self, Proxy},
    eventbus::{self, External, Internal},
    metamanager,
};
use anyhow::{Context, ensure};
use objectstore::{Expect, Key, Resource, SqliteOptions, SqliteStore, Store, Write};
use rumqttc::{AsyncClient, Broker, MqttOptions, PublishOptions, QoS};
use serde_json::json;
use testkit::{LONG_TIMEOUT, eventually, eventually_within, until};
use tokio_util::sync::CancellationToken;

use crate::Figure;

/// The number of devices, each with one property.
const DEVICES: usize = 1000;
/// The number of measured updates.
const UPDATES: usize = 100_000;

/// Measures with the broker in the agent, and with a separate mosquitto if that is installed.
pub(crate) async fn updates() -> anyhow::Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let internal = Internal {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        tls: None,
        access: None,
        database: Some(directory.path().join("mqtt.db")),
        session_queue: 1000,
        qos: 0,
        retain: false,
    };
    let node = Node::start(&directory.path().join("inside.db"), Some(internal), None).await?;
    let address = node.bus.internal_address().await.context("no broker")?;
    let mut figures = vec![Figure {
        name: "twins.updates.internal".into(),
        value: node.measure(address).await?,
        unit: "updates/s",
    }];
    drop(node);
    if let Some((_mosquitto, address)) = mosquitto(directory.path()).await? {
        let external = External {
            server: HostPort {
                host: address.ip().to_string(),
                port: address.port(),
            },
            tls: None,
            client_id: "bench".into(),
            username: None,
            password: None,
            qos: 1,
        };
        let node = Node::start(&directory.path().join("beside.db"), None, Some(external)).await?;
        let value = node.measure(address).await?;
        figures.push(Figure {
            name: "twins.updates.mosquitto".into(),
            value,
            unit: "updates/s",
        });
    }
    Ok(figures)
}

/// The device modules of an agent that has no cloud.
struct Node {
    devices: DeviceTwin,
    bus: eventbus::Bus,
    shutdown: CancellationToken,
}

impl Node {
    async fn start(
        database: &Path,
        internal: Option<Internal>,
        external: Option<External>,
    ) -> anyhow::Result<Self> {
        let store: Arc<dyn Store> =
            SqliteStore::open_or_begin_anew(database, SqliteOptions::default())
                .await?
                .store;
        for devices in (0..DEVICES).collect::<Vec<_>>().chunks(100) {
            let write = |number: &usize| {
                let name = format!("d{number}");
                let object = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}});
                let key = Key::new(Resource::new("kubeedge.io", "device"), "default", name);
                Write {
                    key,
                    expect: Expect::Anything,
                    value: Some(object),
                }
            };
            store.commit(devices.iter().map(write).collect()).await?;
        }
        let (hub, inbound, _) = edgehub::new(disabled_config());
        let (meta, ends) = metamanager::new(metamanager::Config {
            node_name: "bench".into(),
            store: store.clone(),
            hub: hub.clone(),
            inbound,
            timing: metamanager::Timing::default(),
            server: None,
        });
        let (bus, requests, bus_task) = eventbus::new(eventbus::Config {
            internal,
            external,
            store: store.clone(),
            hub: hub.clone(),
            messages: ends.topic_messages,
        })?;
        let (devices, task) = devicetwin::new(devicetwin::Config {
            node_name: "bench".into(),
            store,
            objects: meta.devices(),
            messages: ends.device_messages,
            hub,
            bus: bus.clone(),
            requests,
        });
        let shutdown = CancellationToken::new();
        let (one, two) = (shutdown.clone(), shutdown.clone());
        tokio::spawn(async move { Box::pin(bus_task.run(one)).await });
        tokio::spawn(task.run(two));
        eventually_within(LONG_TIMEOUT, "the devices are known", async || {
            let known = devices.members().await.map_or(0, |members| members.len());
            if known < DEVICES { Err(known) } else { Ok(()) }
        })
        .await;
        Ok(Self {
            devices,
            bus,
            shutdown,
        })
    }

    /// Returns the updates a second, at QoS 1.
    async fn measure(&self, address: SocketAddr) -> anyhow::Result<f64> {
        until("the broker is up", || self.bus.is_up()).await;
        let mut options = MqttOptions::new(
            "mapper",
            Broker::tcp(address.ip().to_string(), address.port()),
        );
        options.set_inflight(256);
        let (client, mut events) = AsyncClient::builder(options).capacity(1000).build();
        let begun = Instant::now();
        let publishing = tokio::spawn(async move {
            for number in 0..UPDATES {
                let topic = format!(
                    "$hw/events/device/default/d{}/twin/update",
                    number % DEVICES
                );
                let body = format!(
                    "{{\"event_id\":\"{number}\",\"timestamp\":0,\"twin\":{{\"t\":{{\"actual\":{{\"value\":\"{number}\"}},\"metadata\":{{\"type\":\"int\"}}}}}}}}"
                );
                client
                    .publish(topic, body, PublishOptions::new(QoS::AtLeastOnce))
                    .await?;
            }
            anyhow::Ok(client)
        });
        let polling = tokio::spawn(async move { while events.poll().await.is_ok() {} });
        let counts = self.devices.counts();
        let all = async {
            while counts.get(RequestOutcome::Done) < UPDATES as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG_TIMEOUT, all)
            .await
            .with_context(|| {
                format!(
                    "{} of {UPDATES} updates were carried out",
                    counts.get(RequestOutcome::Done)
                )
            })?;
        let took = begun.elapsed();
        publishing.await??;
        polling.abort();
        ensure!(counts.get(RequestOutcome::Bad) == 0, "updates were refused");
        Ok(UPDATES as f64 / took.as_secs_f64())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Returns the configuration of a hub without a cloud.
fn disabled_config() -> edgehub::Config {
    edgehub::Config {
        node_name: "bench".into(),
        transport: Transport::WebSocket,
        servers: Vec::new(),
        http_servers: Vec::new(),
        proxy: Proxy::default(),
        token: None,
        project_id: String::new(),
        in_process: None,
        ca_file: Default::default(),
        cert_file: Default::default(),
        key_file: Default::default(),
        rotate_certificates: false,
        heartbeat: Duration::from_secs(15),
        handshake_timeout: Duration::from_secs(1),
        write_deadline: Duration::from_secs(1),
        qps: 0,
        burst: 0,
        max_message: 1 << 20,
        recorder: Default::default(),
    }
}

/// A process that is killed when this is dropped.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn mosquitto(directory: &Path) -> anyhow::Result<Option<(Beside, SocketAddr)>> {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, e2e::Ports::free()?.api).into();
    let config = directory.join("mosquitto.conf");
    // It allows as many messages in flight as the internal broker; messages that it cannot pass on yet are queued and not dropped.
    let text = format!(
        "listener {} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 128\nmax_queued_messages 0\n",
        address.port()
    );
    std::fs::write(&config, text)?;
    let child = Command::new("mosquitto")
        .arg("-c")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else { return Ok(None) };
    let child = Beside(child);
    eventually("mosquitto listens", async || {
        tokio::net::TcpStream::connect(address).await
    })
    .await;
    Ok(Some((child, address)))
}
