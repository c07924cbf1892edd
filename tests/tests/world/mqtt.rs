//! Devices from the cloud to a mapper and back, over MQTT with the broker in the agent: whole, with the link cut, with the agent
//! killed.

use cloudsim::Addresses;
use rumqttc::{AsyncClient, Broker, Event, EventLoop, Incoming, MqttOptions, PublishOptions, QoS};
use serde_json::{Value, json};
use tests::{
    Setup, TcpRelay, World,
    manifests::{device, device_model},
    within,
};

const BETA: &str = "devices.kubeedge.io/v1beta1";
const DEVICE: &str = "$hw/events/device/default/t1";

/// A node whose agent has a broker.
fn setup() -> Setup {
    let event_bus =
        json!({"enable": true, "mqttMode": 0, "mqttServerInternal": "tcp://127.0.0.1:0"});
    Setup {
        event_bus,
        ..Setup::default()
    }
}

/// A mapper that speaks MQTT.
struct Mapper {
    client: AsyncClient,
    events: EventLoop,
}

impl Mapper {
    async fn connect(world: &World) -> Self {
        let address = world.nodes[0]
            .broker()
            .await
            .expect("the agent has a broker");
        let options = MqttOptions::new(
            "mapper",
            Broker::tcp(address.ip().to_string(), address.port()),
        );
        let (client, events) = AsyncClient::builder(options).capacity(64).build();
        client
            .subscribe(format!("{DEVICE}/#"), QoS::AtLeastOnce)
            .await
            .unwrap();
        let mut mapper = Self { client, events };
        within("the subscription", async {
            while !matches!(
                mapper.events.poll().await.unwrap(),
                Event::Incoming(Incoming::SubAck(_))
            ) {}
        })
        .await;
        mapper
    }

    /// The next message on this topic that is as wanted.
    async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let topic = format!("{DEVICE}/{what}");
        within(what, async {
            loop {
                if let Event::Incoming(Incoming::Publish(message)) =
                    self.events.poll().await.unwrap()
                    && message.topic == topic
                    && let Ok(body) = serde_json::from_slice(&message.payload)
                    && wanted(&body)
                {
                    return body;
                }
            }
        })
        .await
    }

    /// Publishes, and waits for the answer.
    async fn ask(&mut self, what: &str, body: Value) -> Value {
        let publish = PublishOptions::new(QoS::AtLeastOnce);
        self.client
            .publish(format!("{DEVICE}/{what}"), body.to_string(), publish)
            .await
            .unwrap();
        self.until(&format!("{what}/result"), |answer| {
            answer["event_id"] == body["event_id"]
        })
        .await
    }

    async fn temperature(&mut self, value: &str) {
        let update = json!({"event_id": value, "timestamp": 0, "twin": {"temperature": {"actual": {"value": value}}}});
        let answer = self.ask("twin/update", update).await;
        assert_eq!(answer.get("code"), None, "{answer}");
    }
}

/// Waits until the cloud has the value.
async fn until_reported(world: &World, value: &str) -> Value {
    let reported = |status: &Value| {
        let twins = status["status"]["twins"].as_array();
        twins.is_some_and(|twins| twins.iter().any(|twin| twin["reported"]["value"] == value))
    };
    world
        .object(BETA, "DeviceStatus", "t1")
        .until(&format!("reported {value}"), reported)
        .await
}

async fn shall_be(world: &World, value: &str) {
    world.apply(&device("t1", "edge-1", Some(value))).await;
}

#[tokio::test]
async fn what_is_wanted_reaches_the_mapper_and_what_is_the_cloud() {
    let world = World::with(setup()).await;
    world.until_ready().await;
    let mut mapper = Mapper::connect(&world).await;
    world.apply(&device_model()).await;
    shall_be(&world, "21.5").await;
    let delta = mapper.until("twin/update/delta", |_| true).await;
    assert_eq!(delta["delta"], json!({"temperature": "21.5"}));
    // one report is enough for the cloud to know
    mapper.temperature("20").await;
    let status = until_reported(&world, "20").await;
    let stamp = status["status"]["twins"][0]["reported"]["metadata"]["timestamp"]
        .as_str()
        .unwrap();
    assert!(stamp.parse::<i64>().unwrap() > 1_700_000_000_000, "{stamp}");
    let state = mapper
        .ask("state/update", json!({"event_id": "s", "state": "online"}))
        .await;
    assert_eq!(state["device"]["state"], "online");
    world
        .object(BETA, "DeviceStatus", "t1")
        .until("online", |status| status["status"]["state"] == "online")
        .await;
    shall_be(&world, "25").await;
    mapper
        .until("twin/update/delta", |delta| {
            delta["delta"]["temperature"] == "25"
        })
        .await;
    mapper.temperature("25").await;
    let status = until_reported(&world, "25").await;
    assert_eq!(
        status["status"]["twins"][0]["observedDesired"]["value"], "25",
        "it was acted on"
    );
    // the model is held against what mappers say, too
    let hot = json!({"event_id": "hot", "twin": {"temperature": {"actual": {"value": "61"}}}});
    let refused = mapper.ask("twin/update", hot).await;
    assert_eq!(refused["code"], 400, "{refused}");
    world.object(BETA, "Device", "t1").delete(None).await;
    world.object(BETA, "DeviceStatus", "t1").until_gone().await;
    within("the device's end", async {
        while mapper.ask("twin/get", json!({"event_id": "g"})).await["code"] != 404 {}
    })
    .await;
}

#[tokio::test]
async fn nothing_is_lost_while_the_link_is_cut() {
    let mut world = World::with(Setup {
        nodes: 0,
        ..setup()
    })
    .await;
    let addresses = world.cloud().addresses();
    let relay = TcpRelay::to(addresses.websocket).await;
    let addresses = Addresses {
        websocket: relay.address(),
        ..addresses
    };
    let mut node = world.prepare_at(addresses, "edge-1", &setup()).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    let mut mapper = Mapper::connect(&world).await;
    world.apply(&device_model()).await;
    shall_be(&world, "1").await;
    mapper.until("twin/update/delta", |_| true).await;
    relay.cut_connections();
    world.until_connected(0, false).await;
    for value in ["2", "3", "4"] {
        mapper.temperature(value).await;
    }
    shall_be(&world, "5").await;
    shall_be(&world, "6").await;
    relay.through();
    until_reported(&world, "4").await;
    mapper
        .until("twin/update/delta", |delta| {
            delta["delta"]["temperature"] == "6"
        })
        .await;
}

#[tokio::test]
async fn an_agent_that_is_killed_tells_what_it_had_answered() {
    let mut world = World::with(setup()).await;
    world.until_ready().await;
    let mut mapper = Mapper::connect(&world).await;
    world.apply(&device_model()).await;
    shall_be(&world, "1").await;
    mapper.until("twin/update/delta", |_| true).await;
    for value in ["2", "3", "4", "5"] {
        mapper.temperature(value).await;
        world.nodes[0].kill().await;
        world.nodes[0].start().await.unwrap();
        until_reported(&world, value).await;
        mapper = Mapper::connect(&world).await;
        let twin = mapper.ask("twin/get", json!({"event_id": "g"})).await;
        let temperature = &twin["twin"]["temperature"];
        assert_eq!(
            (
                &temperature["actual"]["value"],
                &temperature["expected"]["value"]
            ),
            (&json!(value), &json!("1"))
        );
    }
}
