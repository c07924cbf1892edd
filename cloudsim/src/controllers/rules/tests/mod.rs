//! Rules over an API in memory: nodes are queues that the tests read, targets are servers on this machine.

mod loops;
mod node_namespaces;
mod uploads;
pub(super) mod world;

use std::{collections::BTreeMap, time::Duration};

use crds::rules::{RuleEndpoint, RuleEndpointSpec, RuleEndpointType, RuleStatus};
use http::StatusCode;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use testkit::{eventually, until};
use wire::{
    Downstream, Message, Up, Upstream,
    bus::{Payload, ServiceRequest, ServiceResponse, Terms},
};

use self::world::{Node, World};
use super::Rules;

#[tokio::test]
async fn a_request_reaches_a_local_service_and_its_answer_comes_back() {
    let world = World::new().await;
    world
        .rule(
            "call",
            ("rest", &[("path", "/hello/")]),
            ("http", &[("path", "/api")]),
        )
        .await;
    let mut node = Node::connect(&world, "edge-1");
    let calling = world.call("edge-1", "hello/a:b/c", b"body");
    let asked = node.next().await;
    let Downstream::ServiceCall {
        method,
        target,
        request,
    } = asked.body
    else {
        panic!("{:?}", asked.body)
    };
    assert_eq!((&*method, &*target), ("POST", "6666:/api/a:b/c"));
    let request: ServiceRequest = serde_json::from_value(request).unwrap();
    assert_eq!(
        (&*request.body, &request.header["Accept"][..]),
        (&b"body"[..], &["*/*".to_owned()][..])
    );
    // an answer of another node is ignored
    let other = Node::connect(&world, "edge-2");
    let answer = |status_code, body: &[u8]| Upstream::ServiceUpload {
        target: "".into(),
        content: json!(ServiceResponse {
            status_code,
            body: body.to_vec(),
            header: [("X-A".to_owned(), vec!["1".to_owned()])].into()
        }),
    };
    other.say(answer(500, b"forged"), "f", &asked.header.msg_id);
    assert!(node.say(answer(418, b"tea"), "r", &asked.header.msg_id));
    let (status, headers, body) = calling.await.unwrap().unwrap();
    assert_eq!(
        (status.as_u16(), &headers["x-a"], &*body),
        (418, &"1".parse::<http::HeaderValue>().unwrap(), &b"tea"[..])
    );
    world.counts("call", 1, 0).await;
}

/// If the agent answers instead of the service, the call has failed, though the caller gets its message. EdgeCore's ServiceBus sends its
/// failures without an operation; a service beside it may send anything.
#[tokio::test]
async fn an_answer_of_the_agent_itself_is_a_failure() {
    let world = World::new().await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    let of_edgecore = |header: Value, operation: &str| {
        let text = json!({
            "header": {"msg_id": "m", "timestamp": 1},
            "route": {"source": "servicebus", "group": "user", "operation": operation, "resource": ""},
            "content": {"header": header, "status_code": 404, "body": "bm8="},
        });
        Up::from(serde_json::from_value::<Message>(text).unwrap()).body
    };
    let server = |name: &str| json!({"Server": [name]});
    let failure = ServiceResponse::failure(404, "no");
    let of_ours = Upstream::ServiceUpload {
        target: "".into(),
        content: json!(failure),
    };
    let absent = ServiceResponse {
        status_code: 404,
        body: b"no".to_vec(),
        ..ServiceResponse::default()
    };
    let of_service = Upstream::ServiceUpload {
        target: "".into(),
        content: json!(absent),
    };
    let (mut arrived, mut failed) = (0, 0);
    for (name, answer, has_failed) in [
        ("own-1", of_ours.clone(), true),
        ("own-1", of_service, false),
        ("edge-1", of_edgecore(server("kubeedge-edgecore"), ""), true),
        (
            "edge-1",
            of_edgecore(server("kubeedge-edgecore"), "upload"),
            false,
        ),
        ("edge-1", of_ours, false),
    ] {
        let mut node = Node::connect(&world, name);
        let calling = world.call(name, "a", b"");
        let asked = node.next().await;
        assert!(node.say(answer.clone(), "r", &asked.header.msg_id));
        let (status, _, body) = calling.await.unwrap().unwrap();
        assert_eq!((status, &*body), (StatusCode::NOT_FOUND, &b"no"[..]));
        arrived += i64::from(!has_failed);
        failed += i64::from(has_failed);
        world.counts("call", arrived, failed).await;
        let errors = world.status("call").await.errors;
        assert_eq!(
            errors.len(),
            usize::try_from(failed).unwrap(),
            "{answer:?}: {errors:?}"
        );
        if has_failed {
            assert!(
                errors[0].ends_with(&format!("{name}: 404 no")),
                "{errors:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_carried_out_says_why() {
    let world = World::with(Duration::from_millis(300)).await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    world
        .rule(
            "publish",
            ("rest", &[("path", "p")]),
            ("mqtt", &[("topic", "t")]),
        )
        .await;
    let refused = |path: &'static str, body| {
        let calling = world.call("edge-1", path, body);
        async move {
            let error = calling.await.unwrap().unwrap_err();
            (error.status.as_u16(), error.reason)
        }
    };
    assert_eq!(refused("unknown", b"").await, (404, "RuleNotFound"));
    assert_eq!(refused("a", b"").await, (502, "NodeNotConnected"));
    let _node = Node::connect(&world, "edge-1");
    assert_eq!(refused("a", b"").await, (504, "NodeTimeout"));
    for path in [
        "a/../b",
        "a/..;/x",
        "a/..;b=c/x",
        "a/%2e%2e%3b/x",
        "a/%252e%252e/x",
    ] {
        assert_eq!(refused(path, b"").await, (400, "PathRefused"), "{path}");
    }
    assert_eq!(refused("p/%2b", b"").await, (400, "TopicRefused"));
    assert_eq!(refused("p", b"\xff").await, (415, "NoText"));
    world.counts("call", 0, 7).await;
    world.counts("publish", 0, 2).await;
    let status = world.status("call").await;
    assert!(
        status.errors[0].contains("edge-1: a path may not lead out"),
        "{:?}",
        status.errors
    );
}

#[tokio::test]
async fn a_publication_is_delivered_when_an_agent_of_ours_says_so() {
    let world = World::new().await;
    world
        .rule(
            "publish",
            ("rest", &[("path", "p")]),
            ("mqtt", &[("topic", "devices/led")]),
        )
        .await;
    let (mut theirs, mut ours) = (
        Node::connect(&world, "edge-1"),
        Node::connect(&world, "own-1"),
    );
    let calling = world.call("edge-1", "p/on", b"1");
    let asked = theirs.next().await;
    assert_eq!(
        asked.body,
        Downstream::Publish {
            topic: "devices/led/on".into(),
            payload: "1".into()
        }
    );
    assert_eq!(&*calling.await.unwrap().unwrap().2, b"message delivered");
    for (failed, content, status) in [(false, "OK", 200), (true, "the broker is away", 502)] {
        let calling = world.call("own-1", "p", b"\xff\x00");
        let asked = ours.next().await;
        let Downstream::Publish { payload, .. } = asked.body else {
            panic!()
        };
        assert_eq!(
            Payload::read(&payload),
            Some(Payload::Bytes(b"\xff\x00".to_vec()))
        );
        let topic = "devices/led".into();
        ours.say(
            Upstream::BusAnswer {
                topic,
                failed,
                content: content.into(),
            },
            "a",
            &asked.header.msg_id,
        );
        let answered = calling.await.unwrap();
        assert_eq!(
            answered.map_or_else(|error| error.status.as_u16(), |answer| answer.0.as_u16()),
            status
        );
    }
    world.counts("publish", 2, 1).await;
    assert!(
        world.status("publish").await.errors[0].ends_with("own-1: node own-1: the broker is away")
    );
}

#[tokio::test]
async fn nodes_listen_to_what_rules_want_and_no_longer() {
    let world = World::new().await;
    let mut early = Node::connect(&world, "edge-1");
    world
        .rule(
            "up",
            ("mqtt", &[("topic", "up/#"), ("node_name", "edge-1")]),
            ("rest", &[("resource", "http://127.0.0.1:1")]),
        )
        .await;
    let told = early.next().await.body;
    assert_eq!(
        told,
        Downstream::Subscription {
            on: true,
            topic: "default/up/#".into(),
            content: Terms::OURS.content()
        }
    );
    let target = ("target_url", "http://a/b");
    world
        .rule(
            "app",
            ("http", &[target, ("node_name", "edge-1")]),
            ("rest", &[("resource", "http://127.0.0.1:1")]),
        )
        .await;
    let told = early.next().await.body;
    assert_eq!(
        told,
        Downstream::ServiceTarget {
            on: true,
            url: "http://a/b".into(),
            content: Value::Null
        }
    );
    drop(early);
    // a rule that is deleted while the node is away is unsubscribed when it comes back
    world.api().delete("up", &Default::default()).await.unwrap();
    until("the rule is gone", || {
        world
            .rules
            .table()
            .topic("edge-1", "default/up/a")
            .is_empty()
    })
    .await;
    let mut again = Node::connect(&world, "edge-1");
    let told = [again.next().await.body, again.next().await.body];
    assert_eq!(
        told[0],
        Downstream::Subscription {
            on: false,
            topic: "default/up/#".into(),
            content: Value::Null
        }
    );
    assert_eq!(
        told[1],
        Downstream::ServiceTarget {
            on: true,
            url: "http://a/b".into(),
            content: Value::Null
        }
    );
}

#[tokio::test]
async fn a_rule_that_goes_while_a_call_is_under_way_leaves_it_alone() {
    let world = World::new().await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    let mut node = Node::connect(&world, "edge-1");
    let calling = world.call("edge-1", "a", b"");
    let asked = node.next().await;
    world
        .api()
        .delete("call", &Default::default())
        .await
        .unwrap();
    until("the rule is gone", || {
        world.rules.rule_for("default", "a").is_none()
    })
    .await;
    // the node has reconnected meanwhile
    let again = Node::connect(&world, "edge-1");
    let content = json!(ServiceResponse {
        status_code: 200,
        ..ServiceResponse::default()
    });
    again.say(
        Upstream::ServiceUpload {
            target: "".into(),
            content,
        },
        "r",
        &asked.header.msg_id,
    );
    assert_eq!(calling.await.unwrap().unwrap().0, StatusCode::OK);
    assert_eq!(
        world
            .call("edge-1", "a", b"")
            .await
            .unwrap()
            .unwrap_err()
            .status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_rule_that_says_what_none_may_is_refused() {
    let world = World::new().await;
    let rest = ("rest", &[("resource", "http://a/")][..]);
    let path = ("rest", &[("path", "a")][..]);
    for (from, to, why) in [
        (
            ("rest", &[][..]),
            ("mqtt", &[("topic", "t")][..]),
            "spec.sourceResource[path]",
        ),
        (
            ("rest", &[("path", "a"), ("topic", "b")][..]),
            ("mqtt", &[("topic", "t")][..]),
            "spec.sourceResource[topic]",
        ),
        (
            ("rest", &[("path", "a/../b")][..]),
            ("mqtt", &[("topic", "t")][..]),
            "spec.sourceResource[path]",
        ),
        (
            path,
            ("mqtt", &[("topic", "$hw/events/device/a/twin/update")][..]),
            "belong to devices",
        ),
        (path, ("mqtt", &[("topic", "a/#")][..]), "wildcard"),
        (path, rest, "one end of a rule is rest"),
        (path, ("http", &[][..]), "spec.targetResource[path]"),
        (
            ("mqtt", &[("topic", "t")][..]),
            rest,
            "spec.sourceResource[node_name]",
        ),
        (
            ("mqtt", &[("topic", "../$hw/#"), ("node_name", "n")][..]),
            rest,
            "no level . or ..",
        ),
        (
            ("mqtt", &[("topic", "t"), ("node_name", "N")][..]),
            rest,
            "no name of a node",
        ),
        (
            ("mqtt", &[("topic", "t"), ("node_name", "n")][..]),
            ("rest", &[("resource", "file:///etc/passwd")][..]),
            "URL of http",
        ),
        (
            ("mqtt", &[("topic", "t"), ("node_name", "n")][..]),
            ("rest", &[("resource", "http://u:p@a/")][..]),
            "without a user",
        ),
        (
            ("mqtt", &[("topic", "t"), ("node_name", "n")][..]),
            (
                "rest",
                &[("resource", "http://169.254.169.254/latest/meta-data/")][..],
            ),
            "link-local",
        ),
    ] {
        let error = world.try_rule("bad", from, to).await.unwrap_err();
        let kube::Error::Api(status) = error else {
            panic!("{error}")
        };
        assert_eq!(status.code, 422);
        assert!(status.message.contains(why), "{}", status.message);
    }
    let none = RuleEndpoint::new(
        "none",
        RuleEndpointSpec {
            rule_endpoint_type: RuleEndpointType::ServiceBus,
            properties: BTreeMap::new(),
        },
    );
    let refused = Api::<RuleEndpoint>::default_namespaced(world.client.clone())
        .create(&PostParams::default(), &none)
        .await;
    assert!(refused.unwrap_err().to_string().contains("service_port"));
}

#[tokio::test]
async fn a_rule_that_is_not_in_force_says_why_until_it_is() {
    let world = World::new().await;
    world
        .rule(
            "first",
            ("rest", &[("path", "a")]),
            ("mqtt", &[("topic", "t")]),
        )
        .await;
    world
        .try_rule(
            "second",
            ("rest", &[("path", "/a/")]),
            ("mqtt", &[("topic", "u")]),
        )
        .await
        .unwrap();
    world
        .try_rule(
            "lonely",
            ("rest", &[("path", "b")]),
            ("later", &[("topic", "u")]),
        )
        .await
        .unwrap();
    eventually("both say why", async || {
        let says = |status: &RuleStatus, why: &str| {
            status
                .errors
                .first()
                .is_some_and(|error| error.contains(why))
        };
        let (second, lonely) = (world.status("second").await, world.status("lonely").await);
        let no_endpoint = "not in force: RuleEndpoint later not found in namespace default";
        let both = says(&second, "not in force: rule default/first is older")
            && says(&lonely, no_endpoint);
        if both { Ok(()) } else { Err((second, lonely)) }
    })
    .await;
    world
        .api()
        .delete("first", &Default::default())
        .await
        .unwrap();
    let later = RuleEndpointSpec {
        rule_endpoint_type: RuleEndpointType::EventBus,
        properties: BTreeMap::new(),
    };
    Api::default_namespaced(world.client.clone())
        .create(&PostParams::default(), &RuleEndpoint::new("later", later))
        .await
        .unwrap();
    eventually("both are in force", async || {
        let errors = (
            world.status("second").await.errors,
            world.status("lonely").await.errors,
        );
        if errors.0.is_empty() && errors.1.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    })
    .await;
}

#[tokio::test]
async fn a_thousand_rules_are_found() {
    let world = World::new().await;
    for number in 0..1000 {
        let path = format!("p{number}");
        world
            .try_rule(
                &path,
                ("rest", &[("path", &path)]),
                ("mqtt", &[("topic", &path)]),
            )
            .await
            .unwrap();
    }
    eventually("all are in force", async || {
        match world
            .rules
            .table()
            .all()
            .filter(|(_, problem)| problem.is_none())
            .count()
        {
            1000 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    let mut node = Node::connect(&world, "edge-1");
    let calling = world.call("edge-1", "p777", b"x");
    assert_eq!(
        node.next().await.body,
        Downstream::Publish {
            topic: "p777".into(),
            payload: "x".into()
        }
    );
    calling.await.unwrap().unwrap();
}

/// Two clouds on one cluster each count what they deliver.
#[tokio::test]
async fn the_counts_of_two_replicas_are_added_up() {
    let world = World::new().await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    let other = world.replica().await;
    until("the other replica has the rule", || {
        other.rule_for("default", "a").is_some()
    })
    .await;
    let failing = async |rules: &Rules, times: i64| {
        for _ in 0..times {
            let error = world
                .call_of(rules, "nobody", "a", b"")
                .await
                .unwrap()
                .unwrap_err();
            assert_eq!(error.reason, "NodeNotConnected");
        }
    };
    for round in 1..=3 {
        tokio::join!(failing(&world.rules, 5), failing(&other, 7));
        world.counts("call", 0, 12 * round).await;
    }
    let errors = world.status("call").await.errors;
    assert!(
        errors.len() == 10
            && errors
                .iter()
                .all(|error| error.contains("nobody: node nobody")),
        "{errors:?}"
    );
}

#[tokio::test]
async fn a_call_ends_when_its_node_goes_and_does_not_come_back() {
    let world = World::new().await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    let mut node = Node::connect(&world, "edge-1");
    let calling = world.call("edge-1", "a", b"");
    node.next().await;
    drop(node);
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(
        (error.status.as_u16(), error.reason),
        (502, "NodeDisconnected")
    );
}
