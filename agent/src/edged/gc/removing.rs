//! What is being removed of pods that are gone.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use parking_lot::Mutex;

/// Pods whose containers are being stopped, by uid, and directories that are being removed, by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removing(Arc<Mutex<BTreeSet<String>>>);

impl Removing {
    /// Whether the files of a pod are being removed that has come back meanwhile, as a static pod may: it is in the API before this is
    /// asked, and what is removed is marked before the API is asked for it, so that one of the two is seen.
    pub(crate) fn is_clearing(&self, places: &[&Path]) -> bool {
        let removing = self.0.lock();
        places.iter().any(|place| removing.contains(&place.display().to_string()))
    }

    /// Marks what is being removed now; `false`: it is marked already.
    pub(in crate::edged) fn begin(&self, what: String) -> bool {
        self.0.lock().insert(what)
    }

    /// It is removed, or is to be tried again.
    pub(in crate::edged) fn end(&self, what: &str) {
        self.0.lock().remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_back_waits_for_the_end_of_its_files() {
        let (removing, place) = (Removing::default(), Path::new("/pods/uid"));
        assert!(removing.begin(place.display().to_string()) && !removing.begin(place.display().to_string()));
        assert!(removing.is_clearing(&[Path::new("/logs/ns_name_uid"), place]));
        assert!(!removing.is_clearing(&[Path::new("/pods/other")]));
        removing.end("/pods/uid");
        assert!(!removing.is_clearing(&[place]));
    }
}
