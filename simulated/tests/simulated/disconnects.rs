//! Disconnects in the middle of everything, one after the other. `OUTRIGGER_DISCONNECTS=1000000` makes so many of them.

use std::fs;

use simulated::{Faults, World, run};
use tokio::runtime::Handle;

/// Disconnects in the suite.
const DISCONNECTS: u64 = 2_000;
/// Both nodes are disconnected at one time.
const NODES: u64 = 2;
/// So often everything has to arrive.
const CHECKS: u64 = 8;
/// What the allocator may keep for itself, kB.
const SLACK: u64 = 1024;

/// Delays, and connections that break off in the middle of a frame by themselves.
const FAULTS: Faults = Faults { delay: 5, twice: 0, last: 20 };

/// Resident memory of this process, kB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn nothing_is_lost_nothing_comes_twice_and_nothing_grows() {
    let wanted = std::env::var("OUTRIGGER_DISCONNECTS").map_or(DISCONNECTS, |text| text.parse().unwrap());
    let rounds = wanted.div_ceil(NODES * CHECKS);
    run(async {
        let mut world = World::with_pods(1).await;
        let mut seen = Vec::new();
        for _ in 0..CHECKS {
            for _ in 0..rounds {
                world.disconnect(FAULTS).await;
            }
            world.heal().await;
            assert_eq!(
                world.watcher().broken(),
                Vec::<String>::new(),
                "{}",
                world.watcher().trace(|trace| trace.to_string())
            );
            seen.push((Handle::current().metrics().num_alive_tasks(), resident()));
        }
        println!("{} disconnects; tasks and kB after each part: {seen:?}", rounds * NODES * CHECKS);
        // the first half fills what has a bound
        let (settled, end) = (seen[seen.len() / 2], seen[seen.len() - 1]);
        assert_eq!(settled.0, end.0, "tasks: {seen:?}");
        assert!(end.1 <= settled.1 + SLACK, "kB: {seen:?}");
    });
}
