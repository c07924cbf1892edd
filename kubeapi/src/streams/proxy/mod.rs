//! `nodes/proxy`, `pods/proxy` and `services/proxy`: HTTP to what runs in the cluster.
//!
//! A node's kubelet is reached through [`NodeStreams`](crate::NodeStreams), a pod by HTTP over a port-forward. Links in pages and the
//! `Location` of a redirect are rewritten, so that they lead through the proxy; links in compressed pages are not.

mod backend;
mod dial;
mod headers;
mod links;
mod location;
mod name;
mod page;
mod path;
mod service;
mod tls;

use http::{
    HeaderValue, Method, Response, StatusCode,
    header::{self, UPGRADE},
};

use serde_json::Map;

use self::{backend::Backend, headers::request_headers, name::Name, path::ProxyPath};
use super::{audit, pod::Pod, request::StreamRequest};
use crate::{
    Body,
    registry::Builtin,
    request::{body::RequestBody, path::Target},
    status::StatusError,
};

/// Proxies a request.
pub(super) async fn answer(
    wanted: StreamRequest<'_>,
    body: RequestBody,
) -> Result<Response<Body>, StatusError> {
    let place = ProxyPath::of(&wanted.parts.uri, wanted.call.target.kind.namespaced);
    let is_read = [Method::GET, Method::HEAD].contains(&wanted.parts.method);
    if place.path.is_empty() && is_read && !wanted.parts.headers.contains_key(UPGRADE) {
        return redirect(&place);
    }
    let name = Name::parse(&wanted.call.target.name)?;
    let target = Target {
        name: name.name.clone(),
        ..wanted.call.target.clone()
    };
    wanted
        .admit(Map::from_iter([(
            "path".to_owned(),
            place.path.as_str().into(),
        )]))
        .await?;
    if target.kind.is(Builtin::Node) {
        return page::answer(wanted, &target, &name, &place).await;
    }
    let backend = if target.kind.is(Builtin::Service) {
        service::backend(wanted.api, &target, &name).await?
    } else {
        let pod = Pod::find(wanted.api, &target).await?;
        let usual = if name.is_https() { 443 } else { 80 };
        Backend {
            port: name.number()?.or_else(|| pod.first_port()).unwrap_or(usual),
            pod,
            is_https: name.is_https(),
        }
    };
    let slot = wanted
        .api
        .slots()
        .take(wanted.caller, backend.pod.host()?)?;
    audit::stream_started(wanted.caller, &wanted.call.target, "", &[]);
    let StreamRequest {
        streams, mut parts, ..
    } = wanted;
    let headers = request_headers(&parts, &place);
    dial::answer(streams, &backend, (&mut parts, headers, body), &place, slot).await
}

/// Redirects (301) to the same path with a slash, so that relative links in pages work.
fn redirect(place: &ProxyPath) -> Result<Response<Body>, StatusError> {
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let location = HeaderValue::from_str(&format!("{}/{}", place.prefix, place.query));
    let location =
        location.map_err(|_| StatusError::bad_request("the path cannot be redirected to"))?;
    answer.headers_mut().insert(header::LOCATION, location);
    Ok(answer)
}
