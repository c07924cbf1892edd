//! Checks immutable fields of kinds that have no other rules for changes.

use serde_json::Value;

use crate::{cause::Cause, registry::Builtin};

const IMMUTABLE: &str = "field is immutable";

/// Returns the faults of a change.
pub(super) fn update(builtin: Builtin, old: &Value, new: &Value) -> Vec<Cause> {
    use Builtin as B;
    match builtin {
        B::PriorityClass => {
            let mut causes = forbidden(old, new, &["value"], "may not be changed in an update.");
            causes.extend(same(old, new, &["preemptionPolicy"]));
            causes
        }
        B::StorageClass => {
            let mut causes = forbidden(old, new, &["parameters"], "updates to parameters are forbidden.");
            causes.extend(forbidden(old, new, &["provisioner"], "updates to provisioner are forbidden."));
            causes.extend(forbidden(old, new, &["reclaimPolicy"], "updates to reclaimPolicy are forbidden."));
            causes.extend(same(old, new, &["volumeBindingMode"]));
            causes
        }
        B::RuntimeClass => same(old, new, &["handler"]),
        B::VolumeAttributesClass => {
            let mut causes = same(old, new, &["driverName"]);
            causes.extend(forbidden(old, new, &["parameters"], "updates to parameters are forbidden."));
            causes
        }
        B::ResourceClaim | B::ResourceClaimTemplate => same(old, new, &["spec"]),
        B::ResourceSlice => same(old, new, &["spec.driver", "spec.nodeName", "spec.allNodes"]),
        B::ControllerRevision => same(old, new, &["data"]),
        _ => Vec::new(),
    }
}

fn changed<'a>(old: &Value, new: &'a Value, field: &str) -> Option<&'a Value> {
    let pointer = format!("/{}", field.replace('.', "/"));
    let (old, new) =
        (old.pointer(&pointer).unwrap_or(&Value::Null), new.pointer(&pointer).unwrap_or(&Value::Null));
    (old != new).then_some(new)
}

fn same(old: &Value, new: &Value, fields: &[&str]) -> Vec<Cause> {
    let cause = |field: &&str| Some(Cause::invalid(*field, changed(old, new, field)?, IMMUTABLE));
    fields.iter().filter_map(cause).collect()
}

fn forbidden(old: &Value, new: &Value, fields: &[&str], why: &str) -> Vec<Cause> {
    let fields = fields.iter().filter(|field| changed(old, new, field).is_some());
    fields.map(|field| Cause::forbidden(*field, why)).collect()
}
