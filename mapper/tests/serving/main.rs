//! Tests mappers against a fake agent.

// a helper fails its test by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent;
#[path = "../../examples/modbus/modbus.rs"]
mod modbus;
#[path = "../../examples/modbus/protocol.rs"]
mod protocol;
#[path = "../../examples/modbus/slave.rs"]
mod slave;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use mapper::{Device, Link, Mapper, Property, Protocol, Result, RunError};
use serde_json::json;
use testkit::eventually;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::dmi::RegisterDeviceRequest;

use self::{
    agent::{FakeAgent, device, model},
    protocol::Modbus,
    slave::Slave,
};

/// A device that holds one number and can be made to fail.
#[derive(Clone, Default)]
struct Memory {
    broken: Arc<AtomicBool>,
    opened: Arc<AtomicU32>,
    value: Arc<AtomicU32>,
}

impl Protocol for Memory {
    type Link = Self;

    async fn open(&self, _: &Device) -> Result<Self> {
        if self.broken.load(Ordering::SeqCst) {
            return Err("it is broken".into());
        }
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(self.clone())
    }
}

impl Link for Memory {
    async fn read(&mut self, property: &Property) -> Result<String> {
        assert_ne!(property.name, "panic", "on purpose");
        if self.broken.load(Ordering::SeqCst) || property.name == "silent" {
            return Err("it is broken".into());
        }
        Ok(self.value.load(Ordering::SeqCst).to_string())
    }

    async fn write(&mut self, _: &Property, value: &str) -> Result<()> {
        self.value.store(value.parse()?, Ordering::SeqCst);
        Ok(())
    }
}

fn start<P: Protocol>(agent: &FakeAgent, protocol: P) -> DropGuard {
    let shutdown = CancellationToken::new();
    let mapper = Mapper::bind(agent.config(), protocol).unwrap();
    tokio::spawn(mapper.run(shutdown.clone()));
    shutdown.drop_guard()
}

#[tokio::test]
async fn what_is_wanted_is_written_and_what_is_read_reported() {
    let agent = FakeAgent::start().await;
    agent.devices([model("m")], [device("d", Some("7"), &json!({}))]);
    let _running = start(&agent, Memory::default());
    assert_eq!(agent.next().await, "registered test for virtual");
    assert_eq!(agent.next().await, "ns/d is online");
    assert_eq!(agent.next().await, "ns/d value=7 observed 7");
    // the desired value changes
    let mut mapper = agent.mapper();
    mapper
        .update_device(agent::update(device("d", Some("8"), &json!({}))))
        .await
        .unwrap();
    agent.until("ns/d value=8 observed 8").await;
    let known = mapper
        .get_device(agent::get("d"))
        .await
        .unwrap()
        .into_inner()
        .device
        .unwrap();
    assert_eq!(known, device("d", Some("8"), &json!({})));
    // a device that is added later, and removed
    let register = RegisterDeviceRequest {
        device: Some(device("e", None, &json!({}))),
    };
    mapper.register_device(register).await.unwrap();
    agent.until("ns/e is online").await;
    mapper.remove_device(agent::remove("e")).await.unwrap();
    assert!(mapper.get_device(agent::get("e")).await.is_err());
}

#[tokio::test]
async fn a_device_of_an_unknown_model_is_refused() {
    let agent = FakeAgent::start().await;
    let _running = start(&agent, Memory::default());
    assert_eq!(agent.next().await, "registered test for virtual");
    let refused = agent
        .mapper()
        .update_device(agent::update(device("d", None, &json!({}))))
        .await
        .unwrap_err();
    assert!(
        refused
            .message()
            .contains("model m of device d is not known"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_device_that_fails_is_offline_until_it_is_open_again() {
    let agent = FakeAgent::start().await;
    agent.devices([model("m")], [device("d", Some("7"), &json!({}))]);
    let memory = Memory::default();
    let _running = start(&agent, memory.clone());
    agent.until("ns/d value=7 observed 7").await;
    memory.broken.store(true, Ordering::SeqCst);
    agent.until("ns/d is offline").await;
    memory.value.store(0, Ordering::SeqCst);
    memory.broken.store(false, Ordering::SeqCst);
    agent.until("ns/d is online").await;
    // the device has lost its desired value
    agent.until("ns/d value=7 observed 7").await;
    assert_eq!(memory.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_value_that_is_refused_takes_no_other_with_it() {
    let agent = FakeAgent::start().await;
    let mut two = device("d", Some("7"), &json!({}));
    let refused = agent::property("refused", None, &json!({}));
    two.spec.as_mut().unwrap().properties.insert(0, refused);
    agent.devices([model("m")], [two]);
    let _running = start(&agent, Memory::default());
    agent.until("ns/d value=7 observed 7").await;
}

#[tokio::test]
async fn a_connection_alone_is_not_online_and_a_device_without_properties_is() {
    let agent = FakeAgent::start().await;
    let mut silent = device("silent", None, &json!({}));
    silent.spec.as_mut().unwrap().properties[0].name = "silent".into();
    let mut bare = device("bare", None, &json!({}));
    bare.spec.as_mut().unwrap().properties.clear();
    agent.devices([model("m")], [silent, bare]);
    let _running = start(&agent, Memory::default());
    let mut calls = Vec::new();
    while calls.len() < 3 {
        calls.push(agent.next().await);
    }
    calls.sort();
    assert_eq!(
        calls,
        [
            "ns/bare is online",
            "ns/silent is offline",
            "registered test for virtual"
        ]
    );
}

#[tokio::test]
async fn other_settings_are_another_connection_and_another_wish_is_not() {
    let agent = FakeAgent::start().await;
    agent.devices([model("m")], [device("d", Some("7"), &json!({"port": 1}))]);
    let memory = Memory::default();
    let _running = start(&agent, memory.clone());
    agent.until("ns/d value=7 observed 7").await;
    let mut mapper = agent.mapper();
    mapper
        .update_device(agent::update(device("d", Some("8"), &json!({"port": 1}))))
        .await
        .unwrap();
    agent.until("ns/d value=8 observed 8").await;
    assert_eq!(memory.opened.load(Ordering::SeqCst), 1);
    mapper
        .update_device(agent::update(device("d", Some("8"), &json!({"port": 2}))))
        .await
        .unwrap();
    eventually("the second start", async || {
        match memory.opened.load(Ordering::SeqCst) {
            2 => Ok(()),
            starts => Err(starts),
        }
    })
    .await;
}

#[tokio::test]
async fn reports_wait_for_an_agent_that_is_away() {
    let mut agent = FakeAgent::start().await;
    agent.devices([model("m")], [device("d", None, &json!({}))]);
    let memory = Memory::default();
    let _running = start(&agent, memory.clone());
    agent.until("ns/d value=0 observed ").await;
    agent.die();
    memory.value.store(5, Ordering::SeqCst);
    agent.live();
    agent.until("ns/d value=5 observed ").await;
}

#[tokio::test]
async fn a_mapper_may_come_before_its_agent() {
    let mut agent = FakeAgent::start().await;
    agent.die();
    agent.devices([model("m")], [device("d", Some("7"), &json!({}))]);
    let _running = start(&agent, Memory::default());
    agent.live();
    agent.until("ns/d value=7 observed 7").await;
}

#[tokio::test]
async fn code_that_panics_takes_no_other_device_with_it() {
    let agent = FakeAgent::start().await;
    let mut bad = device("bad", None, &json!({}));
    bad.spec.as_mut().unwrap().properties[0].name = "panic".into();
    agent.devices([model("m")], [bad, device("good", Some("7"), &json!({}))]);
    let _running = start(&agent, Memory::default());
    agent.until("ns/good value=7 observed 7").await;
}

#[tokio::test]
async fn a_mapper_that_the_agent_does_not_want_says_why() {
    let agent = FakeAgent::start().await;
    agent.refuse("there is no protocol virtual");
    let mapper = Mapper::bind(agent.config(), Memory::default()).unwrap();
    let ended = mapper.run(CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(&ended, RunError::Refused(why) if why == "there is no protocol virtual"),
        "{ended}"
    );
    let first = Mapper::bind(agent.config(), Memory::default()).unwrap();
    let second = Mapper::bind(agent.config(), Memory::default())
        .err()
        .unwrap()
        .to_string();
    assert!(second.contains("MAPPER_SOCKET"), "{second}");
    drop(first);
}

#[tokio::test]
async fn modbus_over_tcp() {
    let slave = Slave::bind("127.0.0.1:0").await.unwrap();
    let (address, registers) = (slave.address().unwrap(), slave.registers());
    tokio::spawn(slave.run());
    registers.set_word(3, 215);
    let agent = FakeAgent::start().await;
    let settings = json!({"ip": "127.0.0.1", "port": address.port().to_string(), "slaveID": 1});
    let place = |register: &str, offset: u16, scale: f64| json!({"register": register, "offset": offset, "scale": scale});
    let mut thermometer = device("d", None, &settings);
    thermometer.spec.as_mut().unwrap().properties = vec![
        agent::property("temperature", None, &place("HoldingRegister", 3, 0.1)),
        agent::property("target", Some("42"), &place("HoldingRegister", 4, 1.0)),
        agent::property("switch", Some("true"), &place("CoilRegister", 5, 1.0)),
        agent::property("input", None, &place("InputRegister", 4, 1.0)),
    ];
    agent.devices([model("m")], [thermometer.clone()]);
    let _running = start(&agent, Modbus);
    agent.until("ns/d temperature=21.5 observed , target=42 observed 42, switch=1 observed true, input=42 observed ").await;
    assert_eq!((registers.word(4), registers.bit(5)), (42, true));
    registers.set_word(3, 230);
    agent.until_starts("ns/d temperature=23 ").await;
    // a register that the slave does not have
    thermometer.spec.as_mut().unwrap().properties = vec![agent::property(
        "beyond",
        None,
        &place("HoldingRegister", 1000, 1.0),
    )];
    agent
        .mapper()
        .update_device(agent::update(thermometer))
        .await
        .unwrap();
    agent.until("ns/d is offline").await;
}
