//! Aggregation: forwards requests for the groups and versions of `APIService` objects with a `service` to that service.
//!
//! In: requests whose caller is known and allowed. Out: the answers of the other servers, which learn the caller by headers
//! (`X-Remote-User`, …) and trust this API by its client certificate ([`transport::FrontProxy`]).
//!
//! Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kubeapi::{
    Body, Identity,
    object::{text, text_or_empty},
    registry::Builtin,
    request::{
        body::RequestBody,
        connection_headers::remove_connection_headers,
        remote::{RemotePath, RemoteVersion},
    },
    status::StatusError,
};
use objectstore::{Page, Scope};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::DropGuard;

use crate::{
    Server,
    admission::webhook::{
        endpoint,
        transport::{MAX_RESPONSE_BYTES, spawn_connection},
    },
};

pub(crate) mod cache;
mod headers;
pub(crate) mod transport;

use cache::{RemoteService, RemoteServices};
use transport::RemoteTarget;

/// How long the other server may take to send the head of an answer, as kube-apiserver's `--request-timeout`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long discovery waits for the resources of another server.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the resources of another server, or that it does not answer, are cached.
const DISCOVERY_CACHED: Duration = Duration::from_secs(10);

/// Returns the groups and versions of other servers. If they cannot be read, this API still answers for its own.
pub(crate) async fn versions(api: &Server) -> Arc<[RemoteVersion]> {
    match load(api).await {
        Ok(loaded) => Arc::clone(&loaded.versions),
        Err(error) => {
            tracing::debug!(error = error.message(), "failed to read APIServices");
            Arc::default()
        }
    }
}

async fn load(api: &Server) -> Result<Arc<RemoteServices>, StatusError> {
    let cache = api.aggregation();
    if let Some(known) = cache.known.lock().clone() {
        return Ok(known);
    }
    let changes = cache.changes.load(Ordering::SeqCst);
    let registry = api.registry();
    let mut loaded = RemoteServices::default();
    let mut versions = Vec::new();
    let stored = match registry.of(Builtin::ApiService) {
        Some(kind) => {
            let scope = Scope {
                resource: kind.resource().clone(),
                namespace: None,
            };
            api.store().list(&scope, &Page::default()).await?.items
        }
        None => Vec::new(),
    };
    for service in stored {
        // one that is damaged is reported when it is read
        let Ok(service) = service.value() else {
            continue;
        };
        let spec = service.get("spec").cloned().unwrap_or_default();
        let (group, version) = (
            text_or_empty(&spec, "/group"),
            text_or_empty(&spec, "/version"),
        );
        // the kinds that this API cannot do without stay its own
        let is_own = registry.group_version(group, version).any(|kind| {
            kind.builtin
                .is_some_and(|builtin| builtin != Builtin::Computed)
        });
        if !spec.get("service").is_some_and(Value::is_object) || group.is_empty() || is_own {
            continue;
        }
        let number = |field: &str| spec.get(field).and_then(Value::as_i64).unwrap_or_default();
        versions.push(RemoteVersion {
            group: group.to_owned(),
            version: version.to_owned(),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
        });
        loaded.services.push(RemoteService {
            name: text_or_empty(&service, "/metadata/name").to_owned(),
            spec,
        });
    }
    loaded.versions = versions.into();
    let loaded = Arc::new(loaded);
    let mut known = cache.known.lock();
    if cache.changes.load(Ordering::SeqCst) == changes {
        *known = Some(Arc::clone(&loaded));
    }
    Ok(loaded)
}

/// Forwards a request, and relays the answer as it comes.
pub(crate) async fn forward(
    api: &Server,
    remote: &RemotePath,
    parts: Parts,
    body: RequestBody,
) -> Result<Response<Body>, StatusError> {
    let caller = parts
        .extensions
        .get::<Identity>()
        .ok_or_else(StatusError::unauthorized)?;
    if parts.headers.contains_key(header::UPGRADE) {
        return Err(StatusError::not_implemented(
            "requests that upgrade their connection are not forwarded to other API servers",
        ));
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.headers_mut() =
        headers::of_request(&parts.headers, caller).map_err(StatusError::bad_request)?;
    let (answer, held) = send(
        api,
        (&remote.group, &remote.version),
        path,
        request,
        ANSWER_TIMEOUT,
    )
    .await
    .map_err(unreachable)?;
    let (mut head, body) = answer.into_parts();
    remove_connection_headers(&mut head.headers);
    head.extensions.clear();
    let body = body.map_err(Into::into).map_frame(move |frame| {
        // the connection ends with the body
        let _ = &held;
        frame
    });
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

fn unreachable(why: String) -> StatusError {
    StatusError::unavailable(format!("error trying to reach service: {why}"))
}

/// Sends a request to the server of a group and version; the connection lasts as long as the guard.
async fn send<B>(
    api: &Server,
    (group, version): (&str, &str),
    path: &str,
    mut request: Request<B>,
    limit: Duration,
) -> Result<(Response<Incoming>, DropGuard), String>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let loaded = load(api)
        .await
        .map_err(|error| error.message().to_owned())?;
    let service = loaded
        .services
        .iter()
        .find(|service| {
            text(&service.spec, "/group") == Some(group)
                && text(&service.spec, "/version") == Some(version)
        })
        .ok_or("the APIService was deleted")?;
    let target = target(api, service).await?;
    let host = format!("{}:{}", target.host, target.port);
    let sent = async {
        let stream = api.remote_transport().connect(target).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let guard = spawn_connection(connection);
        *request.uri_mut() = path.parse().map_err(|_| "the path cannot be forwarded")?;
        let host = host.parse().map_err(|_| "the service has no valid name")?;
        request.headers_mut().insert(header::HOST, host);
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| error.to_string())?;
        Ok::<_, String>((answer, guard))
    };
    timeout(limit, sent)
        .await
        .map_err(|_| format!("no answer came within {} s", limit.as_secs()))?
}

/// Returns where the server of an APIService is.
async fn target(api: &Server, service: &RemoteService) -> Result<RemoteTarget, String> {
    if service.spec.get("insecureSkipTLSVerify") == Some(&Value::Bool(true)) {
        return Err(format!(
            "APIService {:?} sets insecureSkipTLSVerify, which is not supported; set caBundle instead",
            service.name
        ));
    }
    let mut reference = service.spec.get("service").cloned().unwrap_or_default();
    if let Some(reference) = reference.as_object_mut() {
        reference.shift_remove("path");
    }
    let client = json!({"service": reference, "caBundle": service.spec.get("caBundle")});
    let endpoint = endpoint::find(api, &client, ANSWER_TIMEOUT.as_secs()).await?;
    Ok(RemoteTarget {
        host: endpoint.url.host_str().unwrap_or_default().to_owned(),
        port: endpoint.url.port_or_known_default().unwrap_or(443),
        addresses: endpoint.addresses.unwrap_or_default(),
        ca_bundle: endpoint.ca_bundle,
    })
}

/// Returns the resources of a group and version; `None` if its server does not answer.
pub(crate) async fn resources(api: &Server, version: &RemoteVersion) -> Option<Value> {
    let cache = api.aggregation();
    let key = (version.group.clone(), version.version.clone());
    if let Some((read, known)) = cache.resources.lock().get(&key)
        && read.elapsed() < DISCOVERY_CACHED
    {
        return known.clone();
    }
    let changes = cache.changes.load(Ordering::SeqCst);
    let found = timeout(DISCOVERY_TIMEOUT, read_resources(api, version)).await;
    let found = match found {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            let (group, version) = (&version.group, &version.version);
            tracing::debug!(
                group,
                version,
                error,
                "discovery of another API server failed"
            );
            None
        }
        Err(_) => None,
    };
    if cache.changes.load(Ordering::SeqCst) == changes {
        cache
            .resources
            .lock()
            .insert(key, (Instant::now(), found.clone()));
    }
    found
}

async fn read_resources(api: &Server, version: &RemoteVersion) -> Result<Value, String> {
    let (group, version) = (&version.group, &version.version);
    let caller = Identity::new("system:kube-aggregator", ["system:masters"]).authenticated();
    let mut request = Request::new(Empty::<bytes::Bytes>::new());
    *request.method_mut() = Method::GET;
    let mut headers = HeaderMap::new();
    headers.insert(
        header::ACCEPT,
        http::HeaderValue::from_static("application/json"),
    );
    *request.headers_mut() = headers::of_request(&headers, &caller)?;
    let path = format!("/apis/{group}/{version}");
    let (answer, _held) = send(api, (group, version), &path, request, DISCOVERY_TIMEOUT).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        return Err(format!("the server answered {status}"));
    }
    let body = Limited::new(answer.into_body(), MAX_RESPONSE_BYTES)
        .collect()
        .await
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())
}
