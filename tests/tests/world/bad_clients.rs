//! Callers who are not who they should be: refused at the door, with a reason.

use tests::{World, manifests::pod};
use tokio_tungstenite::tungstenite::Error;

use crate::raw::Caller;

/// Status and text of a refused upgrade.
async fn refusal(caller: &Caller, world: &World, headers: &[(&str, &str)]) -> (u16, String) {
    match caller.websocket(world, headers).await {
        Err(Error::Http(answer)) => {
            let body = answer.body().as_deref().unwrap_or_default();
            (
                answer.status().as_u16(),
                String::from_utf8_lossy(body).into_owned(),
            )
        }
        Err(other) => panic!("no HTTP refusal: {other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test]
async fn a_node_that_calls_itself_by_another_name_is_refused() {
    let world = World::new(1).await;
    let caller = Caller::node(&world, "rogue").await;
    let (status, said) = refusal(
        &caller,
        &world,
        &[("node_id", "edge-1"), ("connectionuse", "msg")],
    )
    .await;
    assert_eq!(status, 403);
    assert!(
        said.starts_with("the header Node_id says \"edge-1\" and the certificate \"rogue\""),
        "{said}"
    );
    let (status, _) = refusal(&caller, &world, &[("connectionuse", "msg")]).await;
    assert_eq!(status, 403);
    world.run(&pod("web", Some("edge-1"))).await;
}

#[tokio::test]
async fn another_use_of_the_connection_is_refused() {
    let world = World::new(0).await;
    let caller = Caller::node(&world, "rogue").await;
    let (status, said) = refusal(&caller, &world, &[("node_id", "rogue")]).await;
    assert_eq!(
        (status, said.as_str()),
        (
            403,
            "the header ConnectionUse must be msg; this hub serves no other use"
        )
    );
}

#[tokio::test]
async fn a_person_is_no_node() {
    let world = World::new(0).await;
    let caller = Caller::admin(&world).await;
    let (status, said) = refusal(
        &caller,
        &world,
        &[("node_id", "rogue"), ("connectionuse", "msg")],
    )
    .await;
    assert_eq!(status, 403);
    assert!(
        said.contains("is that of administrator ") && said.contains("not a node's"),
        "{said}"
    );
}

#[tokio::test]
async fn nobody_reaches_the_hub_without_a_certificate_of_this_cloud() {
    let world = World::new(0).await;
    let headers = [("node_id", "rogue"), ("connectionuse", "msg")];
    let anonymous = Caller::anonymous(&world).await;
    assert!(!matches!(
        anonymous.websocket(&world, &headers).await,
        Ok(_) | Err(Error::Http(_))
    ));
    let elsewhere = World::new(0).await;
    let foreign = Caller::node(&elsewhere, "rogue").await.at(&world).await;
    assert!(!matches!(
        foreign.websocket(&world, &headers).await,
        Ok(_) | Err(Error::Http(_))
    ));
    // a good one still does
    Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
}

#[tokio::test]
async fn the_api_is_for_people() {
    let world = World::new(0).await;
    let api = world.cloud().addresses().api.unwrap();
    for path in [
        "/api/v1/secrets",
        "/api/v1/nodes",
        "/apis/apps/v1/deployments",
    ] {
        let caller = Caller::node(&world, "rogue").await;
        let (status, said) = caller.https(api, path, "", b"").await.unwrap();
        assert_eq!(status, 403, "{}", String::from_utf8_lossy(&said));
        let (status, said) = Caller::anonymous(&world)
            .await
            .https(api, path, "", b"")
            .await
            .unwrap();
        assert!(
            matches!(status, 401 | 403),
            "{status} {}",
            String::from_utf8_lossy(&said)
        );
        let (status, _) = Caller::admin(&world)
            .await
            .https(api, path, "", b"")
            .await
            .unwrap();
        assert!(matches!(status, 200 | 404), "{status}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_tls_disturb_nobody() {
    use tokio::io::AsyncWriteExt;
    let world = World::new(1).await;
    let addresses = world.cloud().addresses();
    for address in [addresses.api.unwrap(), addresses.https, addresses.websocket] {
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".as_slice(),
            &[0; 4096],
            &[0x16, 3, 1, 0xff, 0xff],
            b"",
        ] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(bytes).await;
        }
    }
    world.run(&pod("web", Some("edge-1"))).await;
}
