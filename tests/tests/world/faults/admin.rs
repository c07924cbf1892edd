//! The administrators' part of the API: who gets in, and what is shown and ordered there.

use http::{Method, Request};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tests::{Setup, World};

use crate::raw::Caller;

/// A client of the cloud's kubeconfig, over its socket.
async fn client(world: &World) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(world.cloud().kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

async fn ask(client: &Client, method: Method, path: &str, body: Value) -> Result<Value, String> {
    let request = Request::builder()
        .method(method)
        .uri(format!("/cloudsim/v1/{path}"));
    let request = request.body(serde_json::to_vec(&body).unwrap()).unwrap();
    client
        .request(request)
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn only_administrators_get_in() {
    let world = World::new(0).await;
    let api = world.cloud().addresses().api.unwrap();
    for (caller, code) in [
        (Caller::anonymous(&world).await, 401),
        (Caller::node(&world, "edge-1").await, 403),
        (Caller::admin(&world).await, 200),
    ] {
        for path in ["nodes", "faults"] {
            let (status, said) = caller
                .https(api, &format!("/cloudsim/v1/{path}"), "", b"")
                .await
                .unwrap();
            assert_eq!(status, code, "{}", String::from_utf8_lossy(&said));
        }
    }
    let admin = Caller::admin(&world).await;
    let masked = admin
        .https(
            api,
            "/cloudsim/v1/faults",
            "Impersonate-User: system:node:edge-1\r\n",
            b"",
        )
        .await;
    assert_eq!(
        masked.unwrap().0,
        403,
        "whoever acts as another has that one's rights"
    );
}

#[tokio::test]
async fn sessions_are_listed_and_faults_are_ordered() {
    let world = World::with(Setup {
        hubs: 2,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    let client = client(&world).await;
    let nodes = ask(&client, Method::GET, "nodes", json!(null))
        .await
        .unwrap();
    let node = &nodes["nodes"][0];
    assert_eq!(
        (&node["node"], &node["transport"]),
        (&json!("edge-1"), &json!("WebSocket"))
    );
    assert!(
        node["received"]["messages"].as_u64() > Some(1) && node["sent"]["bytes"].as_u64() > Some(1),
        "{node}"
    );

    let conditions = json!({"profile": "Satellite", "delay": "1s"});
    let wrong = ask(&client, Method::PUT, "faults/edge-1", conditions.clone())
        .await
        .unwrap();
    assert_eq!(wrong["faults"][0]["delay"], conditions["delay"]);
    let refused = ask(&client, Method::PUT, "faults/edge-1", json!({"drop": 2}))
        .await
        .unwrap_err();
    assert!(refused.contains("from 0 to 1"), "{refused}");
    ask(
        &client,
        Method::PUT,
        "faults/edge-1",
        json!({"link": "cut"}),
    )
    .await
    .unwrap();
    world.until_connected(0, false).await;
    assert_eq!(
        ask(&client, Method::GET, "nodes", json!(null))
            .await
            .unwrap(),
        json!({"nodes": []})
    );
    let nobody = ask(
        &client,
        Method::POST,
        "hostile/edge-1",
        json!({"shape": "null"}),
    )
    .await
    .unwrap_err();
    assert!(nobody.contains("is not connected"), "{nobody}");
    let rest = ask(&client, Method::DELETE, "faults", json!(null))
        .await
        .unwrap();
    assert_eq!(
        (&rest["faults"], &rest["certificate"]),
        (&json!([]), &json!("genuine"))
    );
    world.until_connected(0, true).await;
    tests::within("a session", async {
        while ask(
            &client,
            Method::POST,
            "hostile/edge-1",
            json!({"shape": "null-parts"}),
        )
        .await
        .is_err()
        {}
    })
    .await;
    let shown = ask(
        &client,
        Method::PUT,
        "certificate",
        json!({"certificate": "rotatedAuthority"}),
    )
    .await
    .unwrap();
    assert!(
        shown["token"]
            .as_str()
            .is_some_and(|token| token.len() > 64),
        "{shown}"
    );
    world.until_connected(0, false).await;
}
