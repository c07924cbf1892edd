//! KubeEdge's operations beside the Kubernetes API: confirm an upgrade, release held pods, restart the containers of pods.
//!
//! Source: `edge/pkg/metamanager/metaserver/handlerfactory/extend_*.go`.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use http::{Method, Response, StatusCode};
use kubeapi::Body;
use serde_json::json;
use wire::application::{Target, Verb};

use super::{super::response::ApiError, json::raw_response, route::ObjectRequest};

/// An operation of somebody on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Lets the upgrade continue that waits for a confirmation.
    ConfirmUpgrade,
    /// Restarts the containers of pods: their namespace and names.
    Restart(String, Vec<String>),
    /// Releases a held pod: its namespace and name.
    UnholdPod(String, String),
    /// Releases all held pods of the node of this name.
    UnholdNode(String),
}

/// What an operation has done, and what it could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// What was done, a line for each object.
    pub(crate) messages: Vec<String>,
    /// What could not be done, likewise.
    pub(crate) errors: Vec<String>,
}

/// Why an operation was refused: the HTTP status and the reason.
pub(crate) type Refusal = (StatusCode, String);

/// Carries out operations.
#[async_trait]
pub(crate) trait Operations: Send + Sync {
    /// Carries out an operation.
    async fn run(&self, operation: &Operation) -> Result<Done, Refusal>;
}

/// Operations, which start after MetaServer. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LateOperations(Arc<OnceLock<Arc<dyn Operations>>>);

impl Operation {
    /// Reports whether a request is for an operation.
    pub(crate) fn is_at(method: &Method, path: &str) -> bool {
        *method == Method::POST && Self::parse(path, b"").is_some()
    }

    /// Parses an operation from the path and the body of a POST; `None` for other paths. The inner error says what is wrong in the body.
    pub(crate) fn parse(path: &str, body: &[u8]) -> Option<Result<Self, String>> {
        let rest = path.trim_end_matches('/').strip_prefix("/api/v1/")?;
        let parts: Vec<&str> = rest.split('/').collect();
        let text = || String::from_utf8_lossy(body).trim().to_owned();
        Some(match parts.as_slice() {
            ["taskupgrade", "confirm-upgrade"] => Ok(Self::ConfirmUpgrade),
            ["namespaces", namespace, "pods", "restart"] => match serde_json::from_slice(body) {
                Ok(names) => Ok(Self::Restart((*namespace).to_owned(), names)),
                Err(_) => Err("the body must be a JSON array with the names of pods".to_owned()),
            },
            ["pods", "unhold-upgrade"] => match text().split_once('/') {
                Some((namespace, name)) => {
                    Ok(Self::UnholdPod(namespace.to_owned(), name.to_owned()))
                }
                None => Err("the body must be NAMESPACE/NAME".to_owned()),
            },
            ["nodes", "unhold-upgrade"] => match text() {
                name if name.is_empty() => Err("the body must be the name of the node".to_owned()),
                name => Ok(Self::UnholdNode(name)),
            },
            _ => return None,
        })
    }

    /// Returns the request as which it is authorized: the creation of a subresource.
    pub(super) fn as_request(&self) -> ObjectRequest {
        let (plural, namespace, part) = match self {
            Self::ConfirmUpgrade => ("taskupgrade", "", "confirm-upgrade"),
            Self::Restart(namespace, _) => ("pods", namespace.as_str(), "restart"),
            Self::UnholdPod(namespace, _) => ("pods", namespace.as_str(), "unhold-upgrade"),
            Self::UnholdNode(_) => ("nodes", "", "unhold-upgrade"),
        };
        ObjectRequest {
            target: Target {
                group: String::new(),
                version: "v1".to_owned(),
                plural: plural.to_owned(),
                namespace: namespace.to_owned(),
                name: String::new(),
            },
            part: part.to_owned(),
            verb: Verb::Create,
        }
    }
}

impl LateOperations {
    /// Sets them, once.
    pub(super) fn set(&self, operations: Arc<dyn Operations>) {
        // an agent has one of each module
        let _ = self.0.set(operations);
    }

    /// Carries out an operation, whose caller is authorized, and answers as KubeEdge does.
    pub(super) async fn answer(&self, operation: &Operation) -> Result<Response<Body>, ApiError> {
        let Some(operations) = self.0.get() else {
            return Err(ApiError::unavailable("the agent is starting; retry"));
        };
        match operations.run(operation).await {
            Ok(done) => {
                let text = match operation {
                    Operation::Restart(..) => {
                        json!({"errMessages": done.errors, "LogMessages": done.messages})
                            .to_string()
                    }
                    _ => String::new(),
                };
                Ok(raw_response(StatusCode::OK, text.into_bytes()))
            }
            Err((code, why)) => Err(ApiError::with_code(code, "BadRequest", &why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_parsed_from_paths_and_bodies_of_keadm() {
        let text = str::to_owned;
        for (path, body, expected) in [
            (
                "/api/v1/taskupgrade/confirm-upgrade",
                "",
                Some(Ok(Operation::ConfirmUpgrade)),
            ),
            (
                "/api/v1/namespaces/a/pods/restart",
                r#"["b","c"]"#,
                Some(Ok(Operation::Restart(
                    text("a"),
                    vec![text("b"), text("c")],
                ))),
            ),
            ("/api/v1/namespaces/a/pods/restart", "b", Some(Err(()))),
            (
                "/api/v1/pods/unhold-upgrade",
                "a/b",
                Some(Ok(Operation::UnholdPod(text("a"), text("b")))),
            ),
            ("/api/v1/pods/unhold-upgrade", "b", Some(Err(()))),
            (
                "/api/v1/nodes/unhold-upgrade",
                "edge-1\n",
                Some(Ok(Operation::UnholdNode(text("edge-1")))),
            ),
            ("/api/v1/nodes/unhold-upgrade", "", Some(Err(()))),
            ("/api/v1/namespaces/a/pods/b", "", None),
            ("/apis/apps/v1/namespaces/a/pods/restart", "[]", None),
        ] {
            let found = Operation::parse(path, body.as_bytes());
            let found = found.map(|one| one.map_err(drop));
            assert_eq!(found, expected, "{path} {body}");
        }
        assert!(!Operation::is_at(
            &Method::GET,
            "/api/v1/pods/unhold-upgrade"
        ));
        assert!(Operation::is_at(
            &Method::POST,
            "/api/v1/pods/unhold-upgrade"
        ));
    }
}
