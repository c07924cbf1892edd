//! The rows of tables as kubectl prints them. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::Table;

/// Returns rows with aligned columns; the first row has the headings.
pub(super) fn align(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::without_head();
    rows.into_iter().for_each(|row| table.row(row));
    table.to_string()
}

/// Returns the rows of a `Table` of the API. `wide` adds the columns of lower priority, `namespaced` the namespace.
pub(super) fn rows(table: &Value, wide: bool, namespaced: bool) -> Vec<Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&table["columnDefinitions"]);
    let is_shown = |at: usize| {
        let column = columns.get(at);
        wide || column.is_some_and(|column| column["priority"].as_i64().unwrap_or_default() == 0)
    };
    let heading = |column: &Value| column["name"].as_str().unwrap_or_default().to_uppercase();
    let pick = |namespace: String, cells: Vec<String>| {
        let cells = cells
            .into_iter()
            .enumerate()
            .filter(|(at, _)| is_shown(*at));
        let first = namespaced.then_some(namespace).into_iter();
        first.chain(cells.map(|(_, cell)| cell)).collect::<Vec<_>>()
    };
    let mut all = vec![pick(
        "NAMESPACE".to_owned(),
        columns.iter().map(heading).collect(),
    )];
    for row in list(&table["rows"]) {
        let namespace = &row["object"]["metadata"]["namespace"];
        let cells = list(&row["cells"]).iter().map(text).collect();
        all.push(pick(text(namespace), cells));
    }
    all
}

/// Returns the rows of devices.
pub(super) fn devices(devices: &[Value], namespaced: bool, now: Timestamp) -> Vec<Vec<String>> {
    let mut all = vec![
        ["NAMESPACE", "NAME", "MODEL", "PROTOCOL", "AGE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    all.extend(devices.iter().map(|device| {
        let at = |pointer: &str| device.pointer(pointer).map(text).unwrap_or_default();
        vec![
            at("/metadata/namespace"),
            at("/metadata/name"),
            at("/spec/deviceModelRef/name"),
            at("/spec/protocol/protocolName"),
            kubeapi::table::age(device.pointer("/metadata/creationTimestamp"), now),
        ]
    }));
    if !namespaced {
        for row in &mut all {
            row.remove(0);
        }
    }
    all
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => wire::text::printable(text),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_look_like_those_of_kubectl() {
        let table = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Ready", "priority": 0}, {"name": "IP", "priority": 1}],
            "rows": [
                {"cells": ["web-1", "1/1", "10.0.0.1"], "object": {"metadata": {"namespace": "default"}}},
                {"cells": ["b", "0/1", null], "object": {"metadata": {"namespace": "kube-system"}}},
            ],
        });
        assert_eq!(
            align(rows(&table, false, false)),
            "NAME    READY\nweb-1   1/1\nb       0/1\n"
        );
        assert_eq!(
            align(rows(&table, true, true)),
            "NAMESPACE     NAME    READY   IP\ndefault       web-1   1/1     10.0.0.1\nkube-system   b       0/1     <none>\n"
        );
    }

    #[test]
    fn devices_have_their_model_and_protocol() {
        let device = json!({"metadata": {"name": "t1", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"deviceModelRef": {"name": "thermometer"}, "protocol": {"protocolName": "modbus"}}});
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let text = align(devices(&[device], false, now));
        assert_eq!(
            text,
            "NAME   MODEL         PROTOCOL   AGE\nt1     thermometer   modbus     5m\n"
        );
    }
}
