//! Defaults of limit ranges. Source: `pkg/apis/core/v1/defaults.go` of Kubernetes.

use serde_json::{Map, Value, json};

use kubeapi::defaults::fields::{map_at, maps, text_at};
use kubeapi::object::default_to;

/// Sets the default limit of containers to the maximum, and the default request to the default limit or else the minimum.
pub(super) fn range(spec: &mut Map<String, Value>) {
    for limit in maps(spec, "limits").filter(|limit| text_at(limit, "type") == "Container") {
        for (to, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let Some(amounts) = map_at(limit, from).cloned() else {
                continue;
            };
            default_to(limit, to, json!({}));
            if let Some(defaults) = map_at(limit, to) {
                amounts
                    .into_iter()
                    .for_each(|(name, amount)| default_to(defaults, &name, amount));
            }
        }
    }
}
