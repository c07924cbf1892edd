//! Events, of both groups. Messages call the fields as the core group does, as Kubernetes does.

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::names,
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{Check, Present},
            row,
        },
        place::Place,
    },
};

/// The longest texts in bytes: what messages call them, their name in `events.k8s.io`, the limit, and whether they are required.
const LIMITS: [(&str, &str, usize, bool); 4] = [
    ("reportingInstance", "reportingInstance", 128, true),
    ("action", "action", 128, true),
    ("reason", "reason", 128, true),
    ("message", "note", 1024, false),
];

/// An event of the core group.
pub(super) static EVENT: &[Row] = &[row("", Check(of_core))];

/// A new event of `events.k8s.io`.
pub(super) static NEW_EVENT: &[Row] = &[
    row("", Check(of_events)),
    row("series?", Check(series)),
    row("eventTime", Present("")),
    row("type", Check(known_type)),
    row("deprecatedFirstTimestamp>firstTimestamp", Check(unset)),
    row("deprecatedLastTimestamp>lastTimestamp", Check(unset)),
    row("deprecatedCount>count", Check(unset)),
    row("deprecatedSource>source", Check(unset)),
];

/// A changed event of `events.k8s.io`.
pub(super) static CHANGED_EVENT: &[Row] =
    &[row("", Check(of_events)), row("series?", Check(series))];

/// What of an event of `events.k8s.io` may not change.
pub(super) static CHANGES: &[Change] = &[
    change("regarding", Kept::Renamed("involvedObject")),
    change("reason", Kept::Same),
    change("note", Kept::Renamed("message")),
    change("deprecatedSource", Kept::Renamed("source")),
    change("deprecatedFirstTimestamp", Kept::Renamed("firstTimestamp")),
    change("deprecatedLastTimestamp", Kept::Renamed("lastTimestamp")),
    change("deprecatedCount", Kept::Renamed("count")),
    change("type", Kept::Same),
    change("eventTime", Kept::Same),
    change("action", Kept::Same),
    change("related", Kept::Same),
    change("reportingController", Kept::Same),
    change("reportingInstance", Kept::Same),
];

fn of_core(event: &Place<'_>, causes: &mut Vec<Cause>) {
    let controller = if event.has("reportingComponent") {
        "reportingComponent"
    } else {
        "reportingController"
    };
    legacy(event, "/involvedObject/namespace", controller, causes);
}

fn of_events(event: &Place<'_>, causes: &mut Vec<Cause>) {
    legacy(event, "/regarding/namespace", "reportingController", causes);
}

/// Checks what all events must have; `involved` and `controller` are names of fields.
fn legacy(event: &Place<'_>, involved: &str, controller: &str, causes: &mut Vec<Cause>) {
    let own = event
        .pointer("/metadata/namespace")
        .as_str()
        .unwrap_or_default();
    let involved = event.pointer(involved).as_str().unwrap_or_default();
    let has_time = event.has("eventTime");
    let fits = match (has_time, involved) {
        (false, "") => matches!(own, "" | "default"),
        (false, involved) => own == involved,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &involved.into(),
            "does not match event.namespace",
        ));
    }
    if !has_time {
        return;
    }
    let controller = event.text(controller);
    if controller.is_empty() {
        causes.push(Cause::required("reportingController", ""));
    }
    let faults = names::qualified_name(controller);
    causes.extend(
        faults
            .iter()
            .map(|why| Cause::invalid("reportingController", &controller.into(), why)),
    );
    for (shown, other, limit, is_required) in LIMITS {
        let text = if event.has(shown) {
            event.text(shown)
        } else {
            event.text(other)
        };
        if is_required && text.is_empty() {
            causes.push(Cause::required(shown, ""));
        }
        if text.len() > limit {
            causes.push(Cause::invalid(
                shown,
                &"".into(),
                &format!("can have at most {limit} characters"),
            ));
        }
    }
}

fn series(series: &Place<'_>, causes: &mut Vec<Cause>) {
    if series.number("count").unwrap_or_default() < 2 {
        causes.push(series.invalid("count", &"".into(), "should be at least 2"));
    }
    if !series.has("lastObservedTime") {
        causes.push(Cause::required(series.field("lastObservedTime"), ""));
    }
}

fn known_type(type_: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = type_.value.as_str().unwrap_or_default();
    if !matches!(text, "Normal" | "Warning") {
        causes.push(Cause::invalid(
            type_.path(),
            &"".into(),
            &format!("has invalid value: {text}"),
        ));
    }
}

fn unset(value: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_set = match value.value {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    if is_set {
        causes.push(Cause::invalid(
            value.path(),
            &"".into(),
            "needs to be unset",
        ));
    }
}
