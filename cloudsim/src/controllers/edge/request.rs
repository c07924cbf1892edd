//! One request of a node about one object.

use serde_json::Value;
use wire::{Change, Operation, ResourcePath, ResourceType};

/// What a node wants done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Make it.
    Insert,
    /// Put another in its place.
    Update,
    /// Delete it, at once.
    Delete,
    /// Change some of it.
    Patch,
    /// Read it.
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

/// A request about one object, its path taken apart.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) kind: ResourceType,
    pub(super) verb: Verb,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The object, DeleteOptions, the patch, or what a query says beside its path.
    pub(super) content: &'a Value,
}

impl<'a> Request<'a> {
    /// `None` where `path` does not name one object.
    pub(super) fn new(verb: Verb, path: &'a ResourcePath, content: &'a Value) -> Option<Self> {
        let object = path.as_object()?;
        // the kubelet has the API make up names for these
        let may_be_nameless = object.kind == ResourceType::CertificateSigningRequest;
        let name = object.name.or(may_be_nameless.then_some(""))?;
        let namespace = object.namespace.unwrap_or_default();
        Some(Self { kind: object.kind, verb, namespace, name, content })
    }
}
