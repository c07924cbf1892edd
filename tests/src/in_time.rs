//! What takes a limited time is tried more than once.

use std::fmt::Debug;

/// How often a timed attempt is made.
const TRIES: usize = 5;

/// Repeats an attempt that has a time limit until one is in time: a slow attempt may only mean that the machine was busy. The time of
/// each attempt is shown if none was in time.
pub async fn in_time<S: Debug>(what: &str, mut attempt: impl AsyncFnMut() -> Result<(), S>) {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        match attempt().await {
            Ok(()) => return,
            Err(took) => late.push(took),
        }
    }
    panic!("{what}: not once in time: {late:?}");
}
