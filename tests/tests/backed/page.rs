//! The live page before the API server of a cluster: users log in with tokens, and have the permissions of their tokens.

use std::net::SocketAddr;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use tests::{World, manifests::pod};

use crate::raw::Caller;

const PAGE: &str = "X-Cloudsim-Page: 1\r\n";

/// Creates an account and returns a token for it.
async fn token(world: &World, name: &str) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
    world.apply(&account).await;
    let accounts = Api::<ServiceAccount>::namespaced(world.client(), "default");
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let parameters = PostParams::default();
    let created = accounts.create_token_request(name, &parameters, &request);
    created.await.unwrap().status.unwrap().token
}

/// Lets an account read pods, and the messages if `all`.
async fn grant(world: &World, name: &str, all: bool) {
    let mut rules =
        vec![json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]})];
    if all {
        rules.push(
            json!({"nonResourceURLs": ["/cloudsim/v1/*"], "verbs": ["get", "post", "delete"]}),
        );
    }
    let rbac = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let (mut role, mut binding) = (rbac("ClusterRole"), rbac("ClusterRoleBinding"));
    role["rules"] = json!(rules);
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": name, "namespace": "default"}]);
    world.apply(&role).await;
    world.apply(&binding).await;
}

/// A browser with a session.
struct Browser<'a> {
    caller: &'a Caller,
    address: SocketAddr,
    cookie: String,
}

impl Browser<'_> {
    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, b"").await
    }

    async fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let headers = format!(
            "{PAGE}Cookie: {}\r\nOrigin: https://localhost\r\nContent-Type: application/json\r\n",
            self.cookie
        );
        let answer = self
            .caller
            .exchange(self.address, (method, path), &headers, body);
        let (status, _, body) = answer.await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// Logs in as the page does.
async fn login<'a>(caller: &'a Caller, address: SocketAddr, token: &str) -> Browser<'a> {
    let headers = format!("{PAGE}Authorization: Bearer {token}\r\n");
    let login = ("POST", "/cloudsim/v1/login");
    let (status, _, body) = caller
        .exchange(address, login, &headers, b"{}")
        .await
        .unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let url: Value = serde_json::from_slice(&body).unwrap();
    let path = url["url"]
        .as_str()
        .unwrap()
        .replacen("https://localhost", "", 1);
    let (status, head, _) = caller
        .exchange(address, ("GET", &path), "", b"")
        .await
        .unwrap();
    assert_eq!(status, 303, "{head}");
    assert!(!head.contains(token), "{head}");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.unwrap().split(';').next().unwrap().to_owned();
    Browser {
        caller,
        address,
        cookie,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_the_page_have_the_permissions_of_their_tokens() {
    let world = World::new(1).await;
    world.run(&pod("web", Some("edge-1"))).await;
    let address = world.cloud().addresses().page.unwrap();
    let anonymous = Caller::anonymous(&world).await;
    let (status, _) = anonymous.https(address, "/ui/", "", b"").await.unwrap();
    assert_eq!(status, 200);
    for path in ["/api/v1/pods", "/cloudsim/v1/nodes"] {
        let (status, _) = anonymous.https(address, path, "", b"").await.unwrap();
        assert_eq!(status, 401, "{path}");
    }
    // a certificate of a node identifies nobody here
    let node = Caller::node(&world, "edge-2").await;
    let (status, _) = node
        .https(address, "/api/v1/pods", PAGE, b"")
        .await
        .unwrap();
    assert_eq!(status, 401);
    let wrong = "Authorization: Bearer wrong\r\n";
    for path in ["/api/v1/pods", "/cloudsim/v1/nodes"] {
        let (status, _) = anonymous.https(address, path, wrong, b"").await.unwrap();
        assert_eq!(status, 401, "{path}");
    }

    let tokens = [("operator", true), ("reader", false)];
    for (name, all) in tokens {
        let token = token(&world, name).await;
        grant(&world, name, all).await;
        let browser = login(&anonymous, address, &token).await;
        let (status, pods) = browser.get("/api/v1/pods").await;
        assert_eq!(
            (status, pods["kind"].as_str()),
            (200, Some("PodList")),
            "{pods}"
        );
        assert_eq!(browser.get("/api/v1/secrets").await.0, 403);
        let allowed = if all { 200 } else { 403 };
        let (status, nodes) = browser.get("/cloudsim/v1/nodes").await;
        assert_eq!(status, allowed, "{nodes}");
        assert_eq!(
            nodes["nodes"][0]["node"].as_str(),
            all.then_some("edge-1"),
            "{nodes}"
        );
        let fault = json!({"delay": "1ms"}).to_string();
        let (status, _) = browser
            .send("POST", "/cloudsim/v1/faults/edge-1", fault.as_bytes())
            .await;
        assert_eq!(status, allowed);
        // the steps are read with the user's token, who may not read nodes
        let (status, steps) = browser.get("/cloudsim/v1/why/pods/default/web").await;
        assert!(status == 200 || status == 403, "{status} {steps}");
        // the cookie alone, as another site would make a browser send it
        let cookie = format!("Cookie: {}\r\n", browser.cookie);
        let (status, _) = anonymous
            .https(address, "/api/v1/pods", &cookie, b"")
            .await
            .unwrap();
        assert_eq!(status, 401);
        // a session would outlive its token
        let again = browser.send("POST", "/cloudsim/v1/login", b"").await;
        assert_eq!(again.0, 403, "{}", again.1);
        assert_eq!(browser.send("POST", "/ui/logout", b"").await.0, 200);
        assert_eq!(browser.get("/api/v1/pods").await.0, 401);
    }
}
