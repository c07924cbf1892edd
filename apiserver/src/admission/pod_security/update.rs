//! Decides which updates of a pod are checked against its namespace's Pod Security level: those that change an image or add a container.

use serde_json::Value;

use kubeapi::object::{items, text};

/// Reports whether the update from `old` to `new` must be checked: the other fields that may change cannot violate a level.
pub(super) fn is_significant(old: &Value, new: &Value) -> bool {
    ["/spec/containers", "/spec/initContainers"]
        .iter()
        .any(|list| {
            let (old, new) = (items(old, list), items(new, list));
            old.len() != new.len()
                || old
                    .iter()
                    .zip(new)
                    .any(|(old, new)| image(old) != image(new))
        })
        || items(new, "/spec/ephemeralContainers").iter().any(|new| {
            let named = |other: &&Value| text(other, "/name") == text(new, "/name");
            let old = items(old, "/spec/ephemeralContainers").iter().find(named);
            old.is_none_or(|old| image(old) != image(new))
        })
}

fn image(container: &Value) -> Option<&str> {
    text(container, "/image")
}
