//! Counters of calls to the container runtime, by name.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{Histogram, SHORT_BUCKETS};

/// Counters of one kind of call.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Duration of the calls, and so also their number.
    pub(crate) took: Histogram,
    /// Number of failed calls.
    pub(crate) errors: u64,
}

/// Counters of all calls, by the kubelet's operation type. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations(Arc<Mutex<BTreeMap<String, Operation>>>);

impl Operations {
    /// Records a call, named as in the .proto, that has ended.
    pub(crate) fn count(&self, call: &str, took: Duration, failed: bool) {
        let mut operations = self.0.lock();
        let operation = operations
            .entry(operation_type(call))
            .or_insert_with(|| Operation {
                took: Histogram::new(SHORT_BUCKETS),
                errors: 0,
            });
        operation.took.observe(took);
        operation.errors += u64::from(failed);
    }

    /// Returns the current values.
    pub(crate) fn read(&self) -> BTreeMap<String, Operation> {
        self.0.lock().clone()
    }
}

/// Returns the kubelet's operation type of a call: `RunPodSandbox` is `run_podsandbox`.
fn operation_type(call: &str) -> String {
    let mut name = String::with_capacity(call.len() + 4);
    for letter in call.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name.replace("pod_sandbox", "podsandbox")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_kubelets_names() {
        for (call, name) in [
            ("RunPodSandbox", "run_podsandbox"),
            ("ListPodSandboxStats", "list_podsandbox_stats"),
            ("ContainerStatus", "container_status"),
            ("ImageFsInfo", "image_fs_info"),
            ("Version", "version"),
        ] {
            assert_eq!(operation_type(call), name);
        }
    }
}
