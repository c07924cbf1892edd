//! Computes the effect of a deletion on an object. Pure.

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::{
    object::{
        as_map, assign, child,
        definition_status::{FINALIZER, terminate},
        generation::next_generation,
        has_finalizers, is_deleting, items, metadata, text, text_or_empty,
        timestamp::format_timestamp,
    },
    registry::{Builtin, Kind},
};

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: i64 = 30;

/// The finalizer by which the garbage collector orphans dependents.
const ORPHAN: &str = "orphan";

/// The finalizer by which the garbage collector deletes dependents first.
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The grace period in seconds.
    pub grace: Option<i64>,
    /// The propagation policy; `None` keeps the object's finalizers.
    pub policy: Option<Policy>,
}

/// The propagation policy for dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Dependents are deleted afterwards.
    Background,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

/// The effect of a deletion on an object.
pub enum Next {
    /// The object is unchanged; nothing is written.
    Same,
    /// The object is replaced by this one.
    Replace(Value),
    /// The object is removed.
    Remove,
}

/// Returns the effect of a deletion of `current`.
pub fn deletion_effect(kind: &Kind, asked: &Deletion, current: &Value, now: Timestamp) -> Next {
    let mut next = current.clone();
    finalize(kind, asked.policy, &mut next);
    if is_deleting(current) {
        return hasten(kind, asked.grace, current, next, now);
    }
    let grace = if kind.is(Builtin::Pod) {
        grace_of_pod(asked.grace, current)
    } else {
        0
    };
    if grace == 0 && !is_awaited(kind, &next) {
        return Next::Remove;
    }
    Next::Replace(begin_deletion(kind, next, grace, now))
}

/// Returns the object as its deletion begins: a definition and a namespace have no grace period, and keep their generation.
pub fn begin_deletion(kind: &Kind, object: Value, grace: i64, now: Timestamp) -> Value {
    let mut deleting = mark_deleted(object, grace, after(now, grace));
    let is_namespace = kind.is(Builtin::Namespace);
    if is_namespace {
        child(as_map(&mut deleting), "status").insert("phase".into(), "Terminating".into());
    }
    if kind.is(Builtin::CustomResourceDefinition) {
        terminate(&mut deleting, &format_timestamp(now));
    }
    if is_namespace || kind.is(Builtin::CustomResourceDefinition) {
        metadata(&mut deleting).shift_remove("deletionGracePeriodSeconds");
        return deleting;
    }
    if deleting
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .is_some_and(|generation| generation > 0)
    {
        next_generation(&mut deleting);
    }
    deleting
}

/// Reports whether a finalizer still blocks the removal; a namespace has a list of its own in its spec.
pub fn is_awaited(kind: &Kind, object: &Value) -> bool {
    has_finalizers(object)
        || (kind.is(Builtin::Namespace) && !items(object, "/spec/finalizers").is_empty())
}

/// Adds finalizers: those of the propagation policy, and that of a definition's cleanup.
fn finalize(kind: &Kind, policy: Option<Policy>, object: &mut Value) {
    let before = items(object, "/metadata/finalizers");
    let mut finalizers: Vec<_> = before.to_vec();
    if let Some(policy) = policy {
        finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
        match policy {
            Policy::Background => {}
            Policy::Foreground => finalizers.push(FOREGROUND.into()),
            Policy::Orphan => finalizers.push(ORPHAN.into()),
        }
    }
    let needs_cleanup = kind.is(Builtin::CustomResourceDefinition) && !is_deleting(object);
    if needs_cleanup && !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    if finalizers != before {
        let finalizers = (!finalizers.is_empty()).then(|| json!(finalizers));
        assign(metadata(object), "finalizers", finalizers);
    }
}

/// Returns the object after a second deletion, which can only shorten the grace period. `next` is `current` with the finalizers that
/// this deletion asks for.
fn hasten(kind: &Kind, asked: Option<i64>, current: &Value, next: Value, now: Timestamp) -> Next {
    let pending = current
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    let pending = pending.unwrap_or_default();
    let grace = match asked.map(shortest) {
        _ if pending == 0 => 0,
        Some(grace) if grace < pending => grace,
        _ => pending,
    };
    if !is_awaited(kind, &next) && grace == 0 {
        return Next::Remove;
    }
    if grace == pending {
        return if next == *current {
            Next::Same
        } else {
            Next::Replace(next)
        };
    }
    let end = text_or_empty(current, "/metadata/deletionTimestamp")
        .parse()
        .unwrap_or(now);
    Next::Replace(mark_deleted(next, grace, after(end, grace - pending)))
}

fn mark_deleted(mut deleting: Value, grace: i64, end: Timestamp) -> Value {
    let metadata = metadata(&mut deleting);
    metadata.insert("deletionTimestamp".into(), format_timestamp(end).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    deleting
}

/// Returns the grace period of a pod in seconds: 0 where no container runs.
fn grace_of_pod(asked: Option<i64>, pod: &Value) -> i64 {
    let is_over = matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
    if is_over || text_or_empty(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = pod
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    shortest(asked.or(own).unwrap_or(DEFAULT_GRACE))
}

/// A negative period is a legacy way to ask for the shortest graceful one.
fn shortest(grace: i64) -> i64 {
    if grace < 0 { 1 } else { grace }
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let span = jiff::Span::new()
        .try_seconds(seconds)
        .unwrap_or_else(|_| 0.seconds());
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
