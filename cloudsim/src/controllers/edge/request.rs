//! One request of a node about one object.

use wire::{ResourcePath, ResourceType, Upstream};

/// A request about one object, its path taken apart.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) kind: ResourceType,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) body: &'a Upstream,
}

impl<'a> Request<'a> {
    /// `None` where the message is no request about one object.
    pub(super) fn of(body: &'a Upstream) -> Option<Self> {
        let path: &ResourcePath = match body {
            Upstream::Object { path, .. } | Upstream::Patch { path, .. } | Upstream::Query { path, .. } => {
                path
            }
            _ => return None,
        };
        let object = path.as_object()?;
        // the kubelet has the API make up names for these
        let may_be_nameless = object.kind == ResourceType::CertificateSigningRequest;
        let name = object.name.or(may_be_nameless.then_some(""))?;
        Some(Self { kind: object.kind, namespace: object.namespace.unwrap_or_default(), name, body })
    }
}
