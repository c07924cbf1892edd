//! Explains objects to callers of the administrators' API. A caller learns only what it may read.

use http::{Method, StatusCode};
use kube::Client;
use kubeapi::Identity;
use serde_json::{Value, json};
use wire::names::is_path_segment;

use super::{Admin, access, request::Refusal};
use crate::{
    sessions::CountedSessions,
    why::{ExplainedKind, HubFacts, WhyError, explain},
};

/// How the paths of these requests begin.
pub(super) const PREFIX: &str = "/cloudsim/v1/why/";
/// The paths whose permissions decide whether sessions and faults are part of the answer.
const SESSIONS: &str = "/cloudsim/v1/nodes";
const FAULTS: &str = "/cloudsim/v1/faults";

/// The object of a request; the namespace of a node has no meaning.
#[derive(Debug, PartialEq)]
pub(super) struct Object {
    kind: ExplainedKind,
    namespace: String,
    name: String,
}

impl Object {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Parses the path after [`PREFIX`].
pub(super) fn parse(method: &Method, path: &str) -> Result<Object, Refusal> {
    let parts: Vec<&str> = path.split('/').collect();
    let (kind, namespace, name) = match *parts {
        ["pods", namespace, name] => (ExplainedKind::Pod, namespace, name),
        ["devices", namespace, name] => (ExplainedKind::Device, namespace, name),
        ["nodes", name] => (ExplainedKind::Node, "default", name),
        _ => {
            let why = "use why/pods/NAMESPACE/NAME, why/devices/NAMESPACE/NAME or why/nodes/NAME";
            return Err((StatusCode::NOT_FOUND, why.to_owned()));
        }
    };
    if method != Method::GET {
        let why = format!("{method} is not served here; use GET");
        return Err((StatusCode::METHOD_NOT_ALLOWED, why));
    }
    if !is_path_segment(namespace) || !is_path_segment(name) {
        let why = "the path has no valid name of a namespace and an object";
        return Err((StatusCode::BAD_REQUEST, why.to_owned()));
    }
    Ok(Object {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

impl Admin {
    /// Returns the steps of an object, read as the caller.
    pub(super) async fn explain(
        &self,
        client: &Client,
        caller: Identity,
        object: Object,
    ) -> Result<Value, Refusal> {
        let may_read =
            async |path| access::admit(&self.client, &caller, (&Method::GET, path)).await;
        let is_complete = may_read(SESSIONS).await.is_ok();
        let hub = HubFacts {
            sessions: CountedSessions {
                sessions: match is_complete {
                    true => self.sessions.list(),
                    false => Vec::new(),
                },
                is_complete,
            },
            faults: match may_read(FAULTS).await {
                Ok(()) => json!(self.faults.active()),
                Err(_) => Value::Null,
            },
        };
        let Object {
            kind,
            namespace,
            name,
        } = &object;
        let chain = explain(client, &hub, *kind, (namespace, name)).await;
        let chain = chain.map_err(|error| (code(&error), wire::text::with_causes(&error)))?;
        Ok(chain.document(&format!("{}/{name}", kind.as_str())))
    }
}

/// Returns the status of an answer with this error.
fn code(error: &WhyError) -> StatusCode {
    match error {
        WhyError::NotFound { .. } => StatusCode::NOT_FOUND,
        WhyError::Api {
            source: kube::Error::Api(status),
            ..
        } => StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY),
        WhyError::Api { .. } => StatusCode::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_one_object() {
        for (path, expected) in [
            ("pods/default/a", Ok((ExplainedKind::Pod, "default", "a"))),
            ("devices/x/a.b", Ok((ExplainedKind::Device, "x", "a.b"))),
            ("nodes/a", Ok((ExplainedKind::Node, "default", "a"))),
            ("nodes/a/b", Err(404)),
            ("pods/a", Err(404)),
            ("secrets/default/a", Err(404)),
            ("pods/../a", Err(400)),
            ("nodes/", Err(400)),
        ] {
            let found = parse(&Method::GET, path).map_err(|(code, _)| code.as_u16());
            let expected = expected.map(|(kind, namespace, name)| Object {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
            assert_eq!(found, expected, "{path}");
        }
        let posted = parse(&Method::POST, "nodes/a").unwrap_err();
        assert_eq!(posted.0.as_u16(), 405);
    }
}
