//! The conditions of a namespace that is being deleted. Pure.
//!
//! Source: `status_condition_utils.go` of Kubernetes' namespace controller, which has these messages.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;

use crate::controllers::workloads::seconds;

/// The result of one pass over the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Why discovery failed.
    pub(super) discovery: Option<String>,
    /// Why deletions failed.
    pub(super) failures: Vec<String>,
    /// The number of remaining objects, by `<plural>.<group>`.
    remaining: BTreeMap<String, usize>,
    /// The number of remaining objects with each finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Found {
    /// Counts the remaining objects of a kind by their finalizers.
    pub(super) fn count_remaining<'a>(
        &mut self,
        plural: &str,
        group: &str,
        objects: impl Iterator<Item = &'a [String]>,
    ) {
        for finalizers in objects {
            *self
                .remaining
                .entry(format!("{plural}.{group}"))
                .or_default() += 1;
            for finalizer in finalizers {
                *self.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
    }

    /// Reports whether nothing remains and nothing failed.
    pub(super) fn is_empty(&self) -> bool {
        self.discovery.is_none() && self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Returns the namespace's conditions, given its present ones.
    pub(super) fn conditions(
        &self,
        old: &[NamespaceCondition],
        now: Timestamp,
    ) -> Vec<NamespaceCondition> {
        let mut conditions = old.to_vec();
        for (type_, value) in self.values() {
            let (status, reason, message) = match value {
                Ok((reason, message)) => ("False", reason, message.to_owned()),
                Err((reason, message)) => ("True", reason, message),
            };
            let known = conditions
                .iter_mut()
                .find(|condition| condition.type_ == type_);
            let since = known.as_ref().filter(|known| known.status == status);
            let since = since.and_then(|known| known.last_transition_time.clone());
            let condition = NamespaceCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: since.or_else(|| Some(seconds(now))),
            };
            match known {
                Some(known) => *known = condition,
                None => conditions.push(condition),
            }
        }
        conditions
    }

    /// Returns each condition with reason and message; `Err` if it is true.
    fn values(&self) -> [(&'static str, Value); 5] {
        let content = match self.failures.as_slice() {
            [] => Ok((
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            )),
            failures => Err((
                "ContentDeletionFailed",
                format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                ),
            )),
        };
        let listed = |all: &BTreeMap<String, usize>, verb: &str| {
            let texts = all
                .iter()
                .map(|(name, count)| format!("{name} {verb} {count} resource instances"));
            texts.collect::<Vec<_>>().join(", ")
        };
        let remaining = if self.remaining.is_empty() {
            Ok(("ContentRemoved", "All content successfully removed"))
        } else {
            let all = listed(&self.remaining, "has");
            Err((
                "SomeResourcesRemain",
                format!("Some resources are remaining: {all}"),
            ))
        };
        let finalizers = if self.finalizers.is_empty() {
            Ok((
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ))
        } else {
            let all = listed(&self.finalizers, "in");
            let message = format!("Some content in the namespace has finalizers remaining: {all}");
            Err(("SomeFinalizersRemain", message))
        };
        let discovery = match &self.discovery {
            None => Ok((
                "ResourcesDiscovered",
                "All resources successfully discovered",
            )),
            Some(why) => Err(("DiscoveryFailed", why.clone())),
        };
        [
            ("NamespaceDeletionDiscoveryFailure", discovery),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                Ok((
                    "ParsedGroupVersions",
                    "All legacy kube types successfully parsed",
                )),
            ),
            ("NamespaceDeletionContentFailure", content),
            ("NamespaceContentRemaining", remaining),
            ("NamespaceFinalizersRemaining", finalizers),
        ]
    }
}

type Value = Result<(&'static str, &'static str), (&'static str, String)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(conditions: &[NamespaceCondition]) -> Vec<String> {
        let told = |one: &NamespaceCondition| {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            format!(
                "{} {} {}: {}",
                one.type_,
                one.status,
                text(&one.reason),
                text(&one.message)
            )
        };
        conditions.iter().map(told).collect()
    }

    #[test]
    fn what_is_left_is_told_in_kubernetes_words() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut found = Found::default();
        found.count_remaining("pods", "", [&["a/b".to_owned()][..], &[]].into_iter());
        found.count_remaining("deployments", "apps", [&[][..]].into_iter());
        found.failures.push("no".into());
        let first = found.conditions(&[], at(10));
        assert_eq!(
            describe(&first),
            [
                "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: no",
                "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a/b in 1 resource instances",
            ]
        );
        assert_eq!(
            found.conditions(&first, at(20)),
            first,
            "nothing new is no change"
        );
        let last = Found::default().conditions(&first, at(30));
        assert_eq!(
            describe(&last)[2..],
            [
                "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
                "NamespaceContentRemaining False ContentRemoved: All content successfully removed",
                "NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
            ]
        );
        assert_eq!(last[0].last_transition_time, first[0].last_transition_time);
        assert_ne!(last[4].last_transition_time, first[4].last_transition_time);
        let blind = Found {
            discovery: Some("none".into()),
            ..Found::default()
        };
        assert!(!blind.is_empty());
        assert!(describe(&blind.conditions(&[], at(0)))[0].ends_with("True DiscoveryFailed: none"));
    }
}
