//! The endpoint through which an external API server reaches kubelets, CloudCore's stream server (port 10003): it acts as the kubelet of
//! every node and forwards requests through the nodes' tunnels.
//!
//! The API server calls it with a client certificate of the given CA (kubelets have `--client-ca-file` for that) and one of the given
//! names. Nodes' certificates are never accepted. Clients with a token read metrics ([`Scrapers`]).

use std::sync::Arc;

use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kubeapi::{Body, Identity, serve::Handler};
use wire::{
    enroll::is_node_name,
    names::{is_dns_label, is_path_segment},
};

use super::{
    ClientCa, ClusterTunnels, StreamService,
    deliver::{NODES_PATH, Refusal, deliver, refusal},
    scrapers::{Scrapers, token_and_subresource},
};

/// The header in which an API server names the path of the original request.
const FORWARDED_URI: &str = "x-forwarded-uri";
/// The group with all rights.
const MASTERS: &str = "system:masters";

/// The port, and the clients that may connect.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// The port; 0 for any free one.
    pub port: u16,
    /// The CA of the API server's client certificate.
    pub client_ca: ClientCa,
    /// The accepted common names; other clients must be in `system:masters`.
    pub client_names: Vec<String>,
    /// The Service whose address is published in the status of all nodes; `None` to publish only the port.
    pub service: Option<StreamService>,
}

/// The kubelets of all nodes as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Kubelets {
    client: Client,
    tunnels: ClusterTunnels,
    names: Arc<[String]>,
    scrapers: Scrapers,
}

impl Kubelets {
    /// Creates the service; pods are looked up through `client`.
    pub(crate) fn new(client: Client, tunnels: ClusterTunnels, names: &[String]) -> Self {
        Self {
            scrapers: Scrapers::new(client.clone()),
            client,
            tunnels,
            names: names.into(),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let (named, path) = match named_node(path) {
            Some((node, path)) => (Some(node.to_owned()), path.to_owned()),
            None => (None, path.to_owned()),
        };
        // before any node or pod is looked up
        let scraped = match request.extensions().get::<Identity>() {
            Some(identity) => {
                self.permit(identity)?;
                None
            }
            None => {
                let page = path.split('?').next().unwrap_or_default();
                let asked = (request.method(), page);
                Some(token_and_subresource(request.headers(), asked)?)
            }
        };
        let node = match named {
            Some(node) => node,
            None => {
                let host = request.uri().host();
                self.node(request.uri().path(), host, request.headers())
                    .await?
            }
        };
        if let Some((token, subresource)) = scraped {
            self.scrapers.permit(token, subresource, &node).await?;
        }
        deliver(&self.tunnels, &node, path, request).await
    }

    fn permit(&self, identity: &Identity) -> Result<(), Refusal> {
        let is_master = identity.groups.iter().any(|group| group == MASTERS);
        if is_master || self.names.contains(&identity.user) {
            return Ok(());
        }
        let why = format!(
            "{} is not among the names of --stream-client-name, and not in {MASTERS}",
            identity.user
        );
        Err((StatusCode::FORBIDDEN, why))
    }

    /// Returns the node whose kubelet is meant: that of the pod, or the node by whose name the server was reached.
    async fn node(
        &self,
        path: &str,
        host: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<String, Refusal> {
        let parts: Vec<&str> = path.split('/').collect();
        if let [
            "",
            "containerLogs" | "exec" | "attach" | "portForward",
            namespace,
            pod,
            ..,
        ] = parts[..]
        {
            return self.node_of(namespace, pod).await;
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(node) = header(FORWARDED_URI).and_then(node_name) {
            return Ok(node.to_owned());
        }
        let host = host
            .or_else(|| header(header::HOST.as_str()).map(without_port))
            .unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if self.tunnels.has(host).await {
            return Ok(host.to_owned());
        }
        self.tunnels.at(host).await.ok_or_else(|| {
            let why = format!("no node, or more than one, has the address {host:?}; use a path of a pod, or {FORWARDED_URI}");
            (StatusCode::NOT_FOUND, why)
        })
    }

    async fn node_of(&self, namespace: &str, name: &str) -> Result<String, Refusal> {
        // parts of the API's URL, which nothing encodes
        if !is_dns_label(namespace) || !is_path_segment(name) {
            return Err((
                StatusCode::BAD_REQUEST,
                "the path names no pod that can be".to_owned(),
            ));
        }
        let found = Api::<Pod>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await;
        let found = found.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?;
        let node = found
            .and_then(|pod| pod.spec?.node_name)
            .filter(|node| !node.is_empty());
        node.ok_or_else(|| {
            (
                StatusCode::NOT_FOUND,
                format!("pod {namespace}/{name} does not exist, or is on no node"),
            )
        })
    }
}

/// Returns the node and the kubelet's path in `/nodes/NODE/PATH`.
fn named_node(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(NODES_PATH)?;
    let (node, path) = rest.split_at(rest.find('/')?);
    is_node_name(node).then_some((node, path))
}

/// Returns the node in `/api/v1/nodes/NODE/proxy/…`.
fn node_name(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("/api/v1/nodes/")?;
    rest.split('/')
        .next()
        .map(|node| node.split(':').next().unwrap_or(node))
        .filter(|node| !node.is_empty())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

impl Handler for Kubelets {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        self.answer(request).await.unwrap_or_else(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_in_what_was_forwarded_and_in_a_host() {
        assert_eq!(
            node_name("/api/v1/nodes/edge-1/proxy/metrics"),
            Some("edge-1")
        );
        assert_eq!(
            node_name("https://cloud/api/v1/nodes/edge-1:10350/proxy/stats"),
            Some("edge-1")
        );
        assert_eq!(node_name("/metrics"), None);
        assert_eq!(node_name("/api/v1/nodes//proxy"), None);
        assert_eq!(
            named_node("/nodes/edge-1/metrics/resource?a=b"),
            Some(("edge-1", "/metrics/resource?a=b"))
        );
        for path in [
            "/nodes/edge-1",
            "/nodes//metrics",
            "/nodes/EDGE/metrics",
            "/metrics",
        ] {
            assert_eq!(named_node(path), None, "{path}");
        }
        assert_eq!(
            (without_port("192.0.2.1:10350"), without_port("edge-1")),
            ("192.0.2.1", "edge-1")
        );
        assert_eq!(without_port("[2001:db8::7]:10350"), "[2001:db8::7]");
    }
}
