//! Kinds whose objects are not stored but computed.

use serde_json::Value;

use super::{
    builtin::Builtin,
    declare::of_source,
    defined::PrinterColumn,
    kind::{Kind, SchemaSource},
};

/// The names of a kind of computed objects, and where it is served.
#[derive(Clone, Debug)]
pub struct ComputedKind {
    /// The group, such as `metrics.k8s.io`; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1beta1`.
    pub version: &'static str,
    /// The kind, such as `NodeMetrics`.
    pub kind: &'static str,
    /// The plural name, such as `nodes`.
    pub plural: &'static str,
    /// The singular name; empty where it is that of a stored kind, as `node` is.
    pub singular: &'static str,
    /// The short names, such as `cs`.
    pub short_names: &'static [&'static str],
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
    /// The OpenAPI v3 schema, without the fields that all objects have.
    pub schema: Value,
    /// Columns of tables after the name, each with its JSONPath: `("Window", ".window")`.
    pub columns: &'static [(&'static str, &'static str)],
}

/// Returns the kind.
pub(super) fn kind(computed: ComputedKind) -> Kind {
    let ComputedKind {
        group,
        version,
        kind,
        plural,
        singular,
        short_names,
        namespaced,
        schema,
        columns,
    } = computed;
    let column = |&(name, path): &(&str, &str)| PrinterColumn {
        name: name.into(),
        type_: "string".into(),
        format: String::new(),
        description: String::new(),
        json_path: path.into(),
        priority: 0,
    };
    let made = of_source(
        Builtin::Computed,
        kind,
        plural,
        SchemaSource::Definition(schema),
    );
    let made = made.in_group(group).in_version(version);
    Kind {
        singular: singular.into(),
        short_names: short_names.iter().map(|&name| name.into()).collect(),
        namespaced,
        columns: columns.iter().map(column).collect(),
        ..made
    }
}
