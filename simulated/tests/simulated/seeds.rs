//! Random worlds. `OUTRIGGER_SEED=7` runs that one alone and shows it; `OUTRIGGER_SEEDS=100000` runs so many, from
//! `OUTRIGGER_FIRST_SEED` on; `OUTRIGGER_STEPS=60` lets more happen in each of them, `OUTRIGGER_HOURS=8` in so much virtual time.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use simulated::{Life, World, run};

/// Worlds in the suite, in which something happens all the time.
const SEEDS: u64 = 120;
const BUSY: Life = Life { steps: 30, time: Duration::ZERO };

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// As asked for, or as in the suite.
fn life(suite: Life) -> Life {
    let hours = number("OUTRIGGER_HOURS").map(|hours| Duration::from_secs(hours * 3600));
    let steps = number("OUTRIGGER_STEPS").map(|steps| u32::try_from(steps).unwrap());
    Life { steps: steps.unwrap_or(suite.steps), time: hours.unwrap_or(suite.time) }
}

#[test]
fn no_seed_breaks_a_rule() {
    let life = life(BUSY);
    if let Some(seed) = number("OUTRIGGER_SEED") {
        let (ended, trace) = run(World::live(seed, life, true));
        println!("{trace}");
        assert_eq!(ended.broken, None);
        return;
    }
    let first = number("OUTRIGGER_FIRST_SEED").unwrap_or_default();
    let end = first + number("OUTRIGGER_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(first);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let (ended, _) = run(World::live(seed, life, false));
            if let Some(broken) = ended.broken {
                let hours = life.time.as_secs() / 3600;
                let Life { steps, .. } = life;
                panic!(
                    "OUTRIGGER_SEED={seed} OUTRIGGER_STEPS={steps} OUTRIGGER_HOURS={hours} shows it again\n{broken}"
                );
            }
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let life = life(BUSY);
    for seed in 0..4 {
        let (first, trace) = run(World::live(seed, life, true));
        let (second, again) = run(World::live(seed, life, true));
        if first.digest != second.digest {
            let (trace, again) = (trace.to_string(), again.to_string());
            let differs = trace.lines().zip(again.lines()).position(|(one, other)| one != other);
            let at = differs.unwrap_or_else(|| trace.lines().count().min(again.lines().count()));
            let part =
                |text: &str| text.lines().skip(at.saturating_sub(20)).take(25).collect::<Vec<_>>().join("\n");
            panic!("seed {seed} differs from line {at} on:\n{}\n----\n{}", part(&trace), part(&again));
        }
    }
}
