//! Hash tables whose order is that of a seed in simulations.

use std::{
    collections,
    hash::{BuildHasher, DefaultHasher},
};

use crate::is_simulated;

/// As the one of the standard library, with fixed keys in a simulation.
#[derive(Clone, Debug)]
pub struct RandomState(Option<std::hash::RandomState>);

impl Default for RandomState {
    fn default() -> Self {
        Self((!is_simulated()).then(std::hash::RandomState::new))
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0
            .as_ref()
            .map_or_else(DefaultHasher::new, BuildHasher::build_hasher)
    }
}

/// A map of the standard library; it is created by `default()`.
pub type HashMap<K, V> = collections::HashMap<K, V, RandomState>;
/// A set of the standard library; it is created by `default()`.
pub type HashSet<T> = collections::HashSet<T, RandomState>;
