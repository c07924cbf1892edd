//! Runs a target on inputs of one seed after the other for a time.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::{Mutator, Target};

/// How long a decoder may take for one input, on a machine that is also busy otherwise.
const SLOW: Duration = Duration::from_secs(20);

/// An input on which a decoder failed.
#[derive(Debug)]
pub struct Crash {
    /// The seed that generates the input.
    pub seed: u64,
    /// The input.
    pub input: Vec<u8>,
    /// The panic's message.
    pub why: String,
}

/// Runs `target` on inputs from seed `first` on until `limit` is over, and returns how many.
///
/// # Errors
/// The first input that made the target fail.
pub fn campaign(target: &Target, first: u64, limit: Duration) -> Result<u64, Crash> {
    let corpus = (target.corpus)();
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    let begun = Instant::now();
    // Recorded inputs are also run unchanged.
    for input in &corpus {
        survive(target, first, input)?;
    }
    let mut inputs = 0;
    while begun.elapsed() < limit {
        let seed = first.wrapping_add(inputs);
        survive(target, seed, &Mutator::new(seed).input(&corpus))?;
        inputs += 1;
    }
    Ok(inputs)
}

fn survive(target: &Target, seed: u64, input: &[u8]) -> Result<(), Crash> {
    let begun = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let why = match ended {
        Err(panic) => panic_message(panic.as_ref()),
        Ok(()) if begun.elapsed() > SLOW => format!("it took {:?}", begun.elapsed()),
        Ok(()) => return Ok(()),
    };
    Err(Crash {
        seed,
        input: input.to_vec(),
        why,
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}
