//! Autoscalers of `autoscaling/v1`, which know no metric but the processor, as the same objects of `autoscaling/v2`, in which
//! they are stored. Pure.
//!
//! Fields that `v1` lacks are in annotations, as in Kubernetes. Source: `pkg/apis/autoscaling/v1/conversion.go`.

use serde_json::{Map, Value, json};

use crate::object::{as_map, child};

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";

/// The fields that `v1` has as annotations: half of the object, name of the field, annotation.
const ANNOTATED: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    (
        "spec",
        "behavior",
        "autoscaling.alpha.kubernetes.io/behavior",
    ),
    (
        "status",
        "currentMetrics",
        "autoscaling.alpha.kubernetes.io/current-metrics",
    ),
    (
        "status",
        "conditions",
        "autoscaling.alpha.kubernetes.io/conditions",
    ),
];

/// A stored autoscaler as one of `autoscaling/v1`.
pub(crate) fn to_v1(mut autoscaler: Value) -> Value {
    let map = as_map(&mut autoscaler);
    map.insert("apiVersion".into(), V1.into());
    let utilization = take_utilization(map, "spec", "metrics", "target");
    if let Some(utilization) = utilization {
        child(map, "spec").insert("targetCPUUtilizationPercentage".into(), utilization);
    }
    if let Some(utilization) = take_utilization(map, "status", "currentMetrics", "current") {
        child(map, "status").insert("currentCPUUtilizationPercentage".into(), utilization);
    }
    for (half, field, annotation) in ANNOTATED {
        let value = map
            .get_mut(half)
            .and_then(Value::as_object_mut)
            .and_then(|half| half.shift_remove(field));
        let said = value.filter(|value| {
            !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
        });
        if let Some(value) = said {
            child(child(map, "metadata"), "annotations")
                .insert(annotation.into(), value.to_string().into());
        }
    }
    autoscaler
}

/// An autoscaler of `autoscaling/v1` as it is stored.
pub(crate) fn to_v2(mut autoscaler: Value) -> Value {
    let map = as_map(&mut autoscaler);
    map.insert("apiVersion".into(), V2.into());
    for (half, field, annotation) in ANNOTATED {
        let annotations = map
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("annotations"));
        let text = annotations
            .and_then(Value::as_object_mut)
            .and_then(|map| map.shift_remove(annotation));
        let value = text
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(value) = value {
            let value: Value = value;
            child(map, half).insert(field.into(), value);
        }
    }
    let empty = map
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"))
        == Some(&json!({}));
    if empty {
        child(map, "metadata").shift_remove("annotations");
    }
    put_utilization(
        map,
        "spec",
        "targetCPUUtilizationPercentage",
        "metrics",
        |percent| json!({"type": "Utilization", "averageUtilization": percent}),
    );
    put_utilization(
        map,
        "status",
        "currentCPUUtilizationPercentage",
        "currentMetrics",
        |percent| json!({"averageUtilization": percent}),
    );
    autoscaler
}

/// Takes the processor's utilization out of a list of metrics.
fn take_utilization(
    map: &mut Map<String, Value>,
    half: &str,
    list: &str,
    at: &str,
) -> Option<Value> {
    let metrics = map.get_mut(half)?.get_mut(list)?.as_array_mut()?;
    let percent = |metric: &Value| {
        let resource = metric
            .get("resource")
            .filter(|_| metric["type"] == "Resource")?;
        let percent = resource
            .get(at)?
            .get("averageUtilization")
            .filter(|_| resource["name"] == "cpu");
        percent.filter(|percent| percent.is_i64()).cloned()
    };
    let (index, found) = metrics
        .iter()
        .enumerate()
        .find_map(|(index, metric)| Some((index, percent(metric)?)))?;
    metrics.remove(index);
    Some(found)
}

/// Puts the processor's utilization in front of a list of metrics.
fn put_utilization(
    map: &mut Map<String, Value>,
    half: &str,
    field: &str,
    list: &str,
    value: impl Fn(Value) -> Value,
) {
    let Some(half) = map.get_mut(half).and_then(Value::as_object_mut) else {
        return;
    };
    let Some(percent) = half
        .shift_remove(field)
        .filter(|percent| !percent.is_null())
    else {
        return;
    };
    let at = if list == "metrics" {
        "target"
    } else {
        "current"
    };
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", at: value(percent)}});
    match half.get_mut(list).and_then(Value::as_array_mut) {
        Some(metrics) => metrics.insert(0, metric),
        None => drop(half.insert(list.to_owned(), json!([metric]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_means_the_same_in_both_versions() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
        let stored = |metrics: Value| {
            json!({
                "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "a"},
                "spec": {"maxReplicas": 3, "metrics": metrics}, "status": {"desiredReplicas": 1},
            })
        };
        let old = to_v1(stored(json!([cpu, memory])));
        assert_eq!(
            old["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70})
        );
        assert_eq!(old["apiVersion"], "autoscaling/v1");
        assert_eq!(
            old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"],
            json!(json!([memory]).to_string())
        );
        for metrics in [json!([cpu, memory]), json!([cpu]), json!([memory])] {
            assert_eq!(to_v2(to_v1(stored(metrics.clone()))), stored(metrics));
        }
    }
}
