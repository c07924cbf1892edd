//! Kinds whose objects are not stored but computed.

use serde_json::Value;

use super::{
    builtin::Builtin,
    declare::of_source,
    defined::PrinterColumn,
    kind::{Kind, SchemaSource},
};

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

/// The kind. It has no name in the singular: what is called `node` is what is stored under that name.
pub(super) fn kind(computed: ComputedKind) -> Kind {
    let ComputedKind { group, version, kind, plural, namespaced, schema, columns } = computed;
    let column = |&(name, path): &(&str, &str)| PrinterColumn {
        name: name.into(),
        type_: "string".into(),
        format: String::new(),
        description: String::new(),
        json_path: path.into(),
        priority: 0,
    };
    let made = of_source(Builtin::Computed, kind, plural, SchemaSource::Definition(schema));
    let made = made.in_group(group).in_version(version);
    Kind { singular: String::new(), namespaced, columns: columns.iter().map(column).collect(), ..made }
}
