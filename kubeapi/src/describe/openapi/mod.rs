//! OpenAPI v3 documents, as far as kubectl reads them: schemas (for `explain`) and, for each path, its kind and the parameters that it
//! takes (before `apply`, `create` and dry runs).
//!
//! The documents list JSON merge patches only. A client that finds strategic merge patches here would also look here for the merge
//! keys, which the schemas do not have; without them, it uses the keys that it knows itself.

use serde_json::{Map, Value, json};

use crate::{
    describe::discovery,
    object::{as_map, child},
    registry::{Builtin, Kind, Registry, SchemaSource},
    schema::builtin_schema::published,
};

const GVK: &str = "x-kubernetes-group-version-kind";

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The descriptions of fields that every kind from a definition has; the real server's texts.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
    recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
    the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The parameters of lists and watches.
const LIST_PARAMETERS: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];

/// Marks an object that may have any fields.
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";

/// Returns `/openapi/v3`: the index of the documents.
pub(crate) fn index(registry: &Registry) -> Value {
    let path = |(group, version): (&str, &str)| {
        let path = place(group, version);
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        (path, url)
    };
    let paths: Map<_, _> = registry.group_versions().into_iter().map(path).collect();
    json!({"paths": paths})
}

/// Returns `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    registry.group_version(group, version).next()?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    [published::LIST_META, published::STATUS]
        .iter()
        .for_each(|name| published::add(name, &mut schemas));
    for kind in registry.group_version(group, version) {
        let name = add_schema(kind, &mut schemas);
        add_paths(kind, &name, &mut paths);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": discovery::version()["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// Returns `/openapi/v2`: the schemas of all kinds, as far as older clients use them (`explain`, and which patches a kind takes).
pub(crate) fn v2(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    for (group, version) in registry.group_versions() {
        let schemas = document(registry, group, version)
            .map(|mut document| document["components"]["schemas"].take());
        if let Some(Value::Object(mut schemas)) = schemas {
            for kind in registry
                .group_version(group, version)
                .filter(|kind| kind.builtin.is_none())
            {
                let name = schema_name(kind);
                let open = schemas
                    .get_mut(&name)
                    .filter(|schema| schema[PRESERVES] == true);
                if let Some(schema) = open {
                    // If it contained any field, older clients would conclude that there are no others.
                    *schema = json!({"type": "object", GVK: schema[GVK]});
                }
            }
            schemas.values_mut().for_each(refer_to_definitions);
            for (name, schema) in schemas {
                let is_kind = schema.get(GVK).is_some();
                // In the documents of other groups the same type is not marked as a kind.
                if is_kind || !definitions.contains_key(&name) {
                    definitions.insert(name, schema);
                }
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": discovery::version()["gitVersion"]},
        "paths": {},
        "definitions": definitions,
    })
}

/// The media type of [`v2_protobuf`].
pub(crate) const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns `/openapi/v2` as the protobuf message `openapi.v2.Document` (github.com/google/gnostic-models), without a schema: kubectl
/// requests it before it sends a `List`, skips kinds that are not in it, and has each item checked by the server.
pub(crate) fn v2_protobuf() -> Vec<u8> {
    let version = discovery::version();
    let version = version["gitVersion"].as_str().unwrap_or_default();
    let info = [field(1, b"Kubernetes"), field(2, version.as_bytes())].concat();
    let (swagger, info, paths) = (field(1, b"2.0"), field(2, &info), field(8, &[]));
    [swagger, info, paths].concat()
}

/// Encodes a field of up to 127 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX).min(127);
    [&[number << 3 | 2, length], bytes].concat()
}

/// Changes references to `components/schemas`, as in version 3, to `definitions`, as in version 2.
fn refer_to_definitions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(path) if key == "$ref" => {
                        *path = path.replace("#/components/schemas/", "#/definitions/");
                    }
                    value => refer_to_definitions(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(refer_to_definitions),
        _ => {}
    }
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn kind_of(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}

/// Adds the kind's schema, marked as a kind, and the schemas to which it refers; returns its name.
fn add_schema(kind: &Kind, schemas: &mut Map<String, Value>) -> String {
    let name = match &kind.source {
        SchemaSource::Published { name, .. } => {
            published::add(name, schemas);
            name.to_string()
        }
        SchemaSource::Definition(document) => {
            let name = schema_name(kind);
            published::add(OBJECT_META, schemas);
            schemas.insert(name.clone(), with_type_meta(document.clone()));
            name
        }
    };
    if let Some(Value::Object(schema)) = schemas.get_mut(&name) {
        schema.insert(GVK.into(), json!([kind_of(kind, &kind.kind)]));
    }
    schemas.insert(list_of(&name), list_schema(kind, &name));
    name
}

/// Returns the name of the schema of lists of the kind whose schema has this name.
fn list_of(schema: &str) -> String {
    format!("{schema}List")
}

fn list_schema(kind: &Kind, schema: &str) -> Value {
    let description = format!("{} is a list of {}", kind.list_kind(), kind.kind);
    let items_description = format!("List of {}.", kind.plural);
    json!({
        "description": description,
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "items": {"description": items_description, "type": "array", "items": reference(schema)},
            "kind": {"description": KIND, "type": "string"},
            "metadata": {"description": METADATA, "allOf": [reference(published::LIST_META)]},
        },
        GVK: [kind_of(kind, &kind.list_kind())],
    })
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// Returns the name of the schema of a kind from a definition.
fn schema_name(kind: &Kind) -> String {
    let group: Vec<_> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

/// Adds the fields that every object has, whether or not its definition lists them.
fn with_type_meta(mut schema: Value) -> Value {
    let properties = child(as_map(&mut schema), "properties");
    for (name, description) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        properties.insert(
            name.into(),
            json!({"description": description, "type": "string"}),
        );
    }
    let of_all = json!([reference(OBJECT_META)]);
    properties.insert(
        "metadata".into(),
        json!({"description": METADATA, "allOf": of_all}),
    );
    schema
}

fn add_paths(kind: &Kind, schema: &str, paths: &mut Map<String, Value>) {
    let root = format!("/{}", place(&kind.group, &kind.version));
    let all = format!("{root}/{}", kind.plural);
    let own = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        all.clone()
    };
    if kind.namespaced {
        paths.insert(all, json!({"get": operation(kind, schema, "list")}));
    }
    let one = format!("{own}/{{name}}");
    if kind.is(Builtin::Computed) {
        let list = json!({"parameters": path_parameters(kind, false), "get": operation(kind, schema, "list")});
        paths.insert(own, list);
        let get = json!({"parameters": path_parameters(kind, true), "get": operation(kind, schema, "get")});
        paths.insert(one, get);
        return;
    }
    if kind.status {
        let part = json!({
            "parameters": path_parameters(kind, true),
            "get": operation(kind, schema, "get"),
            "put": operation(kind, schema, "put"),
            "patch": operation(kind, schema, "patch"),
        });
        paths.insert(format!("{one}/status"), part);
    }
    let collection = json!({
        "parameters": path_parameters(kind, false),
        "get": operation(kind, schema, "list"),
        "post": operation(kind, schema, "post"),
        "delete": operation(kind, schema, "deletecollection"),
    });
    paths.insert(own, collection);
    let object = json!({
        "parameters": path_parameters(kind, true),
        "get": operation(kind, schema, "get"),
        "put": operation(kind, schema, "put"),
        "delete": operation(kind, schema, "delete"),
        "patch": operation(kind, schema, "patch"),
    });
    paths.insert(one, object);
}

fn path_parameters(kind: &Kind, named: bool) -> Value {
    let names = [("namespace", kind.namespaced), ("name", named)];
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    names
        .iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| parameter(name))
        .collect()
}

fn operation(kind: &Kind, schema: &str, action: &str) -> Value {
    let object = json!({"schema": reference(schema)});
    let answered = match action {
        "list" => json!({"schema": reference(&list_of(schema))}),
        "delete" if kind.answers_deleted() => object.clone(),
        "delete" | "deletecollection" => json!({"schema": reference(published::STATUS)}),
        _ => object.clone(),
    };
    let mut operation = json!({
        "x-kubernetes-action": action,
        GVK: kind_of(kind, &kind.kind),
        "responses": {"200": {"description": "OK", "content": {"application/json": answered}}},
    });
    let (parameters, body): (&[&str], _) = match action {
        "post" | "put" => (
            &["dryRun", "fieldManager", "fieldValidation"],
            Some("application/json"),
        ),
        "patch" => (
            &["dryRun", "fieldManager", "fieldValidation", "force"],
            Some("application/merge-patch+json"),
        ),
        "delete" => (&["dryRun", "gracePeriodSeconds", "propagationPolicy"], None),
        "deletecollection" => (&["dryRun", "fieldSelector", "labelSelector"], None),
        "list" => (LIST_PARAMETERS, None),
        _ => (&[], None),
    };
    let parameter =
        |name: &&str| json!({"name": name, "in": "query", "schema": {"type": type_of(name)}});
    operation["parameters"] = parameters.iter().map(parameter).collect();
    if let Some(media) = body {
        operation["requestBody"] = json!({"required": true, "content": {media: object}});
    }
    operation
}

fn type_of(parameter: &str) -> &'static str {
    match parameter {
        "force" | "watch" | "allowWatchBookmarks" | "sendInitialEvents" => "boolean",
        "limit" | "gracePeriodSeconds" | "timeoutSeconds" => "integer",
        _ => "string",
    }
}

#[cfg(test)]
mod tests;
