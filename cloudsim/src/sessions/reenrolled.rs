//! Nodes that have re-enrolled: they were given a certificate for a join token instead of for their old certificate. Such a machine may
//! hold nothing of what was sent to its name before.
//!
//! The record of what was sent is then treated as unacknowledged, not as absent: a node that has lost only its certificate must still be
//! told of deletions.

use std::sync::Arc;

use clock::HashMap;
use parking_lot::Mutex;

/// How many nodes are remembered. Of further ones only the records are reset, and an older session of the node may write those again.
const MAX_NODES: usize = 4096;

/// The certificates with which such nodes have not connected yet; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Reenrolled(Arc<Mutex<HashMap<String, Vec<u8>>>>);

impl Reenrolled {
    /// Records that this certificate (DER) was issued to `node` for a token.
    pub fn add(&self, node: &str, certificate: &[u8]) {
        let mut all = self.0.lock();
        if all.len() < MAX_NODES || all.contains_key(node) {
            all.insert(node.to_owned(), certificate.to_owned());
        }
    }

    /// Reports whether `node` has re-enrolled and shows this certificate for the first time.
    pub(crate) fn is_one(&self, node: &str, certificate: &[u8]) -> bool {
        self.0
            .lock()
            .get(node)
            .is_some_and(|given| given == certificate)
    }

    /// Forgets the node: from now on its acknowledgements count.
    pub(crate) fn remove(&self, node: &str, certificate: &[u8]) {
        let mut all = self.0.lock();
        if all.get(node).is_some_and(|given| given == certificate) {
            all.remove(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_begins_anew_once_and_with_the_certificate_that_it_was_given() {
        let all = Reenrolled::default();
        all.add("edge-1", b"new");
        assert!(
            all.is_one("edge-1", b"new")
                && !all.is_one("edge-1", b"old")
                && !all.is_one("edge-2", b"new")
        );
        all.remove("edge-1", b"old");
        assert!(
            all.is_one("edge-1", b"new"),
            "another one has come meanwhile"
        );
        all.remove("edge-1", b"new");
        assert!(!all.is_one("edge-1", b"new"));
    }

    #[test]
    fn what_is_waited_for_is_bounded() {
        let all = Reenrolled::default();
        (0..2 * MAX_NODES).for_each(|number| all.add(&number.to_string(), b"x"));
        all.add("0", b"y");
        assert_eq!(all.0.lock().len(), MAX_NODES);
        assert!(all.is_one("0", b"y"));
    }
}
