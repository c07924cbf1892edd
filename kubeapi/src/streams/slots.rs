//! Limits the number of streams: of one caller, to one node, and of all. Some are reserved for `system:masters`, so that other callers
//! cannot lock an administrator out.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{Identity, status::StatusError};

/// The most streams of all callers at the same time.
const MAX_STREAMS: usize = 1024;
/// The most streams of all callers that are not in `system:masters`.
const MAX_NON_ADMIN_STREAMS: usize = 896;
/// The most of those streams to one node; a node serves 256.
const MAX_NON_ADMIN_STREAMS_PER_NODE: usize = 192;
/// The most streams of one such caller.
const MAX_STREAMS_PER_CALLER: usize = 256;
/// The most streams of one such caller to one node.
const MAX_STREAMS_PER_CALLER_AND_NODE: usize = 64;

/// The streams in use of an API; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<HashMap<Key, usize>>>);

/// A caller and a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    user: String,
    is_master: bool,
    node: String,
}

/// The slot of one stream; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    key: Key,
}

impl Slots {
    /// Takes a slot for a stream of `caller` to `node`; fails with 429 where there is none.
    pub(super) fn take(&self, caller: &Identity, node: &str) -> Result<Slot, StatusError> {
        let (user, is_master) = (caller.user.clone(), caller.is_master());
        let key = Key {
            user,
            is_master,
            node: node.to_owned(),
        };
        let mut all = self.0.lock();
        let sum = |counts: &dyn Fn(&Key) -> bool| -> usize {
            all.iter()
                .filter(|(key, _)| counts(key))
                .map(|(_, count)| count)
                .sum()
        };
        let full = |why: String| Err(StatusError::too_many_streams(&why));
        if sum(&|_| true) >= MAX_STREAMS {
            return full(format!("this API serves {MAX_STREAMS} streams to nodes"));
        }
        if !is_master {
            if sum(&|other| other.user == key.user) >= MAX_STREAMS_PER_CALLER {
                return full(format!(
                    "user {:?} has {MAX_STREAMS_PER_CALLER} streams to nodes",
                    key.user
                ));
            }
            if all
                .get(&key)
                .is_some_and(|own| *own >= MAX_STREAMS_PER_CALLER_AND_NODE)
            {
                return full(format!(
                    "user {:?} has {MAX_STREAMS_PER_CALLER_AND_NODE} streams to node {node:?}",
                    key.user
                ));
            }
            if sum(&|other| !other.is_master) >= MAX_NON_ADMIN_STREAMS {
                return full(format!(
                    "this API serves {MAX_NON_ADMIN_STREAMS} streams to nodes for users"
                ));
            }
            if sum(&|other| !other.is_master && other.node == node)
                >= MAX_NON_ADMIN_STREAMS_PER_NODE
            {
                return full(format!(
                    "this API serves {MAX_NON_ADMIN_STREAMS_PER_NODE} streams to node {node:?} for users"
                ));
            }
        }
        *all.entry(key.clone()).or_default() += 1;
        Ok(Slot {
            slots: self.clone(),
            key,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.slots.0.lock();
        if let Some(own) = all.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity {
            user: name.to_owned(),
            ..Identity::default()
        }
    }

    #[test]
    fn callers_and_nodes_have_bounds_and_administrators_have_the_rest() {
        let slots = Slots::default();
        let of = |name: &str, node: &str, count| -> Vec<_> {
            (0..count)
                .map(|_| slots.take(&user(name), node).unwrap())
                .collect()
        };
        let refused = |name: &str, node: &str| {
            let refused = slots.take(&user(name), node).unwrap_err();
            assert_eq!(refused.code.as_u16(), 429);
            refused.body().to_string()
        };
        let own = of("a", "n0", MAX_STREAMS_PER_CALLER_AND_NODE);
        assert!(refused("a", "n0").contains("user \\\"a\\\" has 64 streams to node"));
        let more = ["n1", "n2", "n3"].map(|node| of("a", node, MAX_STREAMS_PER_CALLER_AND_NODE));
        assert!(refused("a", "n4").contains("user \\\"a\\\" has 256 streams to nodes"));
        let others = ["b", "c"].map(|name| of(name, "n0", MAX_STREAMS_PER_CALLER_AND_NODE));
        assert!(refused("d", "n0").contains("192 streams to node"));
        let master = slots.take(&Identity::master(), "n0").unwrap();
        let names: Vec<String> = (0..8).map(|number| format!("u{number}")).collect();
        let all: Vec<_> = names
            .iter()
            .map(|name| of(name, name, MAX_STREAMS_PER_CALLER_AND_NODE))
            .collect();
        assert!(refused("e", "n9").contains("896 streams to nodes for users"));
        let masters: Vec<_> = (0..127)
            .map(|_| slots.take(&Identity::master(), "n0").unwrap())
            .collect();
        assert_eq!(
            slots
                .take(&Identity::master(), "n0")
                .unwrap_err()
                .code
                .as_u16(),
            429
        );
        drop((own, more, others, master, all, masters));
        drop(slots.take(&user("a"), "n0").unwrap());
        assert!(slots.0.lock().is_empty());
    }
}
