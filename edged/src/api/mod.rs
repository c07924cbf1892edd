//! The kubelet's API as the cloud uses it through the stream tunnel: logs, exec, attach and port-forward, and the pages that the
//! node's own server has as well.
//!
//! | path | what |
//! |---|---|
//! | `GET /containerLogs/{ns}/{pod}/{container}` | [`logs`] |
//! | `GET\|POST /exec/{ns}/{pod}[/{uid}]/{container}` | [`remote`]: a connection to the container runtime |
//! | `GET\|POST /attach/{ns}/{pod}[/{uid}]/{container}` | the same |
//! | `GET\|POST /portForward/{ns}/{pod}[/{uid}]` | the same |
//! | `GET /stats/summary`, `/metrics…`, `/pods`, `/healthz…` | [`Pages`] |
//!
//! There is nothing else: the API is called in process, and the cloud cannot name another server. What changes or reads a pod is
//! not served on the node's own port, which does not authenticate.

mod containers;
mod in_process;
mod logs;
mod remote;
mod route;

use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kubeapi::Body;
use tokio::{net::TcpStream, sync::watch};

pub use self::in_process::LocalKubelet;
use self::route::{PodPath, Route};
use super::{runtime::Runtime, server::Pages};

/// A request to the kubelet's API.
#[derive(Clone, Debug)]
pub struct KubeletRequest {
    /// GET or POST.
    pub method: Method,
    /// The path, decoded.
    pub path: String,
    /// The query, encoded.
    pub query: String,
    /// The headers; unknown ones are ignored.
    pub headers: HeaderMap,
}

/// A response of the kubelet's API.
pub enum KubeletResponse {
    /// An ordinary HTTP response.
    Response(Response<Body>),
    /// A connection to the container runtime on which the upgrade request has been sent. The runtime's response and all that
    /// follows are read from it.
    Upgraded(TcpStream),
}

impl From<Response<Body>> for KubeletResponse {
    fn from(response: Response<Body>) -> Self {
        Self::Response(response)
    }
}

/// What the API needs to answer requests.
pub(super) struct Deps {
    /// The objects of this node. A cache of its own would be behind what the node has reported.
    pub(super) client: Client,
    /// The container runtime.
    pub(super) runtime: Runtime,
    /// Pages that the node's own server serves too.
    pub(super) pages: Arc<Pages>,
}

/// Handle to the kubelet's API for other parts of the agent. Cheap to clone.
#[derive(Clone)]
pub struct KubeletApi(watch::Receiver<Option<Arc<Deps>>>);

impl std::fmt::Debug for KubeletApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletApi").finish_non_exhaustive()
    }
}

impl KubeletApi {
    pub(super) fn new(deps: watch::Receiver<Option<Arc<Deps>>>) -> Self {
        Self(deps)
    }

    /// Answers a request.
    pub async fn answer(&self, request: KubeletRequest) -> KubeletResponse {
        let deps = self.0.borrow().clone();
        let Some(deps) = deps else {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "this node runs no pods now\n",
            )
            .into();
        };
        let Some(route) = Route::of(&request.path) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n").into();
        };
        if !route.allows(&request.method) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed").into();
        }
        match route {
            Route::Page => page(&deps, &request).await.into(),
            Route::Logs(path) => logs::answer(&deps, &path, &request.query).await.into(),
            Route::Exec(path) => remote::exec(&deps, &path, &request).await,
            Route::Attach(path) => remote::attach(&deps, &path, &request).await,
            Route::PortForward(path) => remote::port_forward(&deps, &path, &request).await,
        }
    }
}

impl Deps {
    /// Returns the pod that the path names.
    async fn pod(&self, path: &PodPath) -> Option<Pod> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &path.namespace);
        // a pod that cannot be decoded does not run
        let pod = pods.get_opt(&path.pod).await.ok()??;
        let uid = path.uid.as_ref();
        uid.is_none_or(|uid| pod.metadata.uid.as_ref() == Some(uid))
            .then_some(pod)
    }
}

async fn page(deps: &Deps, request: &KubeletRequest) -> Response<Body> {
    let target = format!("{}?{}", request.path, request.query);
    match Uri::try_from(target) {
        Ok(uri) => deps.pages.answer(&request.method, &uri).await,
        Err(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// Returns a plain-text response, as the kubelet writes it.
fn text(code: StatusCode, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(
        Full::new(body.into())
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
