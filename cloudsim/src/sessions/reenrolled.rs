//! Nodes that begin anew: those that were given a certificate for a token, and not for their old certificate. Such a machine may hold
//! nothing of what its name was sent before.
//!
//! What was sent is in doubt from then on, and not forgotten: a node that had lost nothing but its certificate has to be told of the
//! end of what it holds.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Nodes that are waited for. Of others the records alone are in doubt, which an older session of the node may write anew.
const MAX_NODES: usize = 4096;

/// The certificates with which such nodes have not connected yet; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Reenrolled(Arc<Mutex<HashMap<String, Vec<u8>>>>);

impl Reenrolled {
    /// `node` was given this certificate (DER) for a token.
    pub fn add(&self, node: &str, certificate: &[u8]) {
        let mut all = self.0.lock();
        if all.len() < MAX_NODES || all.contains_key(node) {
            all.insert(node.to_owned(), certificate.to_owned());
        }
    }

    /// Whether `node`, which shows this certificate, begins anew.
    pub(crate) fn is_one(&self, node: &str, certificate: &[u8]) -> bool {
        self.0.lock().get(node).is_some_and(|given| given == certificate)
    }

    /// It has begun: from now on what it acknowledges counts.
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
            all.is_one("edge-1", b"new") && !all.is_one("edge-1", b"old") && !all.is_one("edge-2", b"new")
        );
        all.remove("edge-1", b"old");
        assert!(all.is_one("edge-1", b"new"), "another one has come meanwhile");
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
