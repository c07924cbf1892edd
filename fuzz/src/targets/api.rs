//! The API: bodies, patches and queries, through the service that a server uses.

use std::{future::Future, sync::LazyLock};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kubeapi::{Identity, Registry};
use objectstore::MemoryStore;
use tower::ServiceExt;

use crate::corpus;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::builtin().with_crds(&crds::all()));

const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}"#;
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"nginx:1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"100m","memory":"1Gi"}}}],"tolerations":[{"key":"k","operator":"Exists"}]}}"#;

/// Runs a future that waits only for tasks of this process.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// What kube-apiserver answers with 500 as well: an apply whose fields no schema has.
const UNTYPED: &str = "failed to create typed patch object";

/// Sends requests one after the other to a new API. Each response must be complete and not an internal error.
fn ask(requests: &[(&str, &str, &str, &[u8])]) {
    let api = apiserver::builder(MemoryStore::new())
        .registry(REGISTRY.clone())
        .build();
    wait(async {
        for (method, uri, media_type, body) in requests {
            let request = Request::builder()
                .method(*method)
                .uri(*uri)
                .header("content-type", *media_type);
            // A malformed request never gets this far.
            let Ok(mut request) = request.body(Full::new(Bytes::copy_from_slice(body))) else {
                return;
            };
            request.extensions_mut().insert(Identity::master());
            let answer = api
                .service()
                .oneshot(request)
                .await
                .expect("a service without errors");
            let status = answer.status();
            let body = answer
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            let text = String::from_utf8_lossy(&body);
            assert!(
                status != StatusCode::INTERNAL_SERVER_ERROR || text.contains(UNTYPED),
                "{text}"
            );
        }
    });
}

pub(super) fn json(bytes: &[u8]) {
    for uri in [
        "/api/v1/namespaces",
        PODS,
        "/apis/apps/v1/namespaces/default/deployments",
    ] {
        let first = ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes());
        ask(&[first, ("POST", uri, JSON, bytes)]);
    }
}

pub(super) fn objects() -> Vec<Vec<u8>> {
    let mut all = corpus::texts(&[POD, NAMESPACE]);
    all.extend(corpus::files(
        "kubeapi/src/request/proto/fixtures",
        "deployment.json",
    ));
    all
}

pub(super) fn yaml(bytes: &[u8]) {
    let first = ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes());
    ask(&[first, ("POST", PODS, "application/yaml", bytes)]);
}

pub(super) fn yamls() -> Vec<Vec<u8>> {
    corpus::texts(&[
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  containers:\n  - name: main\n    image: nginx:1\n    args: [\"-c\", 'x', |\n      long\n      ]\n    ports: [{containerPort: 80}]\n",
        "a: &x {b: 1}\nc: *x\nd: 0o17\ne: 0400\nf: .inf\ng: 2001-01-01\n",
    ])
}

pub(super) fn protobuf(bytes: &[u8]) {
    let first = ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes());
    let media_type = "application/vnd.kubernetes.protobuf";
    for uri in [
        "/api/v1/namespaces/default/services",
        "/apis/apps/v1/namespaces/default/deployments",
    ] {
        ask(&[first, ("POST", uri, media_type, bytes)]);
    }
}

pub(super) fn protobufs() -> Vec<Vec<u8>> {
    corpus::files("kubeapi/src/request/proto/fixtures", ".bin")
}

/// Runs a patch; the first byte chooses its kind.
pub(super) fn patch(bytes: &[u8]) {
    let (kind, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let media_type = match kind % 3 {
        0 => "application/json-patch+json",
        1 => "application/merge-patch+json",
        _ => "application/strategic-merge-patch+json",
    };
    ask(&[
        ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes()),
        ("POST", PODS, JSON, POD.as_bytes()),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/web",
            media_type,
            bytes,
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/web/status",
            media_type,
            bytes,
        ),
    ]);
}

pub(super) fn patches() -> Vec<Vec<u8>> {
    corpus::texts(&[
        r#"0[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"remove","path":"/metadata/labels/app"},{"op":"test","path":"/spec/containers/0/name","value":"main"},{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"}]"#,
        r#"1{"metadata":{"labels":{"app":null,"x":"y"}},"spec":{"containers":[]}}"#,
        r#"2{"metadata":{"labels":{"$patch":"replace","x":"y"}},"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"main"}],"containers":[{"name":"main","$patch":"delete"},{"name":"b","image":"x","$retainKeys":["name","image"]}],"$deleteFromPrimitiveList/finalizers":["a"]},"status":{"conditions":[{"type":"Ready","status":"True"}],"podIPs":[{"$patch":"replace"},{"ip":"10.0.0.1"}]}}"#,
    ])
}

pub(super) fn apply(bytes: &[u8]) {
    let (media_type, uri) = (
        "application/apply-patch+yaml",
        "/api/v1/namespaces/default/pods/web?fieldManager=a&force=true",
    );
    let second = "/api/v1/namespaces/default/pods/web?fieldManager=b";
    ask(&[
        ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes()),
        ("PATCH", uri, media_type, POD.as_bytes()),
        ("PATCH", uri, media_type, bytes),
        ("PATCH", second, media_type, bytes),
    ]);
}

pub(super) fn apply_seeds() -> Vec<Vec<u8>> {
    let mut all = corpus::texts(&[
        POD,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","managedFields":[{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}]},"spec":{"containers":[{"name":"main","image":"y"}]}}"#,
    ]);
    all.extend(yamls());
    all
}

/// Runs a query.
pub(super) fn query(bytes: &[u8]) {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .filter(char::is_ascii_graphic)
        .collect();
    let uri = format!("{PODS}?{}", text.replace('#', "%23"));
    ask(&[
        ("POST", "/api/v1/namespaces", JSON, NAMESPACE.as_bytes()),
        ("POST", PODS, JSON, POD.as_bytes()),
        ("GET", &uri, JSON, b""),
        ("DELETE", &uri, JSON, b""),
    ]);
}

pub(super) fn queries() -> Vec<Vec<u8>> {
    corpus::texts(&[
        "labelSelector=app+in+(web,db),!x,y%3D%3Dz,w!%3D1&limit=1",
        "fieldSelector=metadata.name%3Dweb,spec.nodeName!%3Da&limit=500&resourceVersion=0",
        "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ3ZWJcdTAwMDAifQ",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1&dryRun=All&pretty=true&fieldManager=x&propagationPolicy=Orphan",
    ])
}

pub(super) fn definition(bytes: &[u8]) {
    let uri = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&[
        ("POST", uri, "application/yaml", bytes),
        ("GET", "/openapi/v3", JSON, b""),
        ("GET", "/apis", JSON, b""),
    ]);
}

pub(super) fn definitions() -> Vec<Vec<u8>> {
    corpus::files("crds/yaml", ".yaml")
}
