//! Helpers that read pods and format findings.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::admission::pod_security::pod::{NONE, Pod, Violation};
use kubeapi::object::{items, text, text_or_empty};

impl<'a> Pod<'a> {
    /// Returns all containers: init, regular and ephemeral ones.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(|list| items(spec, list))
    }

    /// Returns the names of the containers for which the predicate is true.
    pub(super) fn containers_where(&self, is_like: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_like).map(name).collect()
    }

    /// What stands at a place in the security contexts: of the pod, and of each container with its name.
    pub(super) fn contexts(&self, pointer: &str) -> (&'a Value, Vec<(&'a str, &'a Value)>) {
        let containers = self
            .containers()
            .map(|container| (name(container), context(container, pointer)));
        (context(self.spec, pointer), containers.collect())
    }

    pub(super) fn volumes(&self) -> &'a [Value] {
        items(self.spec, "/volumes")
    }

    /// A field of the specification.
    pub(super) fn field(&self, name: &str) -> &'a Value {
        self.spec.get(name).unwrap_or(&NONE)
    }

    /// Its annotations with texts.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let all = self.metadata.get("annotations").and_then(Value::as_object);
        all.into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// The name of a container or volume.
pub(super) fn name(named: &Value) -> &str {
    text_or_empty(named, "/name")
}

/// What stands at a place in the security context of a pod's specification or a container; null where nothing does.
pub(super) fn context<'a>(of: &'a Value, pointer: &str) -> &'a Value {
    of.get("securityContext")
        .and_then(|context| context.pointer(pointer))
        .unwrap_or(&NONE)
}

/// Reports whether a value is set.
pub(super) fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// Runs `check`, except for Windows pods.
pub(super) fn unless_windows(
    pod: &Pod<'_>,
    check: impl Fn(&Pod<'_>) -> Option<Violation>,
) -> Option<Violation> {
    if text(pod.spec, "/os/name") == Some("windows") {
        None
    } else {
        check(pod)
    }
}

/// Runs `check`, except for pods in a user namespace of their own.
pub(super) fn unless_own_users(
    pod: &Pod<'_>,
    check: impl Fn(&Pod<'_>) -> Option<Violation>,
) -> Option<Violation> {
    if pod.field("hostUsers").as_bool() == Some(false) {
        None
    } else {
        check(pod)
    }
}

/// `"a", "b"`
pub(super) fn quote_names<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<_> = names
        .into_iter()
        .map(|name| format!("\"{}\"", name.as_ref()))
        .collect();
    quoted.join(", ")
}

/// `one` or `many`, as there are.
pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`
pub(super) fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        quote_names(names)
    )
}

/// Where a field is set: the pod, containers, or both.
#[derive(Debug, Default)]
pub(super) struct Setters<'a> {
    pub(super) pod: bool,
    pub(super) containers: Vec<&'a str>,
}

impl<'a> Setters<'a> {
    /// Those of `contexts` for whose value `is_bad`.
    pub(super) fn of(
        (pod, contexts): &(&'a Value, Vec<(&'a str, &'a Value)>),
        mut is_bad: impl FnMut(&'a Value) -> bool,
    ) -> Self {
        let pod = is_bad(pod);
        let bad = contexts.iter().filter(|(_, value)| is_bad(value));
        Self {
            pod,
            containers: bad.map(|(name, _)| *name).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }

    /// Each in words.
    pub(super) fn descriptions(&self) -> Vec<String> {
        let mut told = Vec::new();
        told.extend(self.pod.then(|| "pod".to_owned()));
        told.extend((!self.containers.is_empty()).then(|| containers(&self.containers)));
        told
    }

    /// `pod and container "a"`
    pub(super) fn join(&self) -> String {
        self.descriptions().join(" and ")
    }
}

/// The texts at `pointer` of the values for which `is_bad`, each once and in order.
pub(super) fn bad_texts<'a>(
    (pod, contexts): &(&'a Value, Vec<(&'a str, &'a Value)>),
    is_bad: impl Fn(&Value) -> bool,
) -> BTreeSet<&'a str> {
    let all = std::iter::once(*pod).chain(contexts.iter().map(|(_, value)| *value));
    all.filter(|value| is_bad(value))
        .filter_map(Value::as_str)
        .collect()
}
