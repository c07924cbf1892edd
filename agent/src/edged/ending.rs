//! What is being removed of pods that are gone.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use parking_lot::Mutex;

/// Pods whose containers are being stopped, by uid, and directories that are being removed, by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Mutex<BTreeSet<String>>>);

impl Ending {
    /// Whether the files of a pod are being removed that has come back meanwhile, as a static pod may: it is in the API before this is
    /// asked, and what is removed is marked before the API is asked for it, so that one of the two is seen.
    pub(crate) fn is_clearing(&self, places: &[&Path]) -> bool {
        let ending = self.0.lock();
        places.iter().any(|place| ending.contains(&place.display().to_string()))
    }

    /// Marks what is being removed now; `false`: it is marked already.
    pub(super) fn begin(&self, what: String) -> bool {
        self.0.lock().insert(what)
    }

    /// It is removed, or is to be tried again.
    pub(super) fn end(&self, what: &str) {
        self.0.lock().remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_back_waits_for_the_end_of_its_files() {
        let (ending, place) = (Ending::default(), Path::new("/pods/uid"));
        assert!(ending.begin(place.display().to_string()) && !ending.begin(place.display().to_string()));
        assert!(ending.is_clearing(&[Path::new("/logs/ns_name_uid"), place]));
        assert!(!ending.is_clearing(&[Path::new("/pods/other")]));
        ending.end("/pods/uid");
        assert!(!ending.is_clearing(&[place]));
    }
}
