//! The kubelet's read-only server: health, pods, metrics and resource usage, over plain HTTP on an address of the node.
//!
//! | path | what |
//! |---|---|
//! | `/healthz`, `/healthz/{ping,log,syncloop}`, `/healthz/<part>` | [`health`] |
//! | `/readyz`, `/readyz/cloud` | the same, and whether the cloud is connected |
//! | `/pods` | the pods of this node with their statuses, a `v1.PodList` |
//! | `/configz` | the settings of the kubelet's that this agent keeps to |
//! | `/stats/summary`, `?only_cpu_and_memory=true` | [`summary`](super::stats::summary) |
//! | `/metrics` | [`agent`] |
//! | `/metrics/resource` | [`resource`] |
//! | `/metrics/cadvisor` | [`cadvisor`] |
//! | `/metrics/probes` | [`probes`] |
//!
//! Nothing can be changed here, web pages cannot send requests under host names of their own ([`Hosts`]), and at most
//! [`MAX_CONCURRENT_RESPONSES`] requests are answered at a time.

mod agent;
mod cadvisor;
mod health;
mod probes;
mod resource;
mod volumes;

use std::{convert::Infallible, fs, net::SocketAddr, sync::Arc};

use componentbase::{Link, Queue};
use http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use kubeapi::{
    Body,
    describe::exposition,
    hosts::{HostError, Hosts, Scheme},
    serve,
};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::health::HealthReport;
use super::{
    Diagnostics,
    metrics::Metrics,
    probes::Probes,
    runtime::Runtime,
    stats::{Machine, Stats},
    trigger::Trigger,
};

/// Maximum number of requests answered at a time. Scrapers are few, and each request lists everything in the runtime.
const MAX_CONCURRENT_RESPONSES: usize = 16;
/// Media type of JSON.
const JSON: &str = "application/json";

/// What the pages are made from.
pub(crate) struct Deps {
    /// The node's name.
    pub(crate) node_name: String,
    /// The kubelet version that the node reports.
    pub(crate) version: String,
    /// The settings that take effect, under the kubelet's names.
    pub(crate) settings: Arc<serde_json::Value>,
    /// The pods of this node.
    pub(crate) reader: Store<Pod>,
    /// Resource usage.
    pub(crate) stats: Stats,
    /// Metrics of EdgeD.
    pub(crate) metrics: Metrics,
    /// The probes, for their counters.
    pub(crate) probes: Arc<Probes>,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// Triggers of the pod controller, for its health check.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// State of other parts of the agent.
    pub(crate) diagnostics: Diagnostics,
}

/// The pages of the server.
pub(crate) struct Pages {
    deps: Deps,
    permits: Semaphore,
}

/// Listens at `address` and serves `pages` until `shutdown`.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn run(
    address: SocketAddr,
    pages: Arc<Pages>,
    shutdown: CancellationToken,
) -> Result<(), serve::BindError> {
    // the host names of a network address are unknown here
    let hosts = address
        .ip()
        .is_loopback()
        .then(|| Hosts::new(Vec::new(), Scheme::Http));
    let service = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (pages, hosts) = (pages.clone(), hosts.clone());
        async move {
            let refused =
                hosts.and_then(|hosts| hosts.check(request.uri(), request.headers()).err());
            Ok::<_, Infallible>(match refused {
                Some(HostError { code, why }) => {
                    text(code, format!("{why}; use a loopback address\n"))
                }
                None => pages.answer(request.method(), request.uri()).await,
            })
        }
    });
    let server = serve::Server::bind(address, None, service).await?;
    tracing::info!(address = %server.local_addr(), "server for health, pods and metrics listening");
    server.run(shutdown).await;
    Ok(())
}

impl Pages {
    /// Creates the pages.
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self {
            deps,
            permits: Semaphore::new(MAX_CONCURRENT_RESPONSES),
        })
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, method: &Method, uri: &Uri) -> Response<Body> {
        if method != Method::GET {
            let mut answer = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is possible here\n".to_owned(),
            );
            answer
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET"));
            return answer;
        }
        let path = uri.path();
        let path = path
            .strip_suffix('/')
            .filter(|path| !path.is_empty())
            .unwrap_or(path);
        // Health is answered even if too many other requests are running.
        if let Some(which) = path.strip_prefix("/healthz") {
            return self.health(which, uri).await;
        }
        if let Some(which) = path.strip_prefix("/readyz") {
            return self.readiness(which, uri).await;
        }
        let Ok(_permit) = self.permits.try_acquire() else {
            return text(
                StatusCode::TOO_MANY_REQUESTS,
                "too many questions at the same time\n".to_owned(),
            );
        };
        match path {
            "/pods" => json(&self.pods()),
            "/configz" => json(&serde_json::json!({"kubeletconfig": *self.deps.settings})),
            "/stats/summary" => self.summary(uri).await,
            "/metrics" => metrics_response(self.agent().await),
            "/metrics/resource" => {
                let usage = self.deps.stats.usage().await.inspect_err(log).ok();
                metrics_response(resource::page(usage.as_deref()))
            }
            "/metrics/cadvisor" => match self.deps.stats.summary().await {
                Ok(summary) => {
                    metrics_response(cadvisor::page(&summary, &self.deps.reader.state()))
                }
                Err(error) => stats_error(&error),
            },
            "/metrics/probes" => metrics_response(probes::page(&self.deps.probes.counts())),
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }

    async fn health(&self, which: &str, uri: &Uri) -> Response<Body> {
        health_response(self.report(which, uri).await)
    }

    /// Answers `/readyz`: the checks of `/healthz`, and whether the cloud is connected. An edge node without the cloud is ready.
    async fn readiness(&self, which: &str, uri: &Uri) -> Response<Body> {
        let is_connected = self
            .deps
            .diagnostics
            .link
            .as_ref()
            .map(|link| *link.borrow() != Link::Down);
        health_response(match which.strip_prefix('/') {
            Some(health::CLOUD) => Some(health::of_cloud(is_connected)),
            _ => self
                .report(which, uri)
                .await
                .map(|report| report.into_readiness(is_connected)),
        })
    }

    async fn report(&self, which: &str, uri: &Uri) -> Option<HealthReport> {
        let one = which.strip_prefix('/');
        let verbose = has_parameter(uri, |key, _| key == "verbose");
        match (which.is_empty(), one) {
            (true, _) | (false, Some(_)) => {
                let diagnostics = &self.deps.diagnostics;
                let (parts, storage) = (diagnostics.vitals.read(), &diagnostics.storage);
                let triggers = &self.deps.triggers;
                health::check(
                    one,
                    verbose,
                    triggers,
                    &parts,
                    storage,
                    health::TRIGGER_TIMEOUT,
                )
                .await
            }
            // another page whose name begins alike
            (false, None) => None,
        }
    }

    fn pods(&self) -> PodList {
        let mut items = self.deps.reader.state();
        items.sort_by(|a, b| {
            let key = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            key(a).cmp(&key(b))
        });
        PodList {
            kind: "PodList",
            api_version: "v1",
            metadata: Empty {},
            items,
        }
    }

    async fn summary(&self, uri: &Uri) -> Response<Body> {
        let summary = if has_parameter(uri, |key, value| {
            (key, value) == ("only_cpu_and_memory", "true")
        }) {
            self.deps.stats.short_summary().await
        } else {
            self.deps.stats.summary().await
        };
        match summary {
            Ok(summary) => json(&summary),
            Err(error) => stats_error(&error),
        }
    }

    async fn agent(&self) -> String {
        let deps = &self.deps;
        let queues = Queue::of("edged/triggers", &deps.triggers.downgrade())
            .into_iter()
            .collect();
        let lists = tokio::try_join!(deps.runtime.sandboxes(None), deps.runtime.containers(None));
        agent::page(&agent::AgentFacts {
            node_name: &deps.node_name,
            version: &deps.version,
            pods: &deps.reader.state(),
            runtime: lists.ok(),
            operations: deps.runtime.operations().read(),
            values: deps.metrics.read(),
            others: deps.diagnostics.metrics.collect(queues),
            machine: Machine::read(),
            files: open_files(),
            volumes: deps.stats.volumes().await,
        })
    }
}

fn health_response(report: Option<HealthReport>) -> Response<Body> {
    match report {
        Some(HealthReport {
            is_healthy: true,
            text: page,
        }) => text(StatusCode::OK, page),
        Some(HealthReport {
            is_healthy: false,
            text: page,
        }) => text(StatusCode::INTERNAL_SERVER_ERROR, page),
        None => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

/// A `v1.PodList`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodList {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<Arc<Pod>>,
}

#[derive(Serialize)]
struct Empty {}

/// Reports whether a parameter of the query matches.
fn has_parameter(uri: &Uri, wanted: impl Fn(&str, &str) -> bool) -> bool {
    let parts = uri.query().unwrap_or_default().split('&');
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .any(|(key, value)| wanted(key, value))
}

/// Returns the number of this process's open file descriptors, and its limit.
fn open_files() -> (Option<u64>, Option<u64>) {
    let open = fs::read_dir("/proc/self/fd")
        .ok()
        .map(|all| all.count() as u64);
    let most = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    (open, most.ok().map(|(soft, _)| soft))
}

fn answer(
    code: StatusCode,
    media_type: &'static str,
    body: impl Into<bytes::Bytes>,
) -> Response<Body> {
    let mut answer = Response::new(
        Full::new(body.into())
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

fn text(code: StatusCode, body: String) -> Response<Body> {
    answer(code, "text/plain; charset=utf-8", body)
}

fn metrics_response(body: String) -> Response<Body> {
    answer(StatusCode::OK, exposition::MEDIA_TYPE, body)
}

fn json(body: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(body) {
        Ok(body) => answer(StatusCode::OK, JSON, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn stats_error(error: &super::stats::Error) -> Response<Body> {
    log(error);
    text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
}

fn log(error: &super::stats::Error) {
    tracing::debug!(
        error = error as &dyn std::error::Error,
        "failed to read resource usage"
    );
}
