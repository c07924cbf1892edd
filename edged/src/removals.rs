//! Removals in progress of deleted pods.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use parking_lot::Mutex;

/// Uids of pods whose containers are being stopped, and paths of directories that are being removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemovalsInProgress(Arc<Mutex<BTreeSet<String>>>);

impl RemovalsInProgress {
    /// Reports whether one of these directories is being removed. A static pod may come back meanwhile: it is in the API before
    /// this is called, and a removal is marked before the API is checked for the pod, so one of the two sees the other.
    pub(crate) fn is_removing(&self, directories: &[&Path]) -> bool {
        let removing = self.0.lock();
        directories
            .iter()
            .any(|directory| removing.contains(&directory.display().to_string()))
    }

    /// Marks a removal as begun; returns false if it is in progress already.
    pub(crate) fn begin(&self, what: String) -> bool {
        self.0.lock().insert(what)
    }

    /// Marks a removal as ended or to be tried again.
    pub(crate) fn end(&self, what: &str) {
        self.0.lock().remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recreated_pod_waits_for_the_removal_of_its_files() {
        let (removing, directory) = (RemovalsInProgress::default(), Path::new("/pods/uid"));
        assert!(
            removing.begin(directory.display().to_string())
                && !removing.begin(directory.display().to_string())
        );
        assert!(removing.is_removing(&[Path::new("/logs/ns_name_uid"), directory]));
        assert!(!removing.is_removing(&[Path::new("/pods/other")]));
        removing.end("/pods/uid");
        assert!(!removing.is_removing(&[directory]));
    }
}
