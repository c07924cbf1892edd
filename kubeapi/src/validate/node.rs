//! Checks nodes.

use std::collections::HashSet;

use serde_json::Value;

use super::faults::{faults, supported};
use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
};

pub(super) fn node(object: &Value) -> Vec<Cause> {
    let taints = items(object, "/spec/taints");
    let (mut causes, mut identities) = (Vec::new(), HashSet::new());
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        let (key, value) = (text_or_empty(taint, "/key"), text_or_empty(taint, "/value"));
        causes.extend(faults(&format!("{path}.key"), key, names::qualified_name(key)));
        causes.extend(faults(&format!("{path}.value"), value, names::label_value(value)));
        causes.extend(supported(taint, &path, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        if !identities.insert((key, text_or_empty(taint, "/effect"))) {
            causes.push(Cause::duplicate(path, key));
        }
    }
    causes
}
