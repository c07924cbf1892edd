//! Events of both groups are the same objects: `events.k8s.io/v1` has other names for the fields of `v1`, in which they are
//! stored. Pure.
//!
//! Source: `pkg/apis/core/v1` and `pkg/apis/events/v1` of Kubernetes.

use serde_json::{Map, Value};

/// The name of a field in `v1`, and the one in `events.k8s.io/v1`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
const CORE: &str = "v1";
const NEW: &str = "events.k8s.io/v1";

/// A stored event as one of `events.k8s.io/v1`.
pub(crate) fn to_new(event: Value) -> Value {
    rename(event, NEW, |name| {
        NAMES
            .iter()
            .find(|(core, _)| *core == name)
            .map(|(_, new)| *new)
    })
}

/// An event of `events.k8s.io/v1` as it is stored.
pub(crate) fn to_core(event: Value) -> Value {
    rename(event, CORE, |name| {
        NAMES
            .iter()
            .find(|(_, new)| *new == name)
            .map(|(core, _)| *core)
    })
}

fn rename(event: Value, version: &str, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else {
        return event;
    };
    let rename = |(name, value): (String, Value)| (other(&name).map_or(name, str::to_owned), value);
    let mut fields: Map<_, _> = fields.into_iter().map(rename).collect();
    if let Some(written) = fields.get_mut("apiVersion") {
        *written = version.into();
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_means_the_same_in_both_groups() {
        let core = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod"},
            "reason": "Pulled", "message": "done", "source": {"component": "kubelet"}, "count": 2,
            "firstTimestamp": null, "lastTimestamp": null, "type": "Normal", "eventTime": null,
            "reportingComponent": "kubelet", "reportingInstance": "edge-1",
        });
        let new = to_new(core.clone());
        assert_eq!(new["apiVersion"], "events.k8s.io/v1");
        assert_eq!(
            (&new["regarding"]["kind"], &new["note"]),
            (&json!("Pod"), &json!("done"))
        );
        assert_eq!(
            (&new["reportingController"], &new["deprecatedCount"]),
            (&json!("kubelet"), &json!(2))
        );
        assert_eq!((new.get("message"), new.get("source")), (None, None));
        assert_eq!(to_core(new), core);
    }
}
