//! How many streams to nodes there are: of one caller, and of all.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{Identity, status::StatusError};

/// Streams of one caller at a time.
const PER_CALLER: usize = 256;
/// Streams of all callers at a time.
const TOTAL: usize = 1024;

/// The streams of an API; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<HashMap<String, usize>>>);

/// The place of one stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    user: String,
}

impl Slots {
    /// A place for a stream of `caller`; 429 where there is none.
    pub(super) fn take(&self, caller: &Identity) -> Result<Slot, StatusError> {
        let mut all = self.0.lock();
        if all.values().sum::<usize>() >= TOTAL {
            return Err(StatusError::too_many_streams(&format!("this API serves {TOTAL} streams to nodes")));
        }
        let own = all.entry(caller.user.clone()).or_default();
        if *own >= PER_CALLER {
            let why = format!("user {:?} has {PER_CALLER} streams to nodes", caller.user);
            return Err(StatusError::too_many_streams(&why));
        }
        *own += 1;
        Ok(Slot { slots: self.clone(), user: caller.user.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.slots.0.lock();
        if let Some(own) = all.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity { user: name.to_owned(), groups: Vec::new() }
    }

    #[test]
    fn a_caller_and_all_callers_have_a_bound_and_places_come_back() {
        let slots = Slots::default();
        let of =
            |name: &str, count| -> Vec<_> { (0..count).map(|_| slots.take(&user(name)).unwrap()).collect() };
        let own = of("a", PER_CALLER);
        let refused = slots.take(&user("a")).unwrap_err();
        assert_eq!(refused.code.as_u16(), 429);
        assert!(refused.body().to_string().contains("user \\\"a\\\" has 256"), "{}", refused.body());
        let others: Vec<_> = ["b", "c", "d"].into_iter().map(|name| of(name, PER_CALLER)).collect();
        assert_eq!(slots.take(&user("e")).unwrap_err().code.as_u16(), 429);
        drop(own);
        drop((slots.take(&user("a")).unwrap(), slots.take(&user("e")).unwrap(), others));
        assert!(slots.0.lock().is_empty());
    }
}
