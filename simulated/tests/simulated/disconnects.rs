//! Disconnects in the middle of everything, one after the other. `OUTRIGGER_DISCONNECTS=1000000` makes so many of them, in the world
//! of `OUTRIGGER_SEED`.

use std::fs;

use clock::simulate;
use simulated::{Faults, World};
use tokio::runtime::Handle;

use crate::{Again, check, number};

/// Disconnects in the suite.
const DISCONNECTS: u64 = 500;
/// Both nodes are disconnected at one time.
const NODES: u64 = 2;
/// After so many disconnects everything has to arrive.
const PART: u64 = 250;
/// After so many, or half of those wanted, what has a bound may grow no more …
const WARM: u64 = 10_000;
/// … until then it may take so much, kB.
const FILLING: u64 = 6 * 1024;
/// What the allocator may keep for itself from then on, kB.
const SLACK: u64 = 1024;

/// Delays, and connections that break off in the middle of a frame by themselves.
const FAULTS: Faults = Faults {
    delay: 5,
    twice: 0,
    last: 20,
};

/// What must not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    tasks: usize,
    /// Memory of this process that is no part of a file, kB.
    memory: u64,
}

impl Held {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .unwrap();
        let memory = line.trim().trim_end_matches(" kB").parse().unwrap();
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            memory,
        }
    }
}

#[test]
fn nothing_is_lost_nothing_comes_twice_and_nothing_grows() {
    let wanted = number("OUTRIGGER_DISCONNECTS").unwrap_or(DISCONNECTS);
    let seed = number("OUTRIGGER_SEED").unwrap_or(1);
    let simulated = simulate(seed, async {
        let mut world = World::with_pods(seed).await;
        let (mut done, mut before, mut growth) = (0, None, FILLING);
        while done < wanted {
            done += NODES;
            let _again = Again(format!(
                "OUTRIGGER_SEED={seed} OUTRIGGER_DISCONNECTS={done}"
            ));
            world.disconnect(FAULTS).await;
            let is_part = done % PART == 0;
            if is_part {
                world.heal().await;
            }
            let broken = world.watcher().violations();
            if !broken.is_empty() {
                return broken;
            }
            if is_part {
                let held = Held::now();
                let before = before.get_or_insert(held);
                assert_eq!(held.tasks, before.tasks, "tasks after {done} disconnects");
                let most = before.memory + growth;
                assert!(
                    held.memory <= most,
                    "{held:?} after {done} disconnects, before {before:?}"
                );
                if growth == FILLING && done >= WARM.min(wanted / 2) {
                    (*before, growth) = (held, SLACK);
                }
            }
        }
        println!(
            "{done} disconnects: {before:?}, in the end {:?}",
            Held::now()
        );
        Vec::new()
    });
    check(simulated.unwrap());
}
