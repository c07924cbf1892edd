//! The cloud's half of devices, against a node that is only a session.

use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{device, device_model},
    uid,
};
use wire::{Down, Downstream, Message, Upstream};

use crate::raw::{Caller, Session};

const BETA: &str = "devices.kubeedge.io/v1beta1";

async fn node(world: &World, name: &str) -> (Caller, Session) {
    let caller = Caller::node(world, name).await;
    let session = caller.session(world, name).await;
    (caller, session)
}

/// The next message about devices, acknowledged where the cloud waits for that; what it says in a line.
async fn next_device_line(session: &mut Session) -> String {
    let message = session.next().await;
    if wire::lane::needs_ack(&message) {
        session
            .say(wire::json::encode(&message.acknowledgement(0)))
            .await;
    }
    let revision = message.header.resource_version.clone();
    match Down::from(message).body {
        Downstream::Object {
            change,
            path,
            object,
            origin,
        } => {
            let desired = &object["spec"]["properties"][0]["desired"]["value"];
            let has_revision = if revision.is_empty() {
                ""
            } else {
                " at a revision"
            };
            let desired = desired
                .as_str()
                .map(|value| format!(" {value}"))
                .unwrap_or_default();
            format!("{origin} {change:?} {path}{desired}{has_revision}")
        }
        Downstream::Membership(content) => {
            let list = |what: &str| content[what].to_string();
            format!(
                "added {} removed {}",
                list("added_devices"),
                list("removed_devices")
            )
        }
        other => format!("{other:?}"),
    }
}

fn edge_updated(device: &str, value: &str) -> Upstream {
    let update = json!({"event_id": "e", "timestamp": 5, "twin": {"temperature": {
        "actual": {"value": value, "metadata": {"timestamp": 4}}, "metadata": {"type": "float"}}}});
    Upstream::Device {
        path: format!("device/default/{device}/twin/edge_updated").into(),
        update,
    }
}

fn member(name: &str) -> String {
    json!([{"id": format!("default/{name}"), "name": name}]).to_string()
}

fn confirmation(answer: Message) -> Value {
    assert_eq!(
        (answer.route.source.as_str(), answer.route.group.as_str()),
        ("devicecontroller", "twin")
    );
    assert_eq!(
        (
            answer.route.operation.as_str(),
            answer.route.resource.as_str()
        ),
        ("response", "twin")
    );
    answer.content
}

#[tokio::test]
async fn a_device_comes_changes_and_goes_in_cloudcores_order() {
    let world = World::new(0).await;
    let (caller, mut session) = node(&world, "edge-1").await;
    // before its model: it waits for that
    world.apply(&device("t1", "edge-1", Some("21.5"))).await;
    world.apply(&device_model()).await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added {} removed null", member("t1"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Insert default/devicemodel/thermometer at a revision"
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Insert default/device/t1 21.5 at a revision"
    );
    world.apply(&device("t1", "edge-1", Some("25"))).await;
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Update default/device/t1 25 at a revision"
    );
    // the second one of a model comes without it
    world.apply(&device("t2", "edge-1", None)).await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added {} removed null", member("t2"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Insert default/device/t2 at a revision"
    );
    world.object(BETA, "Device", "t1").delete(None).await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added null removed {}", member("t1"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Delete default/device/t1"
    );
    // what happens while the node is away
    let t2 = world.object(BETA, "Device", "t2").get().await;
    until_synced(&world, "edge-1", &[uid(&t2)]).await;
    drop(session);
    world.object(BETA, "Device", "t2").delete(None).await;
    world.apply(&device("t3", "edge-1", Some("5"))).await;
    let mut session = caller.session(&world, "edge-1").await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added null removed {}", member("t2"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Delete default/device/t2"
    );
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added {} removed null", member("t3"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Insert default/device/t3 5 at a revision"
    );
    world.object(BETA, "Device", "t3").delete(None).await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added null removed {}", member("t3"))
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Delete default/device/t3"
    );
    assert_eq!(
        next_device_line(&mut session).await,
        "devicecontroller Delete default/devicemodel/thermometer"
    );
}

/// Waits until the bookkeeping has these objects, beside models.
async fn until_synced(world: &World, node: &str, uids: &[&str]) {
    eventually("the acknowledgements are written down", async || {
        let known = world.object_syncs(node).await;
        let missing: Vec<_> = uids
            .iter()
            .filter(|uid| !known.contains(&format!("{node}.{uid}")))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("{missing:?} in {known:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_device_that_moves_leaves_the_one_node_and_comes_to_the_other() {
    let world = World::new(0).await;
    let ((_, mut one), (_, mut other)) =
        (node(&world, "edge-1").await, node(&world, "edge-2").await);
    world.apply(&device_model()).await;
    world.apply(&device("t1", "edge-1", None)).await;
    for _ in 0..3 {
        next_device_line(&mut one).await;
    }
    world.apply(&device("t1", "edge-2", None)).await;
    assert_eq!(
        next_device_line(&mut one).await,
        format!("added null removed {}", member("t1"))
    );
    assert_eq!(
        next_device_line(&mut one).await,
        "devicecontroller Delete default/device/t1"
    );
    assert_eq!(
        next_device_line(&mut one).await,
        "devicecontroller Delete default/devicemodel/thermometer"
    );
    assert_eq!(
        next_device_line(&mut other).await,
        format!("added {} removed null", member("t1"))
    );
    assert_eq!(
        next_device_line(&mut other).await,
        "devicecontroller Insert default/devicemodel/thermometer at a revision"
    );
    assert_eq!(
        next_device_line(&mut other).await,
        "devicecontroller Insert default/device/t1 at a revision"
    );
    // reports count from where it is now
    let refused = confirmation(one.ask(edge_updated("t1", "1")).await);
    assert_eq!(refused["ErrStatus"]["code"], 404, "{refused}");
    assert_eq!(confirmation(other.ask(edge_updated("t1", "2")).await), "OK");
    let status = world.object(BETA, "DeviceStatus", "t1").get().await;
    assert_eq!(status["status"]["twins"][0]["reported"]["value"], "2");
}

/// KubeEdge looks for some words anywhere in the path of a message, and neither side waits for those that have one.
#[tokio::test]
async fn a_device_whose_name_has_a_word_of_the_protocol_holds_up_no_other() {
    let world = World::new(0).await;
    let (caller, mut session) = node(&world, "edge-1").await;
    world.apply(&device_model()).await;
    world.apply(&device("membership-1", "edge-1", None)).await;
    world.apply(&device("t1", "edge-1", None)).await;
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(next_device_line(&mut session).await);
    }
    let insert =
        |name: &str| format!("devicecontroller Insert default/device/{name} at a revision");
    assert!(
        lines.contains(&insert("membership-1")) && lines.contains(&insert("t1")),
        "{lines:?}"
    );
    let t1 = world.object(BETA, "Device", "t1").get().await;
    let model = world.object(BETA, "DeviceModel", "thermometer").get().await;
    until_synced(&world, "edge-1", &[uid(&t1), uid(&model)]).await;
    drop(session);
    // it is not known to have arrived, and so it is told again
    let mut session = caller.session(&world, "edge-1").await;
    assert_eq!(
        next_device_line(&mut session).await,
        format!("added {} removed null", member("membership-1"))
    );
    assert_eq!(next_device_line(&mut session).await, insert("membership-1"));
}

#[tokio::test]
async fn reports_become_the_device_status_which_goes_with_its_device() {
    let world = World::new(0).await;
    let (_, mut session) = node(&world, "edge-1").await;
    world.apply(&device_model()).await;
    let made = world.apply(&device("t1", "edge-1", None)).await.get().await;
    world
        .object(BETA, "DeviceStatus", "t1")
        .until("made with its device", |_| true)
        .await;
    assert_eq!(
        confirmation(session.ask(edge_updated("t1", "22.0")).await),
        "OK"
    );
    let state = json!({"event_id": "e", "timestamp": 5,
        "device": {"name": "t1", "state": "online", "lastOnlineTime": "2026-11-21T03:10:35Z"}});
    let state = Upstream::Device {
        path: "device/default/t1/state/update".into(),
        update: state.to_string().into(),
    };
    assert_eq!(confirmation(session.ask(state).await), "OK");
    let status = world.object(BETA, "DeviceStatus", "t1").get().await;
    let expected = json!({"state": "online", "lastOnlineTime": "2026-11-21T03:10:35Z", "twins": [{
        "propertyName": "temperature",
        "reported": {"value": "22.0", "metadata": {"timestamp": "4", "type": "float"}}}]});
    assert_eq!(status["status"], expected);
    assert_eq!(
        status["metadata"]["ownerReferences"][0]["uid"],
        made["metadata"]["uid"]
    );
    // what is no report, or of nobody's device
    for (request, code) in [
        (edge_updated("nobody", "1"), 404),
        (
            Upstream::Device {
                path: "device/x".into(),
                update: json!({}),
            },
            400,
        ),
        (
            Upstream::Device {
                path: "device/default/t1/twin/edge_updated".into(),
                update: json!("{"),
            },
            400,
        ),
    ] {
        let refused = confirmation(session.ask(request).await);
        assert_eq!(refused["ErrStatus"]["code"], code, "{refused}");
    }
    let detail = Upstream::MembershipDetail("{}".into());
    assert_eq!(confirmation(session.ask(detail).await), "OK");
    let all = loop {
        if let Downstream::MembershipDetail(all) = Down::from(session.next().await).body {
            break all;
        }
    };
    assert_eq!(all["devices"].to_string(), member("t1"));
    world.object(BETA, "Device", "t1").delete(None).await;
    world.object(BETA, "DeviceStatus", "t1").until_gone().await;
}

#[tokio::test]
async fn a_device_is_held_against_its_model() {
    let world = World::with(Setup {
        nodes: 0,
        ..Setup::default()
    })
    .await;
    world.apply(&device_model()).await;
    let resource = kube::api::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "devices.kubeedge.io",
        "v1beta1",
        "Device",
    ));
    let api =
        Api::<kube::api::DynamicObject>::namespaced_with(world.client(), "default", &resource);
    let apply = async |manifest: Value| {
        let parameters = PatchParams::apply("test").force();
        let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
        match api
            .patch(&name, &parameters, &Patch::Apply(&manifest))
            .await
        {
            Ok(_) => String::new(),
            Err(kube::Error::Api(status)) => status.message,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(apply(device("t1", "edge-1", Some("21.5"))).await, "");
    let mut other = device("t1", "edge-1", None);
    other["spec"]["properties"][0]["name"] = "pressure".into();
    let expected = "Device.devices.kubeedge.io \"t1\" is invalid: spec.properties[0].name: Invalid value: \"pressure\": the \
                    model has no such property; it has temperature, switch";
    assert_eq!(apply(other).await, expected);
    for (value, why) in [
        ("warm", "requires a number"),
        ("99", "greater than the maximum, 60 celsius"),
    ] {
        let refused = apply(device("t1", "edge-1", Some(value))).await;
        assert!(
            refused.contains("spec.properties[0].desired.value") && refused.contains(why),
            "{refused}"
        );
    }
    let stands = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    assert_eq!(
        stands.data["spec"]["properties"][0]["desired"]["value"],
        "21.5"
    );
}
