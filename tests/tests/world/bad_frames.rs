//! Nodes that send nonsense: their session ends or goes on, that of others goes on in any case.

use cloudsim::hub::Limits;
use serde_json::{Value, json};
use tests::{Setup, World, manifests::pod};
use wire::{ResourceType, Upstream};

use crate::raw::Caller;

/// What the cloud says when it ends the session of a node that sent `text`; another node's pod runs before and after.
async fn ends_after(text: String) -> String {
    let limits = Limits {
        max_message: 256 * 1024,
        ..Limits::default()
    };
    let world = World::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    world.run(&pod("before", Some("edge-1"))).await;
    let ids = world.running(0);
    let mut session = Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
    session.say(text).await;
    let said = session.wait_ended().await;
    world.run(&pod("after", Some("edge-1"))).await;
    assert!(
        ids.iter()
            .all(|(place, id)| world.running(0).get(place) == Some(id))
    );
    // and the rogue may come back
    answers(
        &mut Caller::node(&world, "rogue")
            .await
            .session(&world, "rogue")
            .await,
    )
    .await;
    said
}

/// The session answers a request.
async fn answers(session: &mut crate::raw::Session) {
    let answer = session
        .ask(Upstream::query("", &ResourceType::Node, "rogue"))
        .await;
    assert!(
        answer.content.to_string().contains("not found"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn text_that_is_no_json_ends_the_session_with_a_reason() {
    let said = ends_after("this is not JSON".to_owned()).await;
    assert_eq!(
        said,
        "not a KubeEdge message (line 1, column 2); both ends must speak KubeEdge's JSON"
    );
}

#[tokio::test]
async fn json_that_is_no_object_ends_the_session_with_a_reason() {
    assert!(
        ends_after("[1, 2, 3]".to_owned())
            .await
            .starts_with("not a KubeEdge message")
    );
}

#[tokio::test]
async fn a_header_of_the_wrong_shape_ends_the_session_with_a_reason() {
    let text = json!({"header": {"msg_id": 7}, "route": {}, "content": ""}).to_string();
    assert!(ends_after(text).await.starts_with("not a KubeEdge message"));
}

#[tokio::test]
async fn deep_nesting_ends_the_session_with_a_reason() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = format!(r#"{{"header":{{}},"route":{{}},"content":{deep}}}"#);
    assert!(ends_after(text).await.starts_with("not a KubeEdge message"));
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_session() {
    ends_after("x".repeat(300 * 1024)).await;
}

#[tokio::test]
async fn unknown_messages_are_passed_over() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
    let route = |source: &str, group: &str, operation: &str, resource: &str| json!({"source": source, "group": group, "operation": operation, "resource": resource});
    let routes = [
        route("", "", "", ""),
        route("future", "future", "dance", "no/such/thing"),
        route("edged", "meta", "update", "default/pod"),
        route("edged", "meta", "update", "//////"),
        route("websocket", "resource", "keepalive", "node/../../etc"),
        route("edged", "meta", "response", "default/podstatus/x"),
        Value::Null,
    ];
    for (number, route) in routes.into_iter().enumerate() {
        for content in [
            json!(null),
            json!(""),
            json!(-1),
            json!([]),
            json!({"metadata": 1}),
            json!("{\"a\":"),
        ] {
            let header = json!({"msg_id": format!("m{number}"), "timestamp": 0});
            session
                .say(json!({"header": header, "route": route, "content": content}).to_string())
                .await;
        }
    }
    answers(&mut session).await;
}

#[tokio::test]
async fn acknowledgements_of_nothing_are_passed_over() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
    for parent in ["", "nothing", &"x".repeat(10_000)] {
        let message = json!({
            "header": {"msg_id": "m", "parent_msg_id": parent, "timestamp": 0},
            "route": {"source": "edgecontroller", "group": "resource", "operation": "response", "resource": "default/pod/p"},
            "content": "OK",
        });
        session.say(message.to_string()).await;
    }
    answers(&mut session).await;
}

#[tokio::test]
async fn patches_that_are_none_are_answered_with_an_error() {
    let world = World::new(1).await;
    world.run(&pod("web", Some("edge-1"))).await;
    let mut world = world;
    world.nodes[0].stop().await;
    let mut session = Caller::node(&world, "edge-1")
        .await
        .session(&world, "edge-1")
        .await;
    for patch in [
        "",
        "{",
        "[]",
        "7",
        "{\"status\": 7}",
        "{\"status\": {\"phase\": [1]}}",
    ] {
        let answer = session
            .ask(Upstream::pod_patch("default", "web", patch.to_owned()))
            .await;
        assert!(
            answer.content.to_string().to_lowercase().contains("err"),
            "{patch:?}: {answer:?}"
        );
    }
    assert!(
        tests::runs(&world.pod("web").get().await),
        "nothing was changed"
    );
}
