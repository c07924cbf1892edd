//! Which changes of a pod are judged anew: of what can change at all, other images and further containers.

use serde_json::Value;

use kubeapi::object::{items, text};

/// Whether `new` may violate what `old` kept to.
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
