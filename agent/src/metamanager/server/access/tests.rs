//! Callers and their permissions on a disconnected node with one pod whose account the cloud has granted something.

use std::{path::PathBuf, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Request;
use objectstore::{MemoryStore, Store};
use wire::application::Target;

use super::*;
use crate::edgehub;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Returns a hub without a cloud.
pub(in super::super) fn hub() -> edgehub::EdgeHub {
    let config = edgehub::Config {
        node_name: "edge-1".into(),
        transport: crate::config::Transport::WebSocket,
        servers: Vec::new(),
        http_servers: Vec::new(),
        proxy: edgehub::Proxy::default(),
        token: None,
        project_id: "p".into(),
        in_process: None,
        ca_file: PathBuf::new(),
        cert_file: PathBuf::new(),
        key_file: PathBuf::new(),
        rotate_certificates: false,
        heartbeat: std::time::Duration::from_secs(15),
        handshake_timeout: std::time::Duration::from_secs(1),
        write_deadline: std::time::Duration::from_secs(1),
        qps: 0,
        burst: 0,
        max_message: 1024,
        recorder: Default::default(),
    };
    edgehub::new(config).0
}

fn claims(account: &str, expires: i64) -> Value {
    json!({
        "iss": ISSUER, "aud": [ISSUER], "exp": expires, "nbf": 1,
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": account, "uid": "a"}, "pod": {"name": "web", "uid": "u1"}},
    })
}

fn unsigned_token(claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.{signature}",
        part(&json!({"alg": "ES256"})),
        part(claims)
    )
}

fn soon() -> i64 {
    clock::now().as_second() + 600
}

/// Returns the objects that this node stores.
pub(in super::super) async fn own() -> Desired {
    let store: Arc<dyn Store> = MemoryStore::new();
    let own = Desired::new(store, "edge-1".into());
    fill(&own).await;
    own
}

/// Stores and returns a token of `robot` that the cloud gave to this node.
pub(in super::super) async fn held_token(own: &Desired) -> String {
    let token = unsigned_token(&claims("robot", soon()), "AAAA");
    holds(own, "held", &token).await;
    token
}

/// Stores a pod, and what its account may do.
pub(in super::super) async fn fill(own: &Desired) {
    let pod = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u1"}});
    own.set(
        &Key::new(resource(&ResourceType::Pod), "ns", "web"),
        Some(pod),
    )
    .await
    .unwrap();
    let access = json!({
        "apiVersion": "policy.kubeedge.io/v1alpha1", "kind": "ServiceAccountAccess",
        "metadata": {"name": "robot", "namespace": "ns"},
        "spec": {
            "serviceAccount": {"metadata": {"name": "robot", "namespace": "ns"}},
            "accessClusterRoleBinding": [{"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}],
            "accessRoleBinding": [{
                "roleBinding": {"metadata": {"name": "b", "namespace": "ns"}, "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "update"]}],
            }],
        },
    });
    let key = Key::new(resource(&ResourceType::ServiceAccountAccess), "ns", "robot");
    own.set(&key, Some(access)).await.unwrap();
}

async fn holds(own: &Desired, name: &str, token: &str) {
    let key = Key::new(
        Resource::new("kubeedge.io", "serviceaccounttokens"),
        "ns",
        name,
    );
    let entry = json!({"metadata": {"name": name, "namespace": "ns"}, "token": {"status": {"token": token}}});
    own.set(&key, Some(entry)).await.unwrap();
}

/// Returns the access control over these objects.
pub(in super::super) fn access(own: &Desired, key_files: Vec<PathBuf>) -> Access {
    let rules = TokenRules {
        issuers: vec![ISSUER.to_owned()],
        audiences: Vec::new(),
        key_files,
    };
    let hub = hub();
    Access::new("edge-1", own.clone(), Cloud::new("edge-1", hub), rules).unwrap()
}

async fn caller(access: &Access, authorization: Option<&str>) -> Option<Caller> {
    let mut request = Request::get("/api/v1/nodes");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    access
        .caller(&request.body(()).unwrap().into_parts().0)
        .await
        .ok()
}

#[tokio::test]
async fn without_keys_a_token_is_good_that_the_cloud_gave_to_this_node() {
    let own = own().await;
    let held = unsigned_token(&claims("robot", soon()), "AAAA");
    let old = unsigned_token(&claims("robot", 1000), "AAAA");
    let other_pod = {
        let mut claims = claims("robot", soon());
        claims["kubernetes.io"]["pod"]["uid"] = "u2".into();
        unsigned_token(&claims, "AAAA")
    };
    let elsewhere = {
        let mut claims = claims("robot", soon());
        claims["iss"] = "https://elsewhere".into();
        unsigned_token(&claims, "AAAA")
    };
    for (name, token) in [
        ("held", &held),
        ("old", &old),
        ("other", &other_pod),
        ("elsewhere", &elsewhere),
    ] {
        holds(&own, name, token).await;
    }
    let access = access(&own, Vec::new());
    let robot = Some(Caller::Account("ns".into(), "robot".into()));
    let forged = unsigned_token(&claims("admin", soon()), "AAAA");
    let rows = [
        (None, Some(Caller::Anonymous)),
        (Some(format!("Bearer {held}")), robot.clone()),
        // while the cloud is not connected, the pod cannot get a newer token
        (Some(format!("bearer {old}")), robot),
        (Some(format!("Bearer {forged}")), None),
        (Some(format!("Bearer {other_pod}")), None),
        (Some(format!("Bearer {elsewhere}")), None),
        (Some("Bearer nonsense".into()), None),
        (Some("Basic YTpi".into()), None),
    ];
    for (authorization, expected) in rows {
        assert_eq!(
            caller(&access, authorization.as_deref()).await,
            expected,
            "{authorization:?}"
        );
    }
}

#[tokio::test]
async fn with_keys_a_token_is_good_that_one_of_them_has_signed() {
    let own = own().await;
    let directory = tempfile::tempdir().unwrap();
    let (key, other) = (
        wire::enroll::EcKey::generate().unwrap(),
        wire::enroll::EcKey::generate().unwrap(),
    );
    let file = directory.path().join("sa.pub");
    std::fs::write(&file, public_pem(key.public_key())).unwrap();
    let access = access(&own, vec![file]);
    let signed = key.sign_es256(&claims("robot", soon())).unwrap();
    let robot = Some(Caller::Account("ns".into(), "robot".into()));
    assert_eq!(
        caller(&access, Some(&format!("Bearer {signed}"))).await,
        robot
    );
    let changed = format!("{}.AAAA", signed.rsplit_once('.').unwrap().0);
    let held = unsigned_token(&claims("robot", soon()), "AAAA");
    holds(&own, "held", &held).await;
    for bad in [
        other.sign_es256(&claims("robot", soon())).unwrap(),
        changed,
        held,
        key.sign_es256(&claims("robot", 1000)).unwrap(),
    ] {
        assert_eq!(
            caller(&access, Some(&format!("Bearer {bad}"))).await,
            None,
            "{bad}"
        );
    }
    std::fs::write(directory.path().join("none"), "no key").unwrap();
    assert!(Keys::read(&[directory.path().join("none")]).is_err());
    assert!(Keys::read(&[directory.path().join("missing")]).is_err());
}

/// Encodes the point as a SubjectPublicKeyInfo of P-256.
fn public_pem(point: &[u8]) -> String {
    let mut der = vec![
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    ];
    der.extend([
        0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]);
    der.extend(point);
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

#[tokio::test]
async fn callers_may_do_what_the_cloud_has_granted() {
    let access = access(&own().await, Vec::new());
    let ask = |verb: Verb, key: &str, part: &str| ObjectRequest {
        target: Target::parse(key).unwrap(),
        part: part.into(),
        verb,
    };
    let account = |name: &str| Caller::Account("ns".into(), name.into());
    let maps = "/core/v1/configmaps/ns/null";
    let rows = [
        (
            Caller::Owner,
            ask(Verb::Delete, "/core/v1/nodes/null/edge-1", ""),
            true,
        ),
        (
            Caller::Anonymous,
            ask(Verb::Get, "/core/v1/nodes/null/edge-1", ""),
            false,
        ),
        (
            Caller::Other("system:node:edge-2".into()),
            ask(Verb::List, maps, ""),
            false,
        ),
        (
            account("robot"),
            ask(Verb::Get, "/core/v1/nodes/null/edge-1", ""),
            true,
        ),
        (
            account("robot"),
            ask(Verb::List, "/core/v1/nodes/null/null", ""),
            false,
        ),
        (account("robot"), ask(Verb::List, maps, ""), true),
        (
            account("robot"),
            ask(Verb::List, "/core/v1/configmaps/other/null", ""),
            false,
        ),
        (
            account("robot"),
            ask(Verb::List, "/core/v1/configmaps/null/null", ""),
            false,
        ),
        (
            account("robot"),
            ask(Verb::Update, "/core/v1/configmaps/ns/m", ""),
            true,
        ),
        (
            account("robot"),
            ask(Verb::UpdateStatus, "/core/v1/configmaps/ns/m", "status"),
            false,
        ),
        (
            account("robot"),
            ask(Verb::List, "/core/v1/secrets/ns/null", ""),
            false,
        ),
        (account("nobody"), ask(Verb::List, maps, ""), false),
    ];
    for (caller, ask, expected) in rows {
        assert_eq!(
            access.check(&caller, &ask).await.is_ok(),
            expected,
            "{caller:?} {ask:?}"
        );
    }
}

#[tokio::test]
async fn certificates_authenticate_callers() {
    let access = access(&own().await, Vec::new());
    let of = async |user: &str, group: &str| {
        let identity = Identity::new(user, [group]);
        let (mut parts, ()) = Request::get("/").body(()).unwrap().into_parts();
        parts.extensions.insert(identity);
        access.caller(&parts).await.unwrap()
    };
    assert_eq!(
        of("system:node:edge-1", "system:nodes").await,
        Caller::Owner
    );
    assert_eq!(of("admin", "system:masters").await, Caller::Owner);
    assert_eq!(
        of("system:node:edge-2", "system:nodes").await,
        Caller::Other("system:node:edge-2".into())
    );
}
