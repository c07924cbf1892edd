//! `nodes/proxy`, `pods/proxy` and `services/proxy`: HTTP to what runs in the cluster.
//!
//! A node's pages are asked for through the way to it; a pod is reached by a port-forward, over which HTTP is spoken. Links in pages
//! are left as they are; the `Location` of a redirect is the proxy's.

mod dial;
mod location;
mod name;
mod page;
mod service;
mod tls;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{self, CONNECTION, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};

use serde_json::Map;

use self::{dial::Backend, name::Name};
use super::{Wanted, audit, pod::Pod};
use crate::{Body, path::Target, registry::Builtin, status::StatusError, tower_service::Received};

/// Headers that are about one connection.
const HOP: [HeaderName; 6] =
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, header::PROXY_AUTHENTICATE];

/// The path of what is proxied, as its clients see it.
struct Place {
    /// Up to and with `/proxy`.
    prefix: String,
    /// What follows, from the slash on; empty where the path ends with `/proxy`.
    path: String,
    /// The encoded query, with its question mark.
    query: String,
}

impl Place {
    fn of(uri: &http::Uri, namespaced: bool) -> Self {
        // api, v1, namespaces, namespace, kind, name, proxy
        let mut steps = if namespaced { 7 } else { 5 };
        let path = uri.path();
        let mut end = path.len();
        let mut inside = false;
        for (at, one) in path.char_indices() {
            if inside && one == '/' {
                steps -= 1;
                if steps == 0 {
                    end = at;
                    break;
                }
            }
            inside = one != '/';
        }
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        Self { prefix: path[..end].to_owned(), path: path[end..].to_owned(), query }
    }

    fn path_and_query(&self) -> String {
        format!("{}{}", self.path, self.query)
    }
}

/// Proxies a request.
pub(super) async fn answer(wanted: Wanted<'_>, body: Received) -> Result<Response<Body>, StatusError> {
    let place = Place::of(&wanted.parts.uri, wanted.call.target.kind.namespaced);
    let is_read = [Method::GET, Method::HEAD].contains(&wanted.parts.method);
    if place.path.is_empty() && is_read && !wanted.parts.headers.contains_key(UPGRADE) {
        return moved(&place);
    }
    let name = Name::parse(&wanted.call.target.name)?;
    let target = Target { name: name.name.clone(), ..wanted.call.target.clone() };
    wanted.admit(Map::from_iter([("path".to_owned(), place.path.as_str().into())])).await?;
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
    let slot = wanted.api.slots().take(wanted.caller, backend.pod.host()?)?;
    audit::begins(wanted.caller, &wanted.call.target, "", &[]);
    let Wanted { streams, mut parts, .. } = wanted;
    let headers = forwarded(&parts.headers, &place);
    dial::answer(streams, &backend, (&mut parts, headers, body), &place, slot).await
}

/// 301 to the same with a slash, as of a directory: links in pages would lead nowhere.
fn moved(place: &Place) -> Result<Response<Body>, StatusError> {
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let location = HeaderValue::from_str(&format!("{}/{}", place.prefix, place.query));
    let location = location.map_err(|_| StatusError::bad_request("the path cannot be redirected to"))?;
    answer.headers_mut().insert(header::LOCATION, location);
    Ok(answer)
}

/// The client's headers as what is proxied gets them: without those of this connection, and without who calls.
fn forwarded(client: &HeaderMap, place: &Place) -> HeaderMap {
    let mut headers = client.clone();
    for name in HOP {
        headers.remove(name);
    }
    let own: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("impersonate-") || *name == header::AUTHORIZATION)
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
    if let Some(host) = headers.get(HOST).cloned() {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    if let Ok(uri) = HeaderValue::from_str(&format!("{}{}", place.prefix, place.path)) {
        headers.insert("x-forwarded-uri", uri);
    }
    headers
}

/// The answer of what is proxied as its client gets it.
fn returned(head: &http::response::Parts, place: &Place) -> HeaderMap {
    let mut headers = head.headers.clone();
    for name in HOP {
        headers.remove(name);
    }
    let cors: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in cors {
        // an origin that may call a pod may not call the API
        headers.remove(name);
    }
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    if let Some(location) = location.and_then(|text| location::rewritten(text, &place.prefix)) {
        headers.insert(header::LOCATION, location);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_the_proxy_is_left_as_it_is() {
        let of = |path: &str, namespaced| {
            let place = Place::of(&path.parse().unwrap(), namespaced);
            (place.prefix.clone(), place.path_and_query())
        };
        let pair = |prefix: &str, path: &str| (prefix.to_owned(), path.to_owned());
        let pod = "/api/v1/namespaces/ns/pods/p:80/proxy";
        assert_eq!(of(pod, true), pair(pod, ""));
        assert_eq!(of(&format!("{pod}/"), true), pair(pod, "/"));
        assert_eq!(of(&format!("{pod}//a%2Fb/?x=%20"), true), pair(pod, "//a%2Fb/?x=%20"));
        assert_eq!(of("/api/v1/nodes/n/proxy/pods", false), pair("/api/v1/nodes/n/proxy", "/pods"));
    }

    #[test]
    fn what_is_proxied_does_not_learn_who_calls() {
        let mut client = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "ann"),
            ("connection", "keep-alive"),
            ("host", "api:6443"),
            ("accept", "text/html"),
        ] {
            client.insert(name, HeaderValue::from_static(value));
        }
        let place = Place::of(&"/api/v1/nodes/n/proxy/pods".parse().unwrap(), false);
        let headers = forwarded(&client, &place);
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "host", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-uri"]);
        assert_eq!(headers["x-forwarded-uri"], "/api/v1/nodes/n/proxy/pods");
    }
}
