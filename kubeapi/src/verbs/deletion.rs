//! What a deletion makes of the object that stands: pure.

use jiff::{Timestamp, ToSpan};
use serde_json::Value;

use super::{
    merge::next_generation,
    write::{Next, written},
};
use crate::{
    object::{as_map, child, has_finalizers, is_deleting, metadata, text, text_or_empty},
    registry::{Builtin, Kind},
};

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: i64 = 30;

/// The state after a deletion of `current` that asks for so many seconds of grace: often none.
pub(super) fn deleted(kind: &Kind, asked: Option<i64>, current: &Value, now: Timestamp) -> Next {
    if is_deleting(current) {
        return hastened(asked, current, now);
    }
    let grace = if kind.is(Builtin::Pod) { grace_of_pod(asked, current) } else { 0 };
    if grace == 0 && !has_finalizers(current) {
        return Next::Remove;
    }
    let mut deleting = marked(current, grace, after(now, grace));
    if kind.is(Builtin::Namespace) {
        child(as_map(&mut deleting), "status").insert("phase".into(), "Terminating".into());
    }
    if current
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .is_some_and(|generation| generation > 0)
    {
        next_generation(&mut deleting);
    }
    Next::Replace(deleting)
}

/// A deletion under way can only come sooner.
fn hastened(asked: Option<i64>, current: &Value, now: Timestamp) -> Next {
    let pending = current.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let pending = pending.unwrap_or_default();
    let grace = match asked.map(shortest) {
        _ if pending == 0 => 0,
        Some(grace) if grace < pending => grace,
        _ => return Next::Same,
    };
    if !has_finalizers(current) && grace == 0 {
        return Next::Remove;
    }
    if pending == 0 {
        return Next::Same;
    }
    let end = text_or_empty(current, "/metadata/deletionTimestamp").parse().unwrap_or(now);
    Next::Replace(marked(current, grace, after(end, grace - pending)))
}

fn marked(current: &Value, grace: i64, end: Timestamp) -> Value {
    let mut deleting = current.clone();
    let metadata = metadata(&mut deleting);
    metadata.insert("deletionTimestamp".into(), written(end).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    deleting
}

/// How many seconds a pod gets to end: none where nothing runs.
fn grace_of_pod(asked: Option<i64>, pod: &Value) -> i64 {
    let is_over = matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
    if is_over || text_or_empty(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    shortest(asked.or(own).unwrap_or(DEFAULT_GRACE))
}

/// A negative period is an old way to ask for the shortest that still is graceful.
fn shortest(grace: i64) -> i64 {
    if grace < 0 { 1 } else { grace }
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let span = jiff::Span::new().try_seconds(seconds).unwrap_or_else(|_| 0.seconds());
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
