//! Objects of `metrics.k8s.io/v1beta1`. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubeapi::ComputedKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::history::Usage;

/// The group.
pub(super) const GROUP: &str = "metrics.k8s.io";
/// Its version.
const VERSION: &str = "v1beta1";
/// The kind of nodes' objects; that of pods is `PodMetrics`.
pub(super) const NODE: &str = "NodeMetrics";

/// The fields of a stored node or pod that its metrics need.
#[derive(Debug, Deserialize)]
pub(super) struct Measured {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    /// The node of a pod.
    #[serde(default)]
    pub(super) node_name: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) phase: String,
}

/// Returns both kinds, as metrics-server serves them.
pub(super) fn kinds() -> Vec<ComputedKind> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let quantity =
        json!({"type": "string", "description": "A quantity, such as 11546n or 11612Ki."});
    let usage = json!({"type": "object", "additionalProperties": quantity,
        "description": "What was used: the processors on average, the memory at the end of the window."});
    let schema = |description: &str, field: &str, what: &Value| {
        json!({"type": "object", "description": description, "properties": {
            "timestamp": text("The end of the time in which the usage was measured."),
            "window": text("How long that time was, such as 15.03s."),
            field: what,
        }})
    };
    let container = json!({"type": "object", "properties": {"name": text("The container's name."), "usage": usage}});
    let containers = json!({"type": "array", "items": container, "description": "The usage of all containers that run."});
    let kind = |kind, plural, schema, columns| ComputedKind {
        group: GROUP,
        version: VERSION,
        kind,
        plural,
        singular: "",
        short_names: &[],
        namespaced: kind != NODE,
        schema,
        columns,
    };
    vec![
        kind(
            NODE,
            "nodes",
            schema("What a node uses.", "usage", &usage),
            &[
                ("cpu", ".usage.cpu"),
                ("memory", ".usage.memory"),
                ("Window", ".window"),
            ],
        ),
        kind(
            "PodMetrics",
            "pods",
            schema("What a pod's containers use.", "containers", &containers),
            &[("Window", ".window")],
        ),
    ]
}

/// Builds a NodeMetrics object.
pub(super) fn node(node: &Measured, usage: Usage, now: Timestamp) -> Value {
    let mut object = object(NODE, node, usage, now);
    object["usage"] = usage_value(usage);
    object
}

/// Builds a PodMetrics object, with the time of its earliest sample; `None` if there are no containers.
pub(super) fn pod(pod: &Measured, containers: &[(&str, Usage)], now: Timestamp) -> Option<Value> {
    let (_, first) = containers.iter().min_by_key(|(_, usage)| usage.at)?;
    let mut object = object("PodMetrics", pod, *first, now);
    object["metadata"]["namespace"] = pod.metadata.namespace.as_str().into();
    let container =
        |(name, usage): &(&str, Usage)| json!({"name": name, "usage": usage_value(*usage)});
    object["containers"] = containers.iter().map(container).collect();
    Some(object)
}

fn object(kind: &str, of: &Measured, usage: Usage, now: Timestamp) -> Value {
    let seconds = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let at = Timestamp::from_millisecond(usage.at).unwrap_or(now);
    let mut metadata = json!({"name": of.metadata.name, "creationTimestamp": seconds(now)});
    if !of.metadata.labels.is_empty() {
        metadata["labels"] = json!(of.metadata.labels);
    }
    json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
        "timestamp": seconds(at), "window": duration(usage.window),
    })
}

fn usage_value(usage: Usage) -> Value {
    json!({
        "cpu": quantity(usage.cpu, 1000, &["n", "u", "m", ""]),
        "memory": quantity(usage.memory, 1024, &["", "Ki", "Mi", "Gi", "Ti"]),
    })
}

/// Formats a quantity with the largest unit in which it is whole; each unit is `times` the one before.
fn quantity(mut number: u64, times: u64, units: &[&str]) -> String {
    if number == 0 {
        return "0".into();
    }
    let mut units = units.iter().peekable();
    let mut unit = units.next();
    while number.is_multiple_of(times) && units.peek().is_some() {
        number /= times;
        unit = units.next();
    }
    format!("{number}{}", unit.unwrap_or(&""))
}

/// Formats milliseconds as a Go duration: `1m15.03s`.
fn duration(milliseconds: i64) -> String {
    if milliseconds < 1000 {
        return format!("{milliseconds}ms");
    }
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    let fraction = if rest == 0 {
        String::new()
    } else {
        format!(".{rest:03}")
    };
    let seconds_text = format!("{}{}s", seconds % 60, fraction.trim_end_matches('0'));
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => seconds_text,
        (0, minutes) => format!("{minutes}m{seconds_text}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds_text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_and_durations_are_written_as_in_go() {
        let cpus = [
            0,
            11_546,
            10_000_000,
            2_000_000_000,
            5000,
            7_000_000_000_000,
        ]
        .map(used_cpu);
        assert_eq!(cpus, ["0", "11546n", "10m", "2", "5u", "7000"]);
        let memories = [11_612 << 10, 4 << 20, 4097, 1 << 30].map(|bytes| {
            usage_value(Usage {
                cpu: 1,
                memory: bytes,
                at: 0,
                window: 1,
            })["memory"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        assert_eq!(memories, ["11612Ki", "4Mi", "4097", "1Gi"]);
        let durations = [850, 1000, 15_030, 60_000, 75_500, 3_600_001].map(duration);
        assert_eq!(
            durations,
            ["850ms", "1s", "15.03s", "1m0s", "1m15.5s", "1h0m0.001s"]
        );
    }

    fn used_cpu(number: u64) -> String {
        usage_value(Usage {
            cpu: number,
            memory: 1,
            at: 0,
            window: 1,
        })["cpu"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
