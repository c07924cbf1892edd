//! Which namespaces' rules may use a node: an administrator names them in an annotation of the Node. Pure.

use std::{collections::BTreeSet, sync::Arc};

use clock::HashMap;
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, core::PartialObjectMeta};

/// The annotation of a Node with the namespaces whose rules may use the node, separated by commas. Nodes cannot write it: its domain is
/// that of `NodeRestriction`.
pub(super) const ANNOTATION: &str = "node-restriction.kubernetes.io/rule-namespaces";

/// A Node without its spec and status.
pub(super) type NodeMetadata = PartialObjectMeta<Node>;

/// Returns the annotation of a Node.
pub(super) fn annotation(node: &NodeMetadata) -> Option<&str> {
    node.annotations().get(ANNOTATION).map(String::as_str)
}

/// The namespaces of the nodes that have the annotation. Rules of all namespaces may use the other nodes, as with CloudCore.
#[derive(Debug, Default)]
pub(super) struct NodeNamespaces(HashMap<String, BTreeSet<String>>);

impl NodeNamespaces {
    /// Reads the annotations of all Nodes. An empty one names no namespace.
    pub(super) fn new(nodes: &[Arc<NodeMetadata>]) -> Self {
        let named = |text: &str| {
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let all = nodes
            .iter()
            .filter_map(|node| Some((node.name_any(), named(annotation(node)?))));
        Self(all.collect())
    }

    /// Checks that rules of `namespace` may use `node`.
    ///
    /// # Errors
    /// Returns a text that names the annotation.
    pub(super) fn check(&self, node: &str, namespace: &str) -> Result<(), String> {
        if self
            .0
            .get(node)
            .is_none_or(|named| named.contains(namespace))
        {
            return Ok(());
        }
        Err(format!(
            "rules of namespace {namespace} may not use node {node}: the annotation {ANNOTATION} of the Node does not name it"
        ))
    }
}
