//! A node's request about one object.

use serde_json::Value;
use wire::{Change, Operation, ResourcePath, ResourceType};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Create the object.
    Insert,
    /// Replace the object.
    Update,
    /// Delete the object at once.
    Delete,
    /// Patch the object.
    Patch,
    /// Read the object.
    Query,
}

impl From<Change> for Verb {
    fn from(change: Change) -> Self {
        match change {
            Change::Insert => Self::Insert,
            Change::Update => Self::Update,
            Change::Delete => Self::Delete,
        }
    }
}

impl From<Verb> for Operation {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Insert => Self::Insert,
            Verb::Update => Self::Update,
            Verb::Delete => Self::Delete,
            Verb::Patch => Self::Patch,
            Verb::Query => Self::Query,
        }
    }
}

/// A request about one object, with its path parsed.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) kind: ResourceType,
    pub(super) verb: Verb,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The object, DeleteOptions, the patch, or the parameters of a query.
    pub(super) content: &'a Value,
}

impl<'a> Request<'a> {
    /// Creates a request; `None` if `path` does not name one object.
    pub(super) fn new(verb: Verb, path: &'a ResourcePath, content: &'a Value) -> Option<Self> {
        let object = path.as_object()?;
        // the kubelet lets the API generate names for these
        let may_be_nameless = object.kind == ResourceType::CertificateSigningRequest;
        let name = object.name.or(may_be_nameless.then_some(""))?;
        let namespace = object.namespace.unwrap_or_default();
        Some(Self { kind: object.kind, verb, namespace, name, content })
    }
}
