//! Random worlds. `OUTRIGGER_SEED=7` runs that one alone and shows it; `OUTRIGGER_SEEDS=100000` runs so many, from
//! `OUTRIGGER_FIRST_SEED` on; `OUTRIGGER_STEPS=60` makes each of them longer.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use simulated::{World, run};

/// Steps of one world in the suite.
const STEPS: u64 = 30;
/// Worlds in the suite.
const SEEDS: u64 = 120;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn steps() -> usize {
    usize::try_from(number("OUTRIGGER_STEPS").unwrap_or(STEPS)).unwrap()
}

#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = number("OUTRIGGER_SEED") {
        let (ended, trace) = run(World::live(seed, steps(), true));
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
            let (ended, _) = run(World::live(seed, steps(), false));
            if let Some(broken) = ended.broken {
                panic!("OUTRIGGER_SEED={seed} OUTRIGGER_STEPS={} shows it again\n{broken}", steps());
            }
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in 0..4 {
        let (first, trace) = run(World::live(seed, steps(), true));
        let (second, again) = run(World::live(seed, steps(), true));
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
