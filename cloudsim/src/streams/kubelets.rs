//! The endpoint through which an external API server reaches kubelets, CloudCore's stream server (port 10003): it acts as the kubelet of
//! every node and forwards requests through the nodes' tunnels.
//!
//! Only the API server may call it: with a client certificate of the given CA (kubelets have `--client-ca-file` for that) and one of the
//! given names. Nodes' certificates are never accepted.

use std::{io, path::PathBuf, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client};
use kubeapi::{Body, Identity, NodeAnswer, NodeIo, NodeRequest, NodeStreams, serve::Handler};
use limits::read_regular_file;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::io::{AsyncWriteExt, BufReader};
use tracing::debug;
use wire::names::{is_dns_label, is_path_segment};

use super::{StreamService, Tunnels};
use crate::pki::ServerIdentity;

/// The header in which an API server names the path of the original request.
const FORWARDED_URI: &str = "x-forwarded-uri";
/// The largest file with the CA's certificates, in bytes.
const MAX_CA_BYTES: u64 = 1024 * 1024;
/// The buffer of a stream's output, bytes: two TLS records. The default of `copy` costs the API server twice the time.
const RELAY_BUFFER_BYTES: usize = 32 * 1024;
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

/// Where the CA of the API server's client certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCa {
    /// In a file, PEM.
    File(PathBuf),
    /// In the cluster: ConfigMap `extension-apiserver-authentication` of namespace kube-system, which every API server publishes.
    /// Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>.
    Cluster,
}

/// Namespace, name and key of the ConfigMap with the CA.
const CLUSTER_CA: [&str; 3] = [
    "kube-system",
    "extension-apiserver-authentication",
    "client-ca-file",
];

/// The CA of clients cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    /// The file cannot be read.
    #[error("the certificate of --stream-client-ca {path} cannot be read")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cluster's ConfigMap cannot be read.
    #[error(
        "cannot read the ConfigMap kube-system/extension-apiserver-authentication with the CA of the API server's clients; name the CA with --stream-client-ca"
    )]
    Cluster(#[source] kube::Error),
    /// There is no certificate.
    #[error("{place} contains no CA certificate: {why}")]
    Certificate {
        /// Where it was expected.
        place: String,
        /// The reason.
        why: String,
    },
}

impl ClientCa {
    /// Reads the certificates, PEM; returns their place as well.
    async fn read(&self, client: &Client) -> Result<(Vec<u8>, String), ClientCaError> {
        match self {
            Self::File(path) => {
                let text = read_regular_file(path, MAX_CA_BYTES);
                let text = text.map_err(|source| ClientCaError::File {
                    path: path.clone(),
                    source,
                })?;
                Ok((text, format!("--stream-client-ca {}", path.display())))
            }
            Self::Cluster => {
                let [namespace, name, key] = CLUSTER_CA;
                let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
                let found = maps.get(name).await.map_err(ClientCaError::Cluster)?;
                let text = found.data.and_then(|mut data| data.remove(key));
                let place = format!("key {key} of the ConfigMap {namespace}/{name}");
                Ok((text.unwrap_or_default().into_bytes(), place))
            }
        }
    }
}

/// Returns the TLS configuration: this cloud's certificate, and clients of that CA only.
pub(crate) async fn tls(
    options: &KubeletOptions,
    client: &Client,
    identity: &ServerIdentity,
) -> Result<ServerConfig, ClientCaError> {
    let (text, place) = options.client_ca.read(client).await?;
    let bad = |why: String| ClientCaError::Certificate {
        place: place.clone(),
        why,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| bad(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
    let verifier = verifier.map_err(|error| bad(error.to_string()))?;
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.cert.clone()], identity.key.clone_key())
        .map_err(|error| bad(error.to_string()))
}

/// The kubelets of all nodes as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Kubelets {
    client: Client,
    tunnels: Tunnels,
    names: Arc<[String]>,
}

/// A refusal: status and reason.
type Refusal = (StatusCode, String);

impl Kubelets {
    /// Creates the service; pods are looked up through `client`.
    pub(crate) fn new(client: Client, tunnels: Tunnels, names: &[String]) -> Self {
        Self {
            client,
            tunnels,
            names: names.into(),
        }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        self.permit(request.extensions().get::<Identity>())?;
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned();
        let host = request.uri().host().map(str::to_owned);
        let node = self
            .node(request.uri().path(), host.as_deref(), request.headers())
            .await?;
        let asked = NodeRequest {
            method: request.method().clone(),
            path_and_query: path,
            headers: request.headers().clone(),
        };
        let answered = self.tunnels.ask(&node, asked).await;
        match answered.map_err(|error| (error.code(), error.to_string()))? {
            NodeAnswer::Response(response) => Ok(response),
            NodeAnswer::Upgraded(head, io) => {
                let upgrade = hyper::upgrade::on(&mut request);
                tokio::spawn(async move {
                    match upgrade.await {
                        Ok(upgraded) => relay(TokioIo::new(upgraded), io).await,
                        Err(error) => debug!(%error, "failed to upgrade a connection"),
                    }
                });
                Ok(Response::from_parts(head, empty()))
            }
        }
    }

    fn permit(&self, identity: Option<&Identity>) -> Result<(), Refusal> {
        let identity = identity.ok_or((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()))?;
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
        if self.tunnels.has(host) {
            return Ok(host.to_owned());
        }
        self.tunnels.at(host).ok_or_else(|| {
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

/// Copies bytes until either side has ended.
async fn relay(client: impl NodeIo, node: Box<dyn NodeIo>) {
    let (mut client_reader, mut client_writer) = tokio::io::split(client);
    let (node_reader, mut node_writer) = tokio::io::split(node);
    let mut node_reader = BufReader::with_capacity(RELAY_BUFFER_BYTES, node_reader);
    let ended = tokio::select! {
        ended = tokio::io::copy_buf(&mut node_reader, &mut client_writer) => ended,
        // the client has gone, so nobody reads any more
        ended = tokio::io::copy(&mut client_reader, &mut node_writer) => ended,
    };
    if let Err(error) = ended {
        debug!(%error, "connection to a node lost");
    }
    let _ = client_writer.shutdown().await;
}

fn empty() -> Body {
    Full::default()
        .map_err(|never| match never {})
        .boxed_unsync()
}

impl Handler for Kubelets {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        self.answer(request).await.unwrap_or_else(|(status, why)| {
            let body = Full::new(Bytes::from(format!("{why}\n"))).map_err(|never| match never {});
            let mut response = Response::new(body.boxed_unsync());
            *response.status_mut() = status;
            response
        })
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
            (without_port("192.0.2.1:10350"), without_port("edge-1")),
            ("192.0.2.1", "edge-1")
        );
        assert_eq!(without_port("[2001:db8::7]:10350"), "[2001:db8::7]");
    }
}
