//! The kubelet's API as the cloud uses it through the stream tunnel: logs, exec, attach, port-forward, and the pages that are also
//! served to the node itself.
//!
//! | path | what |
//! |---|---|
//! | `GET /containerLogs/{ns}/{pod}/{container}` | [`logs`] |
//! | `GET\|POST /exec/{ns}/{pod}[/{uid}]/{container}` | [`remote`]: a connection to the container runtime |
//! | `GET\|POST /attach/{ns}/{pod}[/{uid}]/{container}` | the same |
//! | `GET\|POST /portForward/{ns}/{pod}[/{uid}]` | the same |
//! | `GET /stats/summary`, `/metrics…`, `/pods`, `/healthz…` | [`Pages`] |
//!
//! Nothing else is there: it is called in process, and the cloud has no way to name another server. What can change or read a pod is
//! not served on the node's own port, which asks nobody for a name.

mod in_process;
mod logs;
mod remote;
mod route;
mod target;

use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use kubeapi::Body;
use tokio::{net::TcpStream, sync::watch};

pub(crate) use self::in_process::OwnKubelet;
use self::route::{PodPath, Route};
use super::{runtime::Runtime, server::Pages};

/// A request of the cloud.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// GET or POST.
    pub(crate) method: Method,
    /// The path, decoded.
    pub(crate) path: String,
    /// The query, encoded.
    pub(crate) query: String,
    /// The headers; what is not known is ignored.
    pub(crate) headers: HeaderMap,
}

/// An answer.
pub(crate) enum Answer {
    /// An ordinary one.
    Response(Response<Body>),
    /// A connection on which the request to upgrade has been sent to the container runtime: its answer, and what follows it, come back.
    Upgraded(TcpStream),
}

impl From<Response<Body>> for Answer {
    fn from(response: Response<Body>) -> Self {
        Self::Response(response)
    }
}

/// What requests are answered from.
pub(super) struct Deps {
    /// The pods of this node.
    pub(super) pods: Store<Pod>,
    /// The container runtime.
    pub(super) runtime: Runtime,
    /// What the node itself may ask for too.
    pub(super) pages: Arc<Pages>,
}

/// The API, from outside of EdgeD; cheap to clone.
#[derive(Clone)]
pub(crate) struct KubeletApi(watch::Receiver<Option<Arc<Deps>>>);

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
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        let deps = self.0.borrow().clone();
        let Some(deps) = deps else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "this node runs no pods now\n").into();
        };
        let Some(route) = Route::of(&request.path) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n").into();
        };
        if !route.takes(&request.method) {
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
    /// The pod of this name.
    fn pod(&self, path: &PodPath) -> Option<Arc<Pod>> {
        let metadata = |pod: &Pod| {
            let uid = path.uid.as_ref();
            pod.metadata.namespace.as_deref() == Some(&path.namespace)
                && pod.metadata.name.as_deref() == Some(&path.pod)
                && uid.is_none_or(|uid| pod.metadata.uid.as_ref() == Some(uid))
        };
        self.pods.find(metadata)
    }
}

async fn page(deps: &Deps, request: &Request) -> Response<Body> {
    let target = format!("{}?{}", request.path, request.query);
    match Uri::try_from(target) {
        Ok(uri) => deps.pages.answer(&request.method, &uri).await,
        Err(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// A text, as Go's kubelet writes it.
fn text(code: StatusCode, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
