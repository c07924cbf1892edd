//! `metrics.k8s.io` behind the API server of a cluster, which forwards requests for it (an APIService). The API server identifies itself by
//! a certificate of its front proxy, and names the user in headers; what the user may do is asked of the cluster.
//!
//! Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use k8s_openapi::api::{authentication::v1::UserInfo, authorization::v1::ResourceAttributes};
use kube::Client;
use kubeapi::{Api, Body, Identity, Registry, serve::Handler};
use objectstore::MemoryStore;
use serde_json::json;
use tower::ServiceExt;

use super::{ResourceMetrics, objects::GROUP};
use crate::reviews::is_granted;

/// The header with the user.
const USER_HEADER: &str = "x-remote-user";
/// The headers with the user's groups.
const GROUP_HEADER: &str = "x-remote-group";
/// The group with all rights.
const MASTERS: &str = "system:masters";

/// Returns the common names that a front proxy may have; if there is none, any.
type ProxyNames = Arc<dyn Fn() -> Arc<[String]> + Send + Sync>;

/// The API as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct AggregatedApi {
    api: Api,
    client: Client,
    names: ProxyNames,
}

/// A refusal: status, reason and message.
type Refusal = (StatusCode, &'static str, String);

impl AggregatedApi {
    /// Serves `metrics`. TLS has verified that clients have a certificate of the front proxy's CA.
    pub(crate) fn new(
        metrics: &ResourceMetrics,
        client: Client,
        names: impl Fn() -> Arc<[String]> + Send + Sync + 'static,
    ) -> Self {
        // the computed kinds alone are reached
        let api = Api::builder(MemoryStore::new())
            .registry(Registry::builtin())
            .computed(Arc::new(metrics.clone()))
            .build();
        let names = Arc::new(names);
        Self { api, client, names }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let proxy = request.extensions().get::<Identity>();
        let names = (self.names)();
        let is_proxy = |proxy: &Identity| names.is_empty() || names.contains(&proxy.user);
        if !proxy.is_some_and(is_proxy) {
            let why = "only the API server of the cluster may call; its certificate is not among requestheader-allowed-names";
            return Err((StatusCode::FORBIDDEN, "Forbidden", why.to_owned()));
        }
        let user = user(request.headers()).ok_or_else(|| {
            let why = format!("the header {USER_HEADER} names no user");
            (StatusCode::UNAUTHORIZED, "Unauthorized", why)
        })?;
        let place = Place::parse(request.uri().path())
            .filter(|_| request.method() == Method::GET)
            .ok_or_else(|| {
                let why = format!("only {GROUP} is served here, for reading");
                (StatusCode::NOT_FOUND, "NotFound", why)
            })?;
        if let Place::Objects(attributes) = place {
            self.permit(&user, *attributes).await?;
        }
        request.extensions_mut().insert(Identity::master());
        Ok(self
            .api
            .service()
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {}))
    }

    async fn permit(&self, user: &UserInfo, attributes: ResourceAttributes) -> Result<(), Refusal> {
        let groups = user.groups.iter().flatten();
        if groups.into_iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let what = format!(
            "{} {}.{GROUP}",
            attributes.verb.as_deref().unwrap_or_default(),
            attributes.resource.as_deref().unwrap_or_default()
        );
        match is_granted(&self.client, user, attributes).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let user = user.username.as_deref().unwrap_or_default();
                let why = format!("{user} may not {what}; bind a role to it");
                Err((StatusCode::FORBIDDEN, "Forbidden", why))
            }
            Err(error) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err((status, "ServiceUnavailable", error.to_string()))
            }
        }
    }
}

/// What a path is about.
#[derive(Debug, PartialEq)]
enum Place {
    /// The kinds that are served.
    Discovery,
    /// Objects.
    Objects(Box<ResourceAttributes>),
}

impl Place {
    fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix("/apis/")?.split('/').collect();
        let (group, parts) = parts.split_first()?;
        if *group != GROUP {
            return None;
        }
        let (namespace, resource, name) = match *parts {
            [] | [_] => return Some(Self::Discovery),
            [_, resource @ ("nodes" | "pods")] => (None, resource, None),
            [_, resource @ "nodes", name] => (None, resource, Some(name)),
            [_, "namespaces", namespace, resource @ "pods"] => (Some(namespace), resource, None),
            [_, "namespaces", namespace, resource @ "pods", name] => {
                (Some(namespace), resource, Some(name))
            }
            _ => return None,
        };
        let verb = if name.is_some() { "get" } else { "list" };
        Some(Self::Objects(Box::new(ResourceAttributes {
            group: Some(GROUP.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        })))
    }
}

/// Returns the user whom the front proxy names.
fn user(headers: &HeaderMap) -> Option<UserInfo> {
    let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
    let username = headers.get(USER_HEADER).and_then(text)?;
    let groups = headers.get_all(GROUP_HEADER).iter().filter_map(text);
    (!username.is_empty()).then(|| UserInfo {
        username: Some(username),
        groups: Some(groups.collect()),
        ..UserInfo::default()
    })
}

impl Handler for AggregatedApi {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        let answered = self.answer(request).await;
        answered.unwrap_or_else(|(status, reason, message)| {
            let status_object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": status.as_u16()});
            let body = Full::new(Bytes::from(status_object.to_string()));
            let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = status;
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                http::HeaderValue::from_static("application/json"),
            );
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metrics_are_reached() {
        let objects = |path: &str| match Place::parse(path)? {
            Place::Discovery => Some([
                "discovery".to_owned(),
                String::new(),
                String::new(),
                String::new(),
            ]),
            Place::Objects(of) => {
                Some([of.verb, of.resource, of.namespace, of.name].map(Option::unwrap_or_default))
            }
        };
        for (path, expected) in [
            ("/apis/metrics.k8s.io", Some(["discovery", "", "", ""])),
            (
                "/apis/metrics.k8s.io/v1beta1",
                Some(["discovery", "", "", ""]),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/nodes",
                Some(["list", "nodes", "", ""]),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/nodes/edge-1",
                Some(["get", "nodes", "", "edge-1"]),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/pods",
                Some(["list", "pods", "", ""]),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods",
                Some(["list", "pods", "a", ""]),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b",
                Some(["get", "pods", "a", "b"]),
            ),
            ("/apis/metrics.k8s.io/v1beta1/secrets", None),
            ("/apis/metrics.k8s.iox/v1/nodes", None),
            ("/apis", None),
            ("/api/v1/secrets", None),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/secrets", None),
        ] {
            assert_eq!(
                objects(path),
                expected.map(|all| all.map(str::to_owned)),
                "{path}"
            );
        }
    }
}
