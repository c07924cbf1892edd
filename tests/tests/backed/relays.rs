//! Streams of the relay between nodes that are connected to different replicas.

use cloudsim::{Cloud, Options};
use quinn::{Connection, VarInt};
use tests::{Setup, World, eventually, within};

use crate::{
    forwarding::peer,
    raw::Caller,
    relay_nodes::{connect, open, open_pair, refusal},
};

/// Two replicas with a relay each.
struct Replicas {
    world: World,
    other: Option<Cloud>,
}

impl Replicas {
    async fn start() -> Self {
        let mut world = World::with(Setup {
            nodes: 0,
            relay: true,
            ..Setup::default()
        })
        .await;
        world.stop_cloud().await;
        if let Some(cluster) = &mut world.options_mut().cluster {
            cluster.peer = Some(peer());
        }
        world.start_cloud().await;
        let mut cluster = world.cluster().options("replica-2").await;
        cluster.peer = Some(peer());
        let options = Options {
            cluster: Some(cluster),
            relay_port: Some(0),
            ..Options::default().any_ports()
        };
        let other = Cloud::start(options).await.expect("another replica");
        Self {
            world,
            other: Some(other),
        }
    }

    fn other(&self) -> &Cloud {
        self.other.as_ref().unwrap()
    }

    /// Connects a node to the relay of one replica, and waits until a node of the other one finds it.
    async fn node(&self, cloud: &Cloud, name: &str) -> Connection {
        let caller = Caller::node(&self.world, name).await;
        let relay = cloud.addresses().relay.unwrap();
        connect(relay, &caller).await.unwrap()
    }
}

/// Waits until `from` finds the node `name`, whose connection is `to`.
async fn until_found(from: &Connection, to: &Connection, name: &str) {
    eventually("the other node is found", async || {
        let (_send, mut receive) = open(from, name).await;
        tokio::select! {
            // a refusal
            answer = receive.read_chunk(1024, true) => Err(format!("{answer:?}")),
            stream = to.accept_bi() => stream.map(drop).map_err(|error| error.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_pass_between_nodes_of_different_replicas() {
    let replicas = Replicas::start().await;
    let one = replicas.node(replicas.world.cloud(), "edge-1").await;
    let two = replicas.node(replicas.other(), "edge-2").await;
    until_found(&one, &two, "edge-2").await;
    until_found(&two, &one, "edge-1").await;
    let all = [(&one, &two, "edge-2"), (&two, &one, "edge-1")];
    for (from, to, name) in all {
        let [mut ours, mut theirs] = open_pair(from, to, name).await;
        // more than all windows on the way
        let bytes: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        for (writer, reader) in [(&mut ours.0, &mut theirs.1), (&mut theirs.0, &mut ours.1)] {
            let sent = async {
                writer.write_all(&bytes).await.unwrap();
                writer.finish().unwrap();
            };
            let (read, ()) = within("all bytes", async {
                tokio::join!(reader.read_to_end(8 << 20), sent)
            })
            .await;
            assert!(read.unwrap() == bytes, "other bytes arrive");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_at_one_replica_ends_at_the_other() {
    let mut replicas = Replicas::start().await;
    let one = replicas.node(replicas.world.cloud(), "edge-1").await;
    let two = replicas.node(replicas.other(), "edge-2").await;
    until_found(&one, &two, "edge-2").await;

    // a stream that breaks off breaks off with the same code
    let [mut ours, mut theirs] = open_pair(&one, &two, "edge-2").await;
    ours.0.reset(VarInt::from_u32(77)).unwrap();
    let read = within("the break", theirs.1.read_to_end(1024)).await;
    assert!(format!("{read:?}").contains("77"), "{read:?}");

    // a node that no replica has is refused, and a node is not its own other
    let answer = refusal(&one, "edge-9").await;
    assert!(
        answer.contains("node edge-9 is not connected to the relay"),
        "{answer}"
    );
    let answer = refusal(&one, "edge-1").await;
    assert!(answer.contains("no connection to itself"), "{answer}");

    // a node that leaves ends its streams, and is found where it connects again
    let [_ours, _theirs] = open_pair(&one, &two, "edge-2").await;
    let [mut ours, _theirs2] = open_pair(&one, &two, "edge-2").await;
    two.close(VarInt::from_u32(0), b"moves");
    let read = within("the end of the stream", ours.1.read_to_end(1024)).await;
    assert!(read.is_err(), "{read:?}");
    let two = replicas.node(replicas.world.cloud(), "edge-2").await;
    until_found(&one, &two, "edge-2").await;

    // a replica that stops ends the streams of its nodes
    let three = replicas.node(replicas.other(), "edge-3").await;
    until_found(&one, &three, "edge-3").await;
    let [mut ours, _theirs] = open_pair(&one, &three, "edge-3").await;
    replicas.other.take().unwrap().stop().await.unwrap();
    let read = within("the end of the stream", ours.1.read_to_end(1024)).await;
    assert!(read.is_err(), "{read:?}");
    let answer = refusal(&one, "edge-3").await;
    assert!(answer.contains("is not connected"), "{answer}");
}
