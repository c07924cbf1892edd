//! Kinds whose objects are stored nowhere: they are computed when somebody asks for them, as component statuses and those of
//! `metrics.k8s.io` are. Discovery, OpenAPI and roles know them as they know other kinds; they can be got and listed, and nothing else.

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    registry::{computed::ComputedKind, kind::Kind},
    request::body::BoxError,
};

/// Computes the objects of some kinds.
#[async_trait]
pub trait ComputedObjects: Send + Sync + 'static {
    /// The kinds that it has. They are asked for once, when the API is built.
    fn kinds(&self) -> Vec<ComputedKind>;

    /// Returns the text of the `Warning` header of every answer, such as that the kinds are deprecated; `None` for no header.
    fn warning(&self) -> Option<&'static str> {
        None
    }

    /// The objects of `kind`, whole, in the order of namespace and name: those in `namespace` (where it is empty, all of them), and of
    /// these, where `name` is not empty, at most the one that is called so.
    async fn list(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Vec<Value>, BoxError>;
}
