//! The calls that were made of a cluster's API, for the test that compares them with the rules of the roles.

use std::{
    collections::BTreeSet,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request};
use parking_lot::Mutex;
use tower::{Layer, Service};

use super::rights::Right;

/// The calls that were made, each once; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<BTreeSet<Right>>>);

impl Calls {
    /// Returns all calls, with the namespace of the request.
    pub fn made(&self) -> BTreeSet<Right> {
        self.0.lock().clone()
    }

    fn note<B>(&self, request: &Request<B>) {
        if let Some(call) = call(
            request.method(),
            request.uri().path(),
            request.uri().query().unwrap_or_default(),
        ) {
            self.0.lock().insert(call);
        }
    }
}

/// Returns the right that a request needs; `None` for discovery and other paths that every authenticated user may read.
fn call(method: &Method, path: &str, query: &str) -> Option<Right> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, part) = match rest {
        [resource] => (*resource, false, None),
        [resource, _] => (*resource, true, None),
        [resource, _, part, ..] => (*resource, true, Some(*part)),
        [] => return None,
    };
    let watches = form_urlencoded::parse(query.as_bytes())
        .any(|(key, value)| key == "watch" && value != "false");
    let verb = match (method.as_str(), name) {
        ("GET", _) if watches => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    };
    let resource = part.map_or_else(|| resource.to_owned(), |part| format!("{resource}/{part}"));
    Some(Right {
        namespace: namespace.to_owned(),
        group: group.to_owned(),
        resource,
        verb: verb.to_owned(),
        name: String::new(),
    })
}

impl<S> Layer<S> for Calls {
    type Service = RecordCalls<S>;

    fn layer(&self, inner: S) -> RecordCalls<S> {
        RecordCalls {
            inner,
            calls: self.clone(),
        }
    }
}

/// A client service that records its calls.
#[derive(Clone, Debug)]
pub struct RecordCalls<S> {
    inner: S,
    calls: Calls,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for RecordCalls<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        self.calls.note(&request);
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_calls() {
        let told = |method: &str, path: &str, query: &str| {
            let call = call(&method.parse().unwrap(), path, query)?;
            Some(format!(
                "{} {} {} {}",
                call.verb, call.resource, call.group, call.namespace
            ))
        };
        for (method, path, query, expected) in [
            ("GET", "/api/v1/pods", "watch=true&x=1", "watch pods  "),
            ("GET", "/api/v1/pods", "limit=500", "list pods  "),
            (
                "PATCH",
                "/api/v1/nodes/edge-1/status",
                "",
                "patch nodes/status  ",
            ),
            ("GET", "/api/v1/namespaces/kubeedge", "", "get namespaces  "),
            (
                "POST",
                "/api/v1/namespaces/ns/serviceaccounts/a/token",
                "",
                "create serviceaccounts/token  ns",
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
                "",
                "update leases coordination.k8s.io ns",
            ),
        ] {
            assert_eq!(
                told(method, path, query).as_deref(),
                Some(expected),
                "{method} {path}"
            );
        }
        assert_eq!(told("GET", "/version", ""), None);
        assert_eq!(told("GET", "/apis/apps/v1", ""), None);
    }
}
