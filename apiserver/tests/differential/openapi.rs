//! Shortens OpenAPI documents to what clients use: paths with their methods, and the fields of schemas with their types.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Returns the summary of a document: of the list of documents, of OpenAPI v2 (only the names of schemas), or of v3 for a group (with the
/// fields of its own schemas).
pub(crate) fn summary(path: &str, body: Value) -> Value {
    let names = |map: &Value| {
        map.as_object().map(|map| {
            map.keys()
                .map(|key| (key.clone(), "".into()))
                .collect::<Map<_, _>>()
        })
    };
    let Some(group) = path.strip_prefix("/openapi/v3/") else {
        let key = if path == "/openapi/v3" {
            "paths"
        } else {
            "definitions"
        };
        return json!({key: names(&body[key])});
    };
    let mut words = group.rsplit('/');
    let (version, group) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let own = format!(
        ".{}.{version}.",
        group
            .split('.')
            .next()
            .unwrap_or_default()
            .replace("api", "core")
    );
    let schemas = body["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten();
    let schemas = schemas
        .filter(|(name, _)| name.contains(&own))
        .map(|(name, schema)| (name.clone(), fields(schema)));
    json!({"paths": body["paths"].as_object().map(methods), "schemas": schemas.collect::<Map<_, _>>()})
}

fn methods(paths: &Map<String, Value>) -> BTreeMap<&str, String> {
    let methods = |item: &Value| {
        let all = item.as_object().into_iter().flat_map(Map::keys);
        all.filter(|key| *key != "parameters")
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    paths
        .iter()
        .map(|(path, item)| (path.as_str(), methods(item)))
        .collect()
}

/// Returns each field as `name:type`, and `name*:type` if it is required.
fn fields(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema["properties"].as_object() else {
        return kind(schema).into();
    };
    let fields = properties.iter().map(|(name, property)| {
        let mark = if required.contains(&json!(name)) {
            "*"
        } else {
            ""
        };
        format!("{name}{mark}:{}", kind(property))
    });
    fields.collect::<Vec<_>>().join(" ").into()
}

fn kind(schema: &Value) -> String {
    let reference = schema["$ref"]
        .as_str()
        .or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        return reference
            .rsplit(['/', '.'])
            .next()
            .unwrap_or_default()
            .to_owned();
    }
    let own = schema["type"].as_str().unwrap_or("any");
    let format = schema["format"]
        .as_str()
        .map(|format| format!("/{format}"))
        .unwrap_or_default();
    let inner = match own {
        "array" => format!("<{}>", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("<{}>", kind(&schema["additionalProperties"]))
        }
        _ => String::new(),
    };
    let list = [
        "x-kubernetes-list-type",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-patch-merge-key",
    ];
    let marks: String = list
        .iter()
        .filter_map(|key| schema[*key].as_str())
        .map(|mark| format!("!{mark}"))
        .collect();
    let keys = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .map(|keys| json!(keys).to_string())
        .unwrap_or_default();
    format!("{own}{format}{inner}{marks}{keys}")
}
