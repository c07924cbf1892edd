//! Crowds that connect to each of the servers and say nothing: whoever comes after them is served.

use std::net::{Ipv4Addr, SocketAddr};

use testkit::silent_tcp;
use tests::{Setup, World, eventually, manifests::pod, within};

use crate::raw::Caller;

/// More than any of the servers has connections in all.
const CROWD: usize = 4_200;

/// An address of loopback that is this process's alone.
fn own_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 128 + high % 64, middle, low), 10_350).into()
}

/// The status that a plain GET is answered with.
async fn plain(address: SocketAddr, path: &str) -> Result<u16, String> {
    let path = path.to_owned();
    let asked = tokio::task::spawn_blocking(move || e2e::scrape::get(address, &path))
        .await
        .unwrap();
    asked
        .map(|answer| answer.code)
        .map_err(|error| format!("{error:#}"))
}

#[tokio::test]
async fn a_silent_crowd_at_any_server_keeps_nobody_out() {
    let server = own_address();
    let setup = Setup {
        server: Some(server),
        meta_server: true,
        quic: true,
        ..Setup::default()
    };
    let world = World::with(setup).await;
    world.until_ready().await;
    let addresses = world.cloud().addresses();
    let meta = world.nodes[0]
        .meta_server()
        .await
        .expect("MetaServer listens");
    eventually("the server listens", async || {
        plain(server, "/healthz/ping").await.map(drop)
    })
    .await;
    let admin = Caller::admin(&world).await;
    for (what, address) in [
        ("API", addresses.api.unwrap()),
        ("enrolment", addresses.https),
        ("hub", addresses.websocket),
        ("the node's server", server),
        ("MetaServer", meta),
    ] {
        let crowd = silent_tcp(address, CROWD).await;
        let served = async {
            match what {
                "API" => assert_eq!(
                    admin
                        .https(address, "/api/v1/nodes", "", b"")
                        .await
                        .unwrap()
                        .0,
                    200
                ),
                "enrolment" => drop(Caller::node(&world, "newcomer").await),
                "hub" => drop(
                    Caller::node(&world, "other")
                        .await
                        .session(&world, "other")
                        .await,
                ),
                "the node's server" => assert_eq!(plain(address, "/healthz/ping").await, Ok(200)),
                _ => assert!(plain(address, "/version").await.is_ok()),
            }
        };
        within(what, served).await;
        drop(crowd);
    }
    world.run(&pod("web", Some("edge-1"))).await;
}
