//! Warnings about the existing pods of a namespace whose labels change.

use clock::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use super::{checks, labels::Standard, pod::Pod};
use crate::{Server, blocking};
use kubeapi::{
    object::{items, text, text_or_empty},
    registry::Builtin,
    status::StatusError,
};
use objectstore::{Object, Page, Scope};

/// The most pods that are checked, as in Kubernetes.
const MAX_PODS: usize = 3000;

/// How long the check may take, as in Kubernetes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the warnings about pods that violate the new labels.
pub(super) async fn warnings(
    api: &Server,
    namespace: &str,
    enforced: Standard,
) -> Result<Vec<String>, StatusError> {
    let Some(kind) = api.registry().of(Builtin::Pod).cloned() else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: Some(namespace.to_owned()),
    };
    let pods = api.store().list(&scope, &Page::default()).await?.items;
    let namespace = namespace.to_owned();
    blocking::run(move || {
        let deadline = Instant::now() + CHECK_TIMEOUT;
        of_pods(&namespace, enforced, order_pods(&pods), || {
            Instant::now() >= deadline
        })
    })
    .await
}

/// Returns the readable pods, further ones of the same controller last.
fn order_pods(pods: &[Object]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let (first, further): (Vec<_>, Vec<_>) = pods
        .iter()
        .filter_map(|pod| pod.value().ok())
        .partition(|pod| controller(pod).is_none_or(|uid| seen.insert(uid.to_owned())));
    first.into_iter().chain(further).collect()
}

/// Returns the uid of a pod's controller.
fn controller(pod: &Value) -> Option<&str> {
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let owners = items(pod, "/metadata/ownerReferences");
    owners
        .iter()
        .find(controls)
        .and_then(|owner| text(owner, "/uid"))
}

/// Returns the warnings about `pods`, until `is_over`; pods with the same violations share one.
pub(super) fn of_pods(
    namespace: &str,
    enforced: Standard,
    pods: Vec<Value>,
    is_over: impl Fn() -> bool,
) -> Vec<String> {
    let total = pods.len();
    let mut checked = 0;
    // the first name, in order of the alphabet, and how many there are
    let mut violating = BTreeMap::<String, (String, usize)>::new();
    for pod in pods.iter().take(MAX_PODS) {
        checked += 1;
        let found = checks::evaluate(enforced, &Pod::of(pod));
        if !found.is_empty() {
            let name = text_or_empty(pod, "/metadata/name");
            let (first, count) = violating
                .entry(found.reasons())
                .or_insert_with(|| (name.to_owned(), 0));
            if name < first.as_str() {
                name.clone_into(first);
            }
            *count += 1;
        }
        if is_over() {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < total {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !violating.is_empty() {
        let enforced = enforced.to_string();
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {enforced:?}"
        ));
    }
    let mut of_pods: Vec<_> = violating.into_iter().map(warning_text).collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

fn warning_text((reasons, (first, count)): (String, (String, usize))) -> String {
    match count {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        _ => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}
