//! Counts what clients have the broker keep for them besides queued messages: wills, subscriptions and topic aliases.

use std::collections::HashMap;

use crate::{config::Limits, holder::Holder};

/// What a subscription or an alias takes besides its text, bytes.
pub(super) const ENTRY_BYTES: usize = 128;

/// The bytes that are kept, of each client and of all.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    total: usize,
    clients: HashMap<Holder, usize>,
}

impl Kept {
    /// Reports whether `more` bytes of a client are within the limits.
    pub(super) fn has_room(&self, holder: Option<&Holder>, more: usize, limits: &Limits) -> bool {
        let own = holder.map_or(0, |holder| self.clients.get(holder).copied().unwrap_or(0));
        self.total + more <= limits.total_kept_bytes
            && (holder.is_none() || own + more <= limits.kept_bytes_per_client)
    }

    /// Adds bytes of this client.
    pub(super) fn add(&mut self, holder: Option<&Holder>, bytes: usize) {
        self.total += bytes;
        if let Some(holder) = holder.filter(|_| bytes > 0) {
            *self.clients.entry(holder.clone()).or_default() += bytes;
        }
    }

    /// Removes bytes that were added for this client.
    pub(super) fn remove(&mut self, holder: Option<&Holder>, bytes: usize) {
        self.total -= bytes;
        if let Some(holder) = holder
            && let Some(own) = self.clients.get_mut(holder)
        {
            *own -= bytes;
            if *own == 0 {
                self.clients.remove(holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_quota_and_all_have_a_limit() {
        let limits = Limits {
            kept_bytes_per_client: 100,
            total_kept_bytes: 250,
            ..Limits::default()
        };
        let [ann, eve] = ["ann", "eve"].map(|user| Holder::User(user.into()));
        let mut kept = Kept::default();
        kept.add(Some(&ann), 90);
        assert!(kept.has_room(Some(&ann), 10, &limits) && !kept.has_room(Some(&ann), 11, &limits));
        kept.add(Some(&eve), 100);
        assert!(
            kept.has_room(None, 60, &limits) && !kept.has_room(None, 61, &limits),
            "all clients"
        );
        kept.remove(Some(&eve), 100);
        kept.remove(Some(&ann), 90);
        assert_eq!((kept.total, kept.clients.len()), (0, 0));
    }
}
