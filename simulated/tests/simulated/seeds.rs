//! Random worlds. `OUTRIGGER_SEED=7` runs that one alone and shows it; `OUTRIGGER_SEEDS=100000` runs so many, from
//! `OUTRIGGER_FIRST_SEED` on; `OUTRIGGER_STEPS=60` lets more happen in each of them, `OUTRIGGER_HOURS=24` lets a day be as long.

use std::{
    panic,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use clock::{simulate, simulate_with_trace};
use simulated::{Life, World};

use crate::{Again, check, number};

/// Worlds in the suite in which something happens all the time …
const BUSY: (u64, Life) = (
    24,
    Life {
        steps: 30,
        time: Duration::ZERO,
    },
);
/// … and those of a working day.
const DAYS: (u64, Life) = (
    4,
    Life {
        steps: 30,
        time: Duration::from_secs(8 * 3600),
    },
);

/// So many steps as asked for, or as in the suite.
fn steps(suite: Life) -> Life {
    let steps = number("OUTRIGGER_STEPS").map(|steps| u32::try_from(steps).unwrap());
    Life {
        steps: steps.unwrap_or(suite.steps),
        ..suite
    }
}

/// One life; it fails with its trace, and with what shows it again.
fn live(seed: u64, life: Life, show: bool) {
    let hours = life.time.as_secs() / 3600;
    let _again = Again(format!(
        "OUTRIGGER_SEED={seed} OUTRIGGER_STEPS={} OUTRIGGER_HOURS={hours}",
        life.steps
    ));
    if !show {
        return check(simulate(seed, World::live(seed, life)).unwrap());
    }
    let mut ended = simulate_with_trace(seed, World::live(seed, life)).unwrap();
    for line in std::mem::take(&mut ended.trace.kept) {
        println!("{line}");
    }
    check(ended);
}

/// All lives that are asked for, on all processors.
fn live_all(seeds: u64, life: Life) {
    if let Some(seed) = number("OUTRIGGER_SEED") {
        return live(seed, life, true);
    }
    let first = number("OUTRIGGER_FIRST_SEED").unwrap_or_default();
    let end = first + number("OUTRIGGER_SEEDS").unwrap_or(seeds);
    let next = AtomicU64::new(first);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            if let Err(failed) = panic::catch_unwind(|| live(seed, life, false)) {
                // the other threads need not go on
                next.store(end, Ordering::Relaxed);
                panic::resume_unwind(failed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("seeds {first} to {}: {life:?}", end - 1);
}

#[test]
fn no_seed_breaks_a_rule() {
    live_all(BUSY.0, steps(BUSY.1));
}

#[test]
fn no_day_breaks_a_rule() {
    let (seeds, day) = (DAYS.0, steps(DAYS.1));
    let hours = number("OUTRIGGER_HOURS").map(|hours| Duration::from_secs(hours * 3600));
    live_all(
        seeds,
        Life {
            time: hours.unwrap_or(day.time),
            ..day
        },
    );
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let life = steps(BUSY.1);
    for seed in 0..4 {
        let run = || simulate_with_trace(seed, World::live(seed, life)).unwrap();
        let (first, second) = (run().trace, run().trace);
        let differs = first
            .kept
            .iter()
            .zip(&second.kept)
            .position(|(one, other)| one != other);
        if let Some(at) = differs {
            let part = |trace: &clock::Trace| {
                let lines = trace.kept.iter().skip(at.saturating_sub(20)).take(25);
                lines.cloned().collect::<Vec<_>>().join("\n")
            };
            panic!(
                "seed {seed} differs from line {at} on:\n{}\n----\n{}",
                part(&first),
                part(&second)
            );
        }
        assert_eq!(first.lines, second.lines, "seed {seed}");
    }
}
