//! Random numbers: of the system, or of a simulation's seed.

use rand::{
    Rng, RngCore,
    distr::{
        Distribution, StandardUniform,
        uniform::{SampleRange, SampleUniform},
    },
    rngs::ThreadRng,
};
use uuid::{Builder, Uuid};

use crate::simulation::with_random;

/// Random numbers, see [`rng`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

/// Returns the random numbers of this thread: fit for secrets, except in a simulation.
pub fn rng() -> Random {
    Random
}

/// Returns a random UUID of version 4.
pub fn uuid() -> Uuid {
    let mut bytes = [0; 16];
    Random.fill_bytes(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}

impl Random {
    /// Returns a random value.
    pub fn random<T>(mut self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        Rng::random(&mut self)
    }

    /// Returns a random value of a range, which must not be empty.
    pub fn random_range<T: SampleUniform>(mut self, range: impl SampleRange<T>) -> T {
        Rng::random_range(&mut self, range)
    }
}

fn system() -> ThreadRng {
    rand::rng()
}

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        with_random(RngCore::next_u32).unwrap_or_else(|| system().next_u32())
    }

    fn next_u64(&mut self) -> u64 {
        with_random(RngCore::next_u64).unwrap_or_else(|| system().next_u64())
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        if with_random(|random| random.fill_bytes(bytes)).is_none() {
            system().fill_bytes(bytes);
        }
    }
}
