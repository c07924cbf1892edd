//! Defaults of claims for devices. Source: `pkg/apis/resource/v1/defaults.go` of Kubernetes.

use serde_json::{Map, Value};

use kubeapi::defaults::fields::{default_number, default_text, map_at, maps, text_at};

pub(super) fn claim(spec: &mut Map<String, Value>) {
    let Some(devices) = map_at(spec, "devices") else {
        return;
    };
    for request in maps(devices, "requests") {
        if let Some(exactly) = map_at(request, "exactly") {
            count(exactly);
        }
        maps(request, "firstAvailable").for_each(count);
    }
}

/// A request that names no number is for one device.
fn count(request: &mut Map<String, Value>) {
    default_text(request, "allocationMode", "ExactCount");
    if text_at(request, "allocationMode") == "ExactCount" {
        default_number(request, "count", 1);
    }
    for toleration in maps(request, "tolerations") {
        default_text(toleration, "operator", "Equal");
    }
}
