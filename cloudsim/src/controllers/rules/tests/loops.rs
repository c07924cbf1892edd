//! Loops: rules whose target is the router.

use http::StatusCode;
use kubeapi::serve::{HandlerService, Server};
use tokio_util::sync::CancellationToken;
use wire::{Downstream, Upstream};

use super::world::{Node, Target, World};
use crate::router::Router;

/// A node whose programs send each message on, from one topic to the other.
#[tokio::test]
async fn a_rule_that_leads_to_the_router_does_not_go_round() {
    let world = World::new().await;
    let router = Router::unchecked(world.rules.clone());
    let server = Server::bind(([127, 0, 0, 1], 0).into(), None, HandlerService(router))
        .await
        .unwrap();
    let (address, stop) = (server.local_addr(), CancellationToken::new());
    tokio::spawn(server.run(stop.clone()));
    let _stop = stop.drop_guard();
    let own = format!("http://{address}/own-1/default/x");
    world
        .rule(
            "down",
            ("rest", &[("path", "x")]),
            ("mqtt", &[("topic", "default/x")]),
        )
        .await;
    let from = ("mqtt", &[("topic", "x"), ("node_name", "own-1")][..]);
    world
        .rule("up", from, ("rest", &[("resource", &own)]))
        .await;
    let mut node = Node::connect(&world, "own-1");
    let calling = world.call("own-1", "x", b"on");
    let mut published = 0;
    let content = loop {
        let message = node.next().await;
        match message.body {
            Downstream::Publish { topic, payload } => {
                published += 1;
                let content = "OK".into();
                let answer = Upstream::BusAnswer {
                    topic: topic.into(),
                    failed: false,
                    content,
                };
                node.say(answer, "a", &message.header.msg_id);
                node.upload("default/x", payload, &format!("m{published}"));
            }
            Downstream::UploadAnswer {
                failed, content, ..
            } => {
                assert!(failed, "{content}");
                break content;
            }
            _ => {}
        }
    };
    assert_eq!(calling.await.unwrap().unwrap().0, StatusCode::OK);
    assert!(
        content.as_str().unwrap().contains("508 Loop Detected"),
        "{content}"
    );
    assert_eq!(published, 1);
    world.counts("up", 0, 1).await;
    world.counts("down", 1, 0).await;
}

#[tokio::test]
async fn targets_are_told_which_cloud_calls() {
    let world = World::new().await;
    let target = Target::new(StatusCode::OK, Vec::new()).await;
    let from = ("mqtt", &[("topic", "up"), ("node_name", "own-1")][..]);
    world
        .rule("up", from, ("rest", &[("resource", &target.url)]))
        .await;
    let mut node = Node::connect(&world, "own-1");
    node.next().await;
    node.upload("default/up", "1".into(), "m1");
    node.next().await;
    let heard = target.heard.lock().await;
    assert!(world.rules.via().is_in(&heard[0].1), "{:?}", heard[0].1);
}
