//! An API to send requests to, and what to expect of its answers.

use std::{sync::Arc, time::Duration};

use apiserver::{BoundKind, BoundObject, TokenError, TokenGrant, TokenIssuer, VerifiedToken};
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::{
    api::authentication::v1::TokenRequestStatus,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kubeapi::{Api, Body, Identity, Registry};
use objectstore::{MemoryStore, Store};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::requests::http_request;

/// Where configmaps of the namespace `default` stand.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Where pods of the namespace `default` stand.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
/// Where widgets of the namespace `default` stand.
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// An API and who calls it.
pub(crate) struct World {
    pub(crate) api: Api,
    caller: Option<Identity>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Knows one kind of service account.
pub(crate) struct Issuer;

#[async_trait]
impl TokenIssuer for Issuer {
    async fn issue(&self, grant: &TokenGrant) -> Result<TokenRequestStatus, TokenError> {
        let TokenGrant {
            namespace,
            name,
            uid,
            audiences,
            lifetime,
            bound,
            ..
        } = grant;
        match name.as_str() {
            "failing" => Err(TokenError::Failed("the key is gone".into())),
            _ if audiences.contains(&"other".to_owned()) => {
                Err(TokenError::Refused("no tokens for other".into()))
            }
            _ => Ok(TokenRequestStatus {
                token: match bound {
                    None => format!("{namespace}/{name}/{uid}/{}", lifetime.as_secs()),
                    Some(BoundObject {
                        kind,
                        name: of,
                        uid: its,
                    }) => {
                        format!(
                            "{namespace}/{name}/{uid}/{}/{}/{of}/{its}",
                            lifetime.as_secs(),
                            kind.kind()
                        )
                    }
                },
                expiration_timestamp: Time("2025-06-01T12:00:00Z".parse().unwrap()),
            }),
        }
    }

    fn max_lifetime(&self) -> Option<Duration> {
        Some(Duration::from_secs(86_400))
    }

    fn published_keys(&self) -> Option<apiserver::PublishedKeys> {
        Some(apiserver::PublishedKeys {
            issuer: "https://issuer",
            algorithm: "ES256",
            keys: vec![json!({"kid": "1"})],
        })
    }

    /// Tokens of tests read `namespace/name/uid`, or `namespace/name/uid/seconds/kind/name/uid`.
    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError> {
        let mut parts = token.split('/').map(str::to_owned);
        let refused = || TokenError::Refused("invalid bearer token".into());
        let mut next = || parts.next().ok_or_else(refused);
        let (namespace, name, uid) = (next()?, next()?, next()?);
        let _seconds = next();
        let bound = next().ok().map(|kind| {
            let kind = BoundKind::ALL
                .into_iter()
                .find(|known| known.kind() == kind)
                .ok_or_else(refused)?;
            Ok(BoundObject {
                kind,
                name: next()?,
                uid: next()?,
            })
        });
        let (bound, audiences) = (bound.transpose()?, audiences.to_vec());
        Ok(VerifiedToken {
            namespace,
            name,
            uid,
            bound,
            node: None,
            id: None,
            audiences,
        })
    }
}

/// Kinds as a definition describes them: widgets have a `status` apart, gadgets have not, and stand in no namespace.
pub(crate) fn registry() -> Registry {
    let definition = |plural: &str,
                      kind: &str,
                      scope: &str,
                      subresources: Value|
     -> CustomResourceDefinition {
        let size = json!({"type": "integer", "minimum": 1});
        let spec =
            json!({"type": "object", "properties": {"size": size, "color": {"type": "string"}}});
        let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
        serde_json::from_value(json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": scope,
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "shortNames": [&plural[..2]]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                }],
            },
        }))
        .unwrap()
    };
    Registry::builtin().with_crds(&[
        definition("widgets", "Widget", "Namespaced", json!({"status": {}})),
        definition("gadgets", "Gadget", "Cluster", json!({})),
    ])
}

impl World {
    /// A full API with the namespaces `default` and `other`.
    pub(crate) async fn new() -> Self {
        Self::over(MemoryStore::new()).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        let api = apiserver::builder(store)
            .registry(registry())
            .token_issuer(Arc::new(Issuer))
            .build();
        let world = Self {
            api,
            caller: Some(Identity::master()),
        };
        for name in ["default", "other"] {
            world
                .expect("POST /api/v1/namespaces", named_map(name), 201, json!({}))
                .await;
        }
        world
    }

    /// One that enforces its roles, with the namespaces `default` and `other`.
    pub(crate) async fn strict() -> Self {
        let api = apiserver::builder(MemoryStore::new())
            .token_issuer(Arc::new(Issuer))
            .rbac(true)
            .build();
        let world = Self::around(api);
        for name in ["default", "other"] {
            world.create("/api/v1/namespaces", named_map(name)).await;
        }
        world
    }

    /// An API of the test's own.
    pub(crate) fn around(api: Api) -> Self {
        Self {
            api,
            caller: Some(Identity::master()),
        }
    }

    /// A cache of what another API admitted.
    pub(crate) fn relay() -> Self {
        let api = Api::builder(MemoryStore::new())
            .registry(registry())
            .build();
        Self {
            api,
            caller: Some(Identity::master()),
        }
    }

    pub(crate) fn called_by(&self, caller: Option<Identity>) -> Self {
        Self {
            api: self.api.clone(),
            caller,
        }
    }

    /// Sends a request in the form of [`http_request`].
    async fn begin(&self, request: &str, body: &Value) -> http::Response<Body> {
        let mut request = http_request(request, body).map(Full::new);
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        self.api.service().oneshot(request).await.unwrap()
    }

    /// The headers and bytes of an answer.
    pub(crate) async fn bytes(&self, request: &str) -> (HeaderMap, Bytes) {
        let (parts, body) = self.begin(request, &Value::Null).await.into_parts();
        (parts.headers, body.collect().await.unwrap().to_bytes())
    }

    pub(crate) async fn send(&self, request: &str, body: Value) -> Answer {
        let (parts, body) = self.begin(request, &body).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer {
            code: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request whose answer must have this code and hold what `expected` holds.
    pub(crate) async fn expect(
        &self,
        request: &str,
        body: Value,
        code: u16,
        expected: Value,
    ) -> Value {
        let answer = self.send(request, body).await;
        assert_eq!(answer.code, code, "{request}: {}", answer.body);
        if let Some(difference) = lacks(&answer.body, &expected, "") {
            panic!("{request}: {difference}\n{:#}", answer.body);
        }
        answer.body
    }

    /// A row of a table: request, body, code and what the answer holds.
    pub(crate) async fn expect_all(&self, rows: Vec<(&str, Value, u16, Value)>) {
        for (request, body, code, expected) in rows {
            self.expect(request, body, code, expected).await;
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.send(&format!("GET {path}"), Value::Null).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Creates an object in the collection at `path`.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.expect(&format!("POST {path}"), object, 201, json!({}))
            .await
    }

    /// A watch, whose answer begins at once.
    pub(crate) async fn watch(&self, request: &str) -> Lines {
        let response = self.begin(&format!("GET {request}"), &Value::Null).await;
        assert_eq!(response.status(), 200, "{request}");
        Lines {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }
}

/// The lines of a watch.
pub(crate) struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next line, waited for; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// The lines that are there already, each as `TYPE name`.
    pub(crate) fn ready(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(Some(line)) = self.next().now_or_never() {
            lines.push(short(&line));
        }
        lines
    }
}

/// `TYPE name`, or `ERROR code reason`.
fn short(line: &Value) -> String {
    let text = |pointer: &str| {
        line.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let what = match &line["object"]["code"] {
        Value::Null => text("/object/metadata/name"),
        code => format!("{code} {}", text("/object/reason")),
    };
    format!("{} {what}", text("/type")).trim_end().to_owned()
}

/// Where `found` does not hold what `wanted` holds: objects may hold more, all else must be equal. `null` stands for absence.
pub(crate) fn lacks(found: &Value, wanted: &Value, path: &str) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().find_map(|(name, value)| {
            lacks(
                found.get(name).unwrap_or(&Value::Null),
                value,
                &format!("{path}/{name}"),
            )
        }),
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            let pairs = found.iter().zip(wanted).enumerate();
            pairs.into_iter().find_map(|(index, (found, wanted))| {
                lacks(found, wanted, &format!("{path}/{index}"))
            })
        }
        _ if found == wanted => None,
        _ => Some(format!("{path} is {found}, not {wanted}")),
    }
}

pub(crate) fn named_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A configmap with the label `app`.
pub(crate) fn labelled_map(name: &str, app: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": app}}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}})
}

pub(crate) fn pod_on(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

pub(crate) fn widget(name: &str, size: i64) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size},
    })
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// A refusal with this reason and message.
pub(crate) fn refusal(reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message})
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}
