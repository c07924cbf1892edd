//! Messages of nodes to rules' targets.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use testkit::eventually;
use wire::{
    Downstream, Message, Upstream,
    bus::{LocalCall, ServiceResponse},
};

use super::world::{Node, Target, World};

#[tokio::test]
async fn a_message_of_mqtt_reaches_its_target_once_however_often_it_comes() {
    let world = World::new().await;
    let target = Target::new(StatusCode::OK, Vec::new()).await;
    world
        .rule(
            "up",
            ("mqtt", &[("topic", "up"), ("node_name", "own-1")]),
            ("rest", &[("resource", &target.url)]),
        )
        .await;
    let mut node = Node::connect(&world, "own-1");
    node.next().await;
    for _ in 0..3 {
        node.upload("default/up", "{\"a\":1}".into(), "m1");
        let answer = node.next().await;
        assert_eq!(answer.header.parent_msg_id, "m1");
        assert!(
            matches!(answer.body, Downstream::UploadAnswer { failed: false, .. }),
            "{:?}",
            answer.body
        );
    }
    node.upload("default/up", json!({"base64": "/wA="}), "m2");
    node.next().await;
    let heard = target.heard.lock().await;
    let told: Vec<_> = heard
        .iter()
        .map(|(method, headers, body)| {
            (
                method.as_str(),
                headers["content-type"].to_str().unwrap(),
                headers["x-request-id"].to_str().unwrap(),
                &**body,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("POST", "application/json", "m1", &b"{\"a\":1}"[..]),
            ("POST", "application/octet-stream", "m2", &b"\xff\x00"[..])
        ]
    );
    drop(heard);
    world.counts("up", 2, 0).await;
}

/// A node's message matches only the rules that name this node.
#[tokio::test]
async fn a_node_uses_no_rule_of_another_node() {
    let world = World::new().await;
    let target = Target::new(StatusCode::OK, b"fine".to_vec()).await;
    let to = ("rest", &[("resource", &*target.url)][..]);
    world
        .rule(
            "up",
            ("mqtt", &[("topic", "up"), ("node_name", "own-1")]),
            to,
        )
        .await;
    world
        .rule(
            "app",
            (
                "http",
                &[("target_url", "http://a/b"), ("node_name", "own-1")],
            ),
            to,
        )
        .await;
    let call = LocalCall {
        method: "PUT".into(),
        target_url: "http://a/b".into(),
        payload: json!({"x": 1}),
    };
    let app = |url: &str| Upstream::ServiceUpload {
        target: url.into(),
        content: call.content(),
    };
    let bus = |topic: &str| Upstream::BusUpload {
        topic: topic.into(),
        payload: "1".into(),
    };
    for (node, body, is_allowed) in [
        ("own-1", bus("default/up"), true),
        ("own-2", bus("default/up"), false),
        ("own-1", bus("other/up"), false),
        ("own-1", bus("default/up/a"), false),
        ("own-1", bus("up"), false),
        ("own-1", bus("$hw/events/device/a/twin/update"), false),
        ("own-1", app("http://a/b"), true),
        ("own-2", app("http://a/b"), false),
        ("own-1", app("http://a/b/c"), false),
        ("own-1", app(&target.url), false),
    ] {
        let before = target.bodies().await.len();
        let mut other = Node::connect(&world, node);
        let id = Message::new_id();
        assert!(other.say(body.clone(), &id, ""), "{body:?}");
        let answer = loop {
            let message = other.next().await;
            if message.header.parent_msg_id == id {
                break message.body;
            }
        };
        let Downstream::UploadAnswer {
            failed, content, ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!(
            (failed, target.bodies().await.len() - before),
            (!is_allowed, usize::from(is_allowed)),
            "{node} {body:?}: {content}"
        );
    }
    world.counts("up", 1, 0).await;
    world.counts("app", 1, 0).await;
    let heard = target.heard.lock().await;
    assert_eq!(
        (&heard[1].0, &*heard[1].2),
        (&Method::PUT, &b"{\"x\":1}"[..])
    );
}

/// CVE-2022-31073 and 31078 have unbounded bodies; redirects would lead a call anywhere.
#[tokio::test]
async fn a_target_that_does_not_behave_has_failed() {
    let world = World::new().await;
    let vast = Target::new(StatusCode::OK, vec![b'x'; wire::bus::MAX_BODY + 1]).await;
    let elsewhere = Target::new(StatusCode::FOUND, Vec::new()).await;
    let broken = Target::new(StatusCode::INTERNAL_SERVER_ERROR, Vec::new()).await;
    let mut node = Node::connect(&world, "own-1");
    for (name, url, why) in [
        ("vast", &*vast.url, "larger than 5000000 bytes"),
        ("elsewhere", &*elsewhere.url, "redirects are not followed"),
        ("broken", &*broken.url, "500"),
        ("absent", "http://127.0.0.1:1/", "cannot be called"),
    ] {
        world
            .rule(
                name,
                ("mqtt", &[("topic", name), ("node_name", "own-1")]),
                ("rest", &[("resource", url)]),
            )
            .await;
        node.next().await;
        node.upload(&format!("default/{name}"), "1".into(), name);
        let answer = node.next().await;
        let Downstream::UploadAnswer {
            failed: true,
            content,
            ..
        } = answer.body
        else {
            panic!("{:?}", answer.body)
        };
        assert!(content.as_str().unwrap().contains(why), "{content}");
        world.counts(name, 0, 1).await;
        assert!(world.status(name).await.errors[0].contains(why));
    }
    assert_eq!(elsewhere.bodies().await.len(), 1);
}

/// A slow target does not delay messages to another one, and each topic keeps its order.
#[tokio::test]
async fn a_slow_target_holds_up_its_own_messages_alone() {
    let world = World::new().await;
    let (slow, opened) = Target::closed(StatusCode::OK).await;
    let quick = Target::new(StatusCode::OK, Vec::new()).await;
    for (name, topic, url) in [
        ("slow", "slow/#", &slow.url),
        ("quick", "quick", &quick.url),
    ] {
        world
            .rule(
                name,
                ("mqtt", &[("topic", topic), ("node_name", "edge-1")]),
                ("rest", &[("resource", url)]),
            )
            .await;
    }
    let node = Node::connect(&world, "edge-1");
    for number in 0..100 {
        node.upload(
            &format!("default/slow/{}", number % 20),
            number.to_string().into(),
            &format!("s{number}"),
        );
    }
    for number in 0..100 {
        node.upload(
            "default/quick",
            number.to_string().into(),
            &format!("q{number}"),
        );
    }
    world.counts("quick", 100, 0).await;
    let in_order: Vec<_> = (0..100)
        .map(|number: usize| number.to_string().into_bytes())
        .collect();
    assert_eq!(quick.bodies().await, in_order);
    assert_eq!(world.status("slow").await.success_messages, Some(0));
    opened.send_replace(true);
    world.counts("slow", 100, 0).await;
    let told: Vec<usize> = slow
        .bodies()
        .await
        .iter()
        .map(|body| std::str::from_utf8(body).unwrap().parse().unwrap())
        .collect();
    for topic in 0..20 {
        let of_it: Vec<_> = told
            .iter()
            .filter(|number| *number % 20 == topic)
            .copied()
            .collect();
        assert_eq!(
            of_it,
            [topic, topic + 20, topic + 40, topic + 60, topic + 80],
            "{told:?}"
        );
    }
}

/// The hop-by-hop headers of the target's answer are not passed on.
#[tokio::test]
async fn headers_of_the_targets_connection_are_not_handed_to_programs() {
    let world = World::new().await;
    let target = Target::new(StatusCode::OK, b"fine".to_vec()).await;
    let to = ("rest", &[("resource", &*target.url)][..]);
    world
        .rule(
            "app",
            (
                "http",
                &[("target_url", "http://a/b"), ("node_name", "own-1")],
            ),
            to,
        )
        .await;
    let mut node = Node::connect(&world, "own-1");
    node.next().await;
    let call = LocalCall {
        method: "GET".into(),
        target_url: "http://a/b".into(),
        payload: Value::Null,
    };
    node.say(
        Upstream::ServiceUpload {
            target: "http://a/b".into(),
            content: call.content(),
        },
        "1",
        "",
    );
    let Downstream::UploadAnswer {
        failed: false,
        content,
        ..
    } = node.next().await.body
    else {
        panic!()
    };
    let answer: ServiceResponse = serde_json::from_value(content).unwrap();
    assert_eq!((answer.status_code, &*answer.body), (200, &b"fine"[..]));
    for name in ["Content-Length", "Connection", "X-Hop"] {
        assert!(!answer.header.contains_key(name), "{:?}", answer.header);
    }
    assert_eq!(answer.header["Location"], ["http://127.0.0.1:1/"]);
}

/// A flooding node is limited, and nothing of it is lost without being counted.
#[tokio::test]
async fn a_flood_of_a_node_is_counted() {
    let world = World::new().await;
    let target = Target::new(StatusCode::OK, Vec::new()).await;
    world
        .rule(
            "up",
            ("mqtt", &[("topic", "up"), ("node_name", "edge-1")]),
            ("rest", &[("resource", &target.url)]),
        )
        .await;
    let node = Node::connect(&world, "edge-1");
    let half = "x".repeat(12 * 1024 * 1024);
    for number in 0..4 {
        node.upload("default/up", half.clone().into(), &number.to_string());
    }
    eventually("all are counted", async || {
        let status = world.status("up").await;
        let counts = (
            status.success_messages.unwrap_or_default(),
            status.fail_messages.unwrap_or_default(),
        );
        if counts.0 + counts.1 == 4 {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
    let status = world.status("up").await;
    assert!(
        status
            .errors
            .iter()
            .any(|error| error.contains("too many messages of this node")),
        "{status:?}"
    );
}
