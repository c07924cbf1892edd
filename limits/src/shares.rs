//! Limits how much each key (a client's address, a port) may use of a shared resource, so that one client leaves room for the others.

use std::{collections::HashMap, fmt, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// The most shares that may be in use at a time.
#[derive(Clone, Copy, Debug)]
pub struct ShareLimits {
    /// The limit of all keys together.
    pub all: usize,
    /// The limit of each key.
    pub each: usize,
}

/// Why a share is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoShare {
    /// The limit of all keys together is reached.
    All,
    /// The limit of this key is reached.
    Each,
}

/// Counts the shares of each key, and keeps a value of `V` for a key as long as it has a share. Cheap to clone.
#[derive(Debug)]
pub struct Shares<K, V = ()> {
    limits: ShareLimits,
    table: Arc<Mutex<Table<K, V>>>,
}

#[derive(Debug)]
struct Table<K, V> {
    all: usize,
    keys: HashMap<K, (usize, V)>,
}

/// One share in use; dropping it gives it back.
pub struct Share<K: Eq + Hash, V = ()> {
    table: Arc<Mutex<Table<K, V>>>,
    key: K,
    value: V,
}

impl<K: Clone + Eq + Hash, V: Clone> Shares<K, V> {
    /// Creates the limits with no share in use.
    #[must_use]
    pub fn new(limits: ShareLimits) -> Self {
        Self {
            limits,
            table: Arc::new(Mutex::new(Table {
                all: 0,
                keys: HashMap::new(),
            })),
        }
    }

    /// Takes a share for `key`. If the key has no share yet, `value` creates its value.
    ///
    /// # Errors
    /// When all, or this key, have as many as they may.
    pub fn admit_with(&self, key: K, value: impl FnOnce() -> V) -> Result<Share<K, V>, NoShare> {
        let mut table = self.table.lock();
        if table.all >= self.limits.all {
            return Err(NoShare::All);
        }
        if table.keys.get(&key).map_or(0, |(count, _)| *count) >= self.limits.each {
            return Err(NoShare::Each);
        }
        let (count, value) = table
            .keys
            .entry(key.clone())
            .or_insert_with(|| (0, value()));
        *count += 1;
        let value = value.clone();
        table.all += 1;
        Ok(Share {
            table: self.table.clone(),
            key,
            value,
        })
    }

    /// Returns the number of shares in use.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.table.lock().all
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Takes a share for `key`.
    ///
    /// # Errors
    /// When all, or this key, have as many as they may.
    pub fn admit(&self, key: K) -> Result<Share<K>, NoShare> {
        self.admit_with(key, || ())
    }
}

impl<K, V> Clone for Shares<K, V> {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits,
            table: self.table.clone(),
        }
    }
}

impl<K: Eq + Hash, V> Share<K, V> {
    /// Returns the value that all shares of this key have in common.
    pub fn value(&self) -> &V {
        &self.value
    }
}

impl<K: Eq + Hash, V> Drop for Share<K, V> {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        table.all = table.all.saturating_sub(1);
        if let Some((count, _)) = table.keys.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                table.keys.remove(&self.key);
            }
        }
    }
}

impl<K: Eq + Hash + fmt::Debug, V> fmt::Debug for Share<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Share")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_no_more_than_its_share() {
        let shares = Shares::new(ShareLimits { all: 8, each: 2 });
        let mut under_way: Vec<Share<u16>> = (0..2).map(|_| shares.admit(1).unwrap()).collect();
        assert_eq!(shares.admit(1).unwrap_err(), NoShare::Each);
        for key in 2..=4 {
            under_way.extend((0..2).map(|_| shares.admit(key).unwrap()));
        }
        assert_eq!(shares.under_way(), 8);
        assert_eq!(shares.admit(5).unwrap_err(), NoShare::All);
        drop(under_way);
        assert_eq!(shares.under_way(), 0);
        assert!(shares.table.lock().keys.is_empty());
        assert!(shares.admit(1).is_ok());
    }

    #[test]
    fn the_shares_of_a_key_have_one_value() {
        let shares = Shares::new(ShareLimits { all: 8, each: 8 });
        let made = std::cell::Cell::new(0);
        let value = || made.replace(made.get() + 1);
        let (first, second) = (
            shares.admit_with("a", value).unwrap(),
            shares.admit_with("a", value).unwrap(),
        );
        let other = shares.admit_with("b", value).unwrap();
        assert_eq!([first.value(), second.value(), other.value()], [&0, &0, &1]);
        drop((first, second));
        assert_eq!(shares.admit_with("a", value).unwrap().value(), &2);
    }
}
