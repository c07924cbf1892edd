//! Kinds whose objects are stored nowhere: they are computed when somebody asks for them, as those of `metrics.k8s.io` are. Discovery,
//! OpenAPI and roles know them as they know other kinds; they can be got and listed, and nothing else.

use async_trait::async_trait;
use serde_json::Value;

use crate::{BoxError, Kind};

/// What a kind of computed objects is called, and where it is served.
#[derive(Clone, Debug)]
pub struct ComputedKind {
    /// As in `metrics.k8s.io`; no group that has stored kinds.
    pub group: &'static str,
    /// As in `v1beta1`.
    pub version: &'static str,
    /// As in `NodeMetrics`.
    pub kind: &'static str,
    /// As in `nodes`.
    pub plural: &'static str,
    /// Whether its objects stand in namespaces.
    pub namespaced: bool,
    /// The OpenAPI v3 schema, without the fields that all objects have.
    pub schema: Value,
    /// Columns of tables beside the name, each with the JSONPath of its texts: `("Window", ".window")`.
    pub columns: &'static [(&'static str, &'static str)],
}

/// Computes the objects of some kinds.
#[async_trait]
pub trait ComputedObjects: Send + Sync + 'static {
    /// The kinds that it has. They are asked for once, when the API is built.
    fn kinds(&self) -> Vec<ComputedKind>;

    /// The objects of `kind`, whole, in the order of namespace and name: those in `namespace` (where it is empty, all of them), and of
    /// these, where `name` is not empty, at most the one that is called so.
    async fn list(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Vec<Value>, BoxError>;
}
