//! Checks leases.

use serde_json::Value;

use super::faults::in_range;
use crate::cause::Cause;

pub(super) fn lease(object: &Value) -> Vec<Cause> {
    let number = |field: &str, least| {
        let value = object.pointer(&format!("/spec/{field}"));
        in_range(format!("spec.{field}"), value, least, i64::MAX)
    };
    let empty = object.pointer("/spec/holderIdentity").is_some_and(|holder| holder == "");
    let holder = empty.then(|| Cause::invalid("spec.holderIdentity", &"".into(), "must not be empty"));
    number("leaseDurationSeconds", 1).into_iter().chain(number("leaseTransitions", 0)).chain(holder).collect()
}
