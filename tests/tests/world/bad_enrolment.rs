//! Machines that may not become nodes, and what their agents say.

use std::time::{Duration, SystemTime};

use tests::{Setup, World, story, within};
use wire::enroll::{Csr, Token};

use crate::raw::{Caller, authority};

/// What an agent says that gives up with this token.
async fn gives_up(world: &World, token: String) -> String {
    let setup = Setup {
        token: Some(token),
        ..Setup::default()
    };
    let mut node = world.prepare("rogue", &setup).await;
    node.start().await.unwrap();
    story(
        &within("the agent gives up", node.wait_ended())
            .await
            .unwrap_err(),
    )
}

#[tokio::test]
async fn an_expired_token_is_named_as_such() {
    let world = World::new(0).await;
    let past = SystemTime::now() - Duration::from_secs(7200);
    let token = Token::mint(&authority(&world).await, past, Duration::from_secs(3600)).unwrap();
    let said = gives_up(&world, token).await;
    assert!(
        said.contains("refused: 401") && said.contains("the token has expired 36"),
        "{said}"
    );
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    let (world, other) = (World::new(0).await, World::new(0).await);
    let (hash, _) = world.cloud().token().split_once('.').unwrap();
    let (_, jwt) = other.cloud().token().split_once('.').unwrap();
    let said = gives_up(&world, format!("{hash}.{jwt}")).await;
    assert!(
        said.contains("the token is of another cloud: its signature"),
        "{said}"
    );
}

#[tokio::test]
async fn another_clouds_token_is_named_as_such() {
    let (world, other) = (World::new(0).await, World::new(0).await);
    let said = gives_up(&world, other.cloud().token().to_owned()).await;
    assert!(said.contains("the token is of another cloud"), "{said}");
    assert!(said.contains("use the token of this cloud"), "{said}");
}

#[tokio::test]
async fn no_error_tells_a_token() {
    let (world, other) = (World::new(0).await, World::new(0).await);
    let token = other.cloud().token().to_owned();
    let jwt = Token::parse(&token).unwrap().jwt().to_owned();
    assert!(!gives_up(&world, token).await.contains(&jwt));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_issued() {
    let world = World::new(0).await;
    let caller = Caller::anonymous(&world).await;
    let jwt = Token::parse(world.cloud().token())
        .unwrap()
        .jwt()
        .to_owned();
    let (status, said) = caller
        .enrol(&world, &jwt, "rogue", &Csr::for_node("edge-1").unwrap())
        .await;
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&said));
    let (status, said) = caller
        .enrol(&world, &jwt, "../rogue", &Csr::for_node("rogue").unwrap())
        .await;
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn a_node_renews_its_own_certificate_and_nobody_elses() {
    let world = World::new(0).await;
    let caller = Caller::node(&world, "rogue").await;
    let (status, _) = caller
        .enrol(&world, "", "rogue", &Csr::for_node("rogue").unwrap())
        .await;
    assert_eq!(status, 200);
    let (status, said) = caller
        .enrol(&world, "", "edge-1", &Csr::for_node("edge-1").unwrap())
        .await;
    let said = String::from_utf8_lossy(&said);
    assert_eq!(
        (status, said.contains("not node edge-1's")),
        (401, true),
        "{said}"
    );
}

#[tokio::test]
async fn requests_that_are_none_are_refused() {
    let world = World::new(0).await;
    let caller = Caller::anonymous(&world).await;
    let https = world.cloud().addresses().https;
    let (status, _) = caller
        .https(https, "/edge.crt", "NodeName: rogue\r\n", b"")
        .await
        .unwrap();
    assert_eq!(status, 401, "no token");
    let jwt = Token::parse(world.cloud().token())
        .unwrap()
        .jwt()
        .to_owned();
    let headers = format!("NodeName: rogue\r\nAuthorization: Bearer {jwt}\r\n");
    for body in [b"".as_slice(), b"-----BEGIN", &[0x30; 4096]] {
        let (status, _) = caller
            .https(https, "/edge.crt", &headers, body)
            .await
            .unwrap();
        assert_eq!(status, 400);
    }
    let (status, _) = caller
        .https(https, "/../../etc/passwd", "", b"")
        .await
        .unwrap();
    assert_eq!(status, 404);
    let (status, ca) = caller.https(https, "/ca.crt", "", b"").await.unwrap();
    assert_eq!(
        (status, ca),
        (200, authority(&world).await.cert_der().to_vec())
    );
}
