//! Devices from the cloud to a mapper and back, over DMI: whole, with the link cut, with the agent killed, with the cloud away.

use std::sync::Arc;

use cloudsim::Addresses;
use mapper::{Config, Device, Link, Mapper, Property, Protocol, Result};
use serde_json::{Value, json};
use tests::{
    Object, Setup, TcpRelay, World,
    manifests::{device, device_model},
    within,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

const BETA: &str = "devices.kubeedge.io/v1beta1";

/// A device that holds one number.
#[derive(Clone)]
struct Memory(Arc<watch::Sender<String>>);

impl Memory {
    fn new(value: &str) -> Self {
        Self(Arc::new(watch::Sender::new(value.to_owned())))
    }

    /// It becomes this by itself.
    fn becomes(&self, value: &str) {
        self.0.send_replace(value.to_owned());
    }

    /// Waits until it holds this.
    async fn until(&self, value: &str) {
        let mut held = self.0.subscribe();
        within(
            &format!("the device holds {value}"),
            held.wait_for(|held| held == value),
        )
        .await
        .unwrap();
    }
}

impl Protocol for Memory {
    type Link = Self;

    async fn open(&self, _: &Device) -> Result<Self> {
        Ok(self.clone())
    }
}

impl Link for Memory {
    async fn read(&mut self, _: &Property) -> Result<String> {
        Ok(self.0.borrow().clone())
    }

    async fn write(&mut self, _: &Property, value: &str) -> Result<()> {
        self.0.send_replace(value.to_owned());
        Ok(())
    }
}

/// A mapper on a node, until it is dropped.
fn mapper(world: &World, node: usize, memory: &Memory) -> DropGuard {
    let directory = world.nodes[node].directory();
    let config = Config {
        socket: directory.join("mapper.sock"),
        agent: directory.join("dmi.sock"),
        ..Config::new("memory", "virtual")
    };
    let shutdown = CancellationToken::new();
    tokio::spawn(
        Mapper::bind(config, memory.clone())
            .unwrap()
            .run(shutdown.clone()),
    );
    shutdown.drop_guard()
}

async fn shall_be(world: &World, value: &str) {
    world.apply(&device("t1", "edge-1", Some(value))).await;
}

fn status(world: &World) -> Object {
    world.object(BETA, "DeviceStatus", "t1")
}

/// Waits until the cloud has the value.
async fn until_reported(world: &World, value: &str) -> Value {
    let reported = |status: &Value| {
        status["status"]["twins"].as_array().is_some_and(|twins| {
            twins.iter().any(|twin| {
                twin["propertyName"] == "temperature" && twin["reported"]["value"] == value
            })
        })
    };
    status(world)
        .until(&format!("reported {value}"), reported)
        .await
}

#[tokio::test]
async fn what_is_wanted_reaches_the_device_and_what_is_the_cloud() {
    let world = World::new(1).await;
    world.until_ready().await;
    let memory = Memory::new("0");
    let _mapper = mapper(&world, 0, &memory);
    world.apply(&device_model()).await;
    shall_be(&world, "21.5").await;
    memory.until("21.5").await;
    until_reported(&world, "21.5").await;
    let online = status(&world)
        .until("online", |status| status["status"]["state"] == "online")
        .await;
    assert_eq!(online["metadata"]["ownerReferences"][0]["kind"], "Device");
    memory.becomes("30");
    let reported = until_reported(&world, "30").await;
    let twin = &reported["status"]["twins"][0];
    assert_eq!(twin["observedDesired"]["value"], "21.5", "{twin}");
    let stamp: i64 = twin["reported"]["metadata"]["timestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        stamp > 1_700_000_000_000,
        "milliseconds since 1970: {stamp}"
    );
    shall_be(&world, "25").await;
    memory.until("25").await;
    until_reported(&world, "25").await;
    world.object(BETA, "Device", "t1").delete(None).await;
    status(&world).until_gone().await;
}

#[tokio::test]
async fn nothing_is_lost_while_the_link_is_cut() {
    let setup = Setup::default();
    let mut world = World::with(Setup {
        nodes: 0,
        ..setup.clone()
    })
    .await;
    let addresses = world.cloud().addresses();
    let relay = TcpRelay::to(addresses.websocket).await;
    let addresses = Addresses {
        websocket: relay.address(),
        ..addresses
    };
    let mut node = world.prepare_at(addresses, "edge-1", &setup).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    let memory = Memory::new("0");
    let _mapper = mapper(&world, 0, &memory);
    world.apply(&device_model()).await;
    shall_be(&world, "1").await;
    until_reported(&world, "1").await;
    relay.cut_connections();
    world.until_connected(0, false).await;
    // the device changes without the cloud; the last of its values counts
    for value in ["2", "3", "4"] {
        memory.becomes(value);
    }
    relay.through();
    until_reported(&world, "4").await;
    relay.cut_connections();
    world.until_connected(0, false).await;
    shall_be(&world, "5").await;
    shall_be(&world, "6").await;
    relay.through();
    memory.until("6").await;
    until_reported(&world, "6").await;
}

#[tokio::test]
async fn an_agent_that_is_killed_takes_devices_and_mappers_up_again() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let memory = Memory::new("0");
    let _mapper = mapper(&world, 0, &memory);
    world.apply(&device_model()).await;
    shall_be(&world, "1").await;
    until_reported(&world, "1").await;
    world.nodes[0].kill().await;
    memory.becomes("2");
    shall_be(&world, "3").await;
    world.nodes[0].start().await.unwrap();
    // the mapper has not registered again: the agent knows it
    memory.until("3").await;
    until_reported(&world, "3").await;
    memory.becomes("4");
    until_reported(&world, "4").await;
}

#[tokio::test]
async fn a_cloud_that_starts_anew_gets_what_it_has_missed() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    let memory = Memory::new("0");
    let _mapper = mapper(&world, 0, &memory);
    world.apply(&device_model()).await;
    shall_be(&world, "1").await;
    until_reported(&world, "1").await;
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    memory.becomes("2");
    world.start_cloud().await;
    until_reported(&world, "2").await;
}

#[tokio::test]
async fn a_device_that_moves_is_told_by_its_new_node() {
    let world = World::new(2).await;
    world.until_ready().await;
    let (one, other) = (Memory::new("1"), Memory::new("2"));
    let _mappers = (mapper(&world, 0, &one), mapper(&world, 1, &other));
    world.apply(&device_model()).await;
    world.apply(&device("t1", "edge-1", None)).await;
    until_reported(&world, "1").await;
    world.apply(&device("t1", "edge-2", None)).await;
    until_reported(&world, "2").await;
    one.becomes("11");
    other.becomes("22");
    let reported = until_reported(&world, "22").await;
    assert_eq!(
        json!(reported["status"]["twins"].as_array().map(Vec::len)),
        1
    );
}
