//! Whose a node's name is: somebody with the join token, and with nothing else, who wants to be a node that there is.

use cloudsim::pki::TokenRequest;
use tests::{World, condition};
use wire::enroll::{Csr, Token};

use crate::raw::Caller;

fn jwt(token: &str) -> String {
    Token::parse(token).unwrap().jwt().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_join_token_gives_nobody_the_name_of_a_node_that_there_is() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let (thief, shared) = (Caller::anonymous(&world).await, jwt(world.cloud().token()));
    let csr = Csr::for_node("edge-1").unwrap();
    let named = TokenRequest {
        node: Some("edge-1".into()),
        ..TokenRequest::default()
    };
    let own = jwt(&world.cloud().join_token(&named).await.unwrap());
    for connected in [true, false] {
        for token in [&shared, &own] {
            let (status, said) = thief.enrol(&world, token, "edge-1", &csr).await;
            assert_eq!(status, 409, "{}", text(&said));
            assert!(
                text(&said).contains("cloudsim node reset edge-1"),
                "{}",
                text(&said)
            );
        }
        if connected {
            assert_eq!(world.cloud().sessions().len(), 1, "nobody is thrown out");
            world.nodes[0].stop().await;
        }
    }
    world.nodes[0].start().await.unwrap();
    world.until_connected(0, true).await;

    // an administrator says so: the node is thrown out, and whoever has a token may have the name
    let directory = world.nodes[0].directory().to_owned();
    assert!(world.cloud().reset_node("edge-1").await.unwrap());
    world.until_connected(0, false).await;
    let old = Caller::thief(&world, &directory).await;
    assert_eq!(old.refusal(&world, "edge-1").await, Some(403));
    let new = Caller::node(&world, "edge-1").await;
    assert_eq!(new.refusal(&world, "edge-1").await, None);
    let (status, _) = thief.enrol(&world, &shared, "edge-1", &csr).await;
    assert_eq!(status, 409);
    // it renews with its own
    let (status, _) = new.enrol(&world, "", "edge-1", &csr).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn an_answer_that_was_lost_is_given_again_and_the_lost_certificate_is_worth_nothing() {
    let world = World::new(0).await;
    let lost = Caller::node(&world, "edge-1").await;
    let shared = jwt(world.cloud().token());
    let again = Caller::anonymous(&world).await;
    let (status, _) = again
        .enrol(&world, &shared, "edge-1", &Csr::for_node("edge-1").unwrap())
        .await;
    assert_eq!(status, 200);
    assert_eq!(lost.refusal(&world, "edge-1").await, Some(403));
}

#[tokio::test]
async fn a_token_for_one_node_is_good_for_that_one_and_as_often_as_it_says() {
    let world = World::new(0).await;
    let caller = Caller::anonymous(&world).await;
    let request = TokenRequest {
        node: Some("edge-1".into()),
        seconds: Some(600),
        uses: Some(1),
    };
    let token = jwt(&world.cloud().join_token(&request).await.unwrap());
    let (status, said) = caller
        .enrol(&world, &token, "edge-2", &Csr::for_node("edge-2").unwrap())
        .await;
    assert_eq!(
        (status, text(&said).contains("for node edge-1 alone")),
        (401, true),
        "{}",
        text(&said)
    );
    // a lost answer does not use it up, and is nobody's but whose key it was for
    let (own, anothers) = (
        Csr::for_node("edge-1").unwrap(),
        Csr::for_node("edge-1").unwrap(),
    );
    for (csr, expected) in [(&own, 200), (&anothers, 401), (&own, 200)] {
        let (status, said) = caller.enrol(&world, &token, "edge-1", csr).await;
        assert_eq!(status, expected, "{}", text(&said));
    }
    world.cloud().reset_node("edge-1").await.unwrap();
    let (status, said) = caller
        .enrol(&world, &token, "edge-1", &Csr::for_node("edge-1").unwrap())
        .await;
    assert_eq!(
        (status, text(&said).contains("reached its number of uses")),
        (401, true),
        "{}",
        text(&said)
    );
    let request = TokenRequest {
        uses: Some(1),
        ..TokenRequest::default()
    };
    let token = jwt(&world.cloud().join_token(&request).await.unwrap());
    for (name, expected) in [("edge-3", 200), ("edge-4", 401)] {
        let (status, said) = caller
            .enrol(&world, &token, name, &Csr::for_node(name).unwrap())
            .await;
        assert_eq!(status, expected, "{name}: {}", text(&said));
    }
}

#[tokio::test]
async fn whether_there_is_a_node_is_not_told_to_anybody() {
    let world = World::new(1).await;
    world.until_ready().await;
    world
        .node("edge-1")
        .until("Ready", |node| condition(node, "Ready") == Some("True"))
        .await;
    let https = world.cloud().addresses().https;
    let nobody = Caller::anonymous(&world).await;
    for path in ["/node/edge-1", "/node/edge-2"] {
        let (status, said) = nobody.https(https, path, "", b"").await.unwrap();
        assert_eq!(status, 401, "{path}: {}", text(&said));
    }
    let token = format!("Authorization: Bearer {}\r\n", jwt(world.cloud().token()));
    for (path, expected) in [("/node/edge-1", 200), ("/node/edge-2", 404)] {
        let (status, _) = nobody.https(https, path, &token, b"").await.unwrap();
        assert_eq!(status, expected, "{path}");
    }
    let own = Caller::thief(&world, world.nodes[0].directory()).await;
    for (path, expected) in [("/node/edge-1", 200), ("/node/edge-2", 401)] {
        let (status, _) = own.https(https, path, "", b"").await.unwrap();
        assert_eq!(status, expected, "{path}");
    }
}

#[tokio::test]
async fn no_token_lies_in_a_nodes_directory() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(1).await;
    let file = world.nodes[0].directory().join("edgecore.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let token = world.cloud().token();
    assert!(
        !text.contains(token) && !text.contains(&jwt(token)),
        "{text}"
    );
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[tokio::test]
async fn no_token_gives_the_name_of_the_api_a_service_or_another_machine() {
    let world = World::new(0).await;
    let (caller, token) = (Caller::anonymous(&world).await, jwt(world.cloud().token()));
    for name in [
        "kubernetes",
        "kubernetes.default.svc",
        "web.shop.svc",
        "localhost",
        "10.96.0.1",
        "127.1",
    ] {
        let (status, said) = caller
            .enrol(&world, &token, name, &Csr::for_node(name).unwrap())
            .await;
        assert_eq!(
            (status, text(&said).contains("choose another name")),
            (409, true),
            "{}",
            text(&said)
        );
    }
}
