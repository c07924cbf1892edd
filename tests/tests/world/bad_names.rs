//! A node whose messages have names that would be other URLs of the API, or objects that are not what their path names.

use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests::World;
use wire::{Change, ResourcePath, ResourceType, Upstream};

use crate::raw::{Caller, Session};

async fn rogue(world: &World) -> Session {
    Caller::node(world, "rogue")
        .await
        .session(world, "rogue")
        .await
}

/// The code with which a request is refused.
fn code(answer: &wire::Message) -> u64 {
    let content = &answer.content;
    let status = [
        content.pointer("/ErrStatus"),
        content.pointer("/Err/ErrStatus"),
        content.get("Err"),
        Some(content),
    ];
    let code = status
        .into_iter()
        .flatten()
        .find_map(|status| status["code"].as_u64());
    code.unwrap_or_else(|| panic!("no status: {answer:?}"))
}

#[tokio::test]
async fn a_node_makes_no_namespace_with_an_event() {
    let world = World::new(0).await;
    let mut session = rogue(&world).await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "pwn", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}, "finalizers": ["evil/x"]},
        "involvedObject": {"kind": "Node", "name": "rogue"}, "spec": {"finalizers": ["kubernetes"]},
    });
    for place in [
        "?x=/event/pwn",
        "default%2Fpods?x=/event/pwn",
        "default/event/pwn",
        "../event/pwn",
        "null/event/pwn",
    ] {
        let path = ResourcePath::from(place);
        let insert = Upstream::Object {
            change: Change::Insert,
            path,
            object: namespace.clone(),
        };
        session
            .say(wire::json::encode(&insert.into_message(0)))
            .await;
    }
    // an event in another namespace than that of its path, and an honest one
    for (place, said) in [("kube-system", "default"), ("default", "default")] {
        let name = format!("rogue.{place}");
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": said}, "reason": "Rebooted",
            "involvedObject": {"kind": "Node", "name": "rogue"}, "source": {"host": "rogue"},
        });
        let insert = Upstream::put(Change::Insert, place, &ResourceType::Event, &name, event);
        session
            .say(wire::json::encode(&insert.into_message(0)))
            .await;
    }
    // requests are handled in order: when this is answered, the events are
    session
        .ask(Upstream::query("", &ResourceType::Node, "rogue"))
        .await;
    let namespaces = Api::<Namespace>::all(world.client())
        .list(&Default::default())
        .await
        .unwrap();
    let namespaces: Vec<String> = namespaces.iter().map(ResourceExt::name_any).collect();
    assert!(
        !namespaces.iter().any(|name| name == "pwn"),
        "{namespaces:?}"
    );
    let events = Api::<Event>::all(world.client())
        .list(&Default::default())
        .await
        .unwrap();
    let events: Vec<String> = events
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name == "pwn" || name.starts_with("rogue."))
        .collect();
    assert_eq!(events, ["rogue.default"]);
}

#[tokio::test]
async fn a_query_that_would_be_a_watch_is_refused_and_the_session_ends_as_others() {
    let world = World::new(0).await;
    for path in [
        "null/persistentvolume/?watch=true",
        "default/volumeattachment/?watch=true",
        "default/certificatesigningrequest/?watch=true",
        "default/pod/?watch=true",
        "default/secret/?watch=true",
        "?watch=true/persistentvolumeclaim/x",
    ] {
        let mut session = rogue(&world).await;
        let query = Upstream::Query {
            path: path.into(),
            content: Value::Null,
        };
        assert_eq!(code(&session.ask(query).await), 405, "{path}");
    }
    // for an object that is there or not there nothing has changed
    let mut session = rogue(&world).await;
    let answer = session
        .ask(Upstream::query("", &ResourceType::PersistentVolume, "none"))
        .await;
    assert_eq!(code(&answer), 404, "{answer:?}");
}
