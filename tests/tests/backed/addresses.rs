//! The addresses in a Node's status, with and without the published address of the stream Service.

use cloudsim::streams::{ClientCa, KubeletOptions, StreamService};
use serde_json::{Value, json};
use tests::World;
use wire::{Change, ResourcePath, ResourceType, Upstream};

use crate::raw::{Caller, Session};

/// Reports a status as the node does; returns the addresses that the Node has then.
async fn report(world: &World, session: &mut Session, status: Value) -> Value {
    let patch = json!({"status": status}).to_string();
    session.ask(Upstream::node_patch("edge-1", patch)).await;
    world.node("edge-1").get().await["status"]["addresses"].take()
}

#[tokio::test]
async fn a_node_has_the_published_address_and_those_of_its_last_report() {
    let mut world = World::new(0).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "streams", "namespace": "kubeedge"},
        "spec": {"ports": [{"port": 10003}]}});
    let service = world.apply(&service).await.get().await;
    let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
    let ip = |value: &str| address("InternalIP", value);
    let (host, cloud) = (
        address("Hostname", "edge-1"),
        ip(service["spec"]["clusterIP"].as_str().unwrap()),
    );
    let caller = Caller::node(&world, "edge-1").await;
    let mut session = caller.session(&world, "edge-1").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1"}});
    let path = ResourcePath::object("default", &ResourceType::Node, "edge-1");
    let change = Change::Insert;
    session
        .ask(Upstream::Object {
            path,
            change,
            object: node,
        })
        .await;
    let first = vec![ip("192.0.2.7"), host.clone()];
    let found = report(&world, &mut session, json!({"addresses": first})).await;
    assert_eq!(found, json!(first));

    for is_published in [true, false] {
        drop(session);
        world.stop_cloud().await;
        world.options_mut().kubelets = is_published.then(|| KubeletOptions {
            port: 0,
            client_ca: ClientCa::Cluster,
            client_names: Vec::new(),
            service: Some(StreamService {
                name: "streams".to_owned(),
                address_type: Some("InternalIP".to_owned()),
            }),
        });
        world.start_cloud().await;
        session = caller.session(&world, "edge-1").await;
        let expected = |own: &[Value]| {
            let published = Some(&cloud).filter(|_| is_published);
            json!(published.into_iter().chain(own).collect::<Vec<_>>())
        };
        if is_published {
            // EdgeCore sends only what has changed
            let found = report(&world, &mut session, json!({"phase": "Running"})).await;
            assert_eq!(found, expected(&first));
        }
        for own in [
            first.clone(),
            // another address
            vec![ip("192.0.2.8"), host.clone()],
            // two of one type
            vec![ip("192.0.2.8"), ip("2001:db8::8"), host.clone()],
            vec![host.clone()],
            first.clone(),
        ] {
            let found = report(&world, &mut session, json!({"addresses": own})).await;
            assert_eq!(found, expected(&own), "published: {is_published}");
        }
    }
}
