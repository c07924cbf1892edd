//! Manifests of pods that no API server admits, as static pods: completed and checked as it would.

use serde_json::Value;

use crate::{
    defaults,
    object::{as_map, child},
    registry::{Builtin, Registry},
    validate,
};

/// The pod with the defaults that the API server fills in, and without those of admission: no account, no tolerations, no
/// priority.
///
/// # Errors
/// The pod breaks a rule: all that it breaks in one text, as `kubectl` would show it.
pub fn complete_pod(mut pod: Value) -> Result<Value, String> {
    defaults::pod::fill_unadmitted(child(as_map(&mut pod), "spec"));
    let registry = Registry::builtin();
    let causes = registry
        .of(Builtin::Pod)
        .map(|kind| validate::new_pod(kind, &pod))
        .unwrap_or_default();
    let texts: Vec<_> = causes.iter().map(ToString::to_string).collect();
    if texts.is_empty() {
        Ok(pod)
    } else {
        Err(texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_is_completed_without_what_admission_adds() {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}});
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}});
        let spec = complete_pod(pod).unwrap()["spec"].take();
        assert_eq!(spec["restartPolicy"], "Always");
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        for absent in ["serviceAccountName", "tolerations", "priority"] {
            assert!(spec.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn a_manifest_against_the_rules_is_refused_with_all_of_them() {
        let pod = json!({"metadata": {"name": "P"}, "spec": {"containers": [{"name": "c"}]}});
        let refused = complete_pod(pod).unwrap_err();
        assert!(
            refused.contains("metadata.name") && refused.contains("spec.containers[0].image"),
            "{refused}"
        );
    }
}
