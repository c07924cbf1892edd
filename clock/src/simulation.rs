//! A simulation: one thread, virtual time, one seed.

use std::{cell::RefCell, future::Future, io, time::Duration};

use jiff::Timestamp;
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use crate::trace::Trace;

/// The wall clock at the start of a simulation: 2030-01-01T00:00:00Z, in seconds. Later than the build of any program, earlier than the end
/// of a certificate.
const START: i64 = 1_893_456_000;

thread_local! {
    static SIMULATION: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

/// The simulation of this thread.
struct Simulation {
    begun: Instant,
    /// The wall clock at `begun`.
    start: Timestamp,
    random: StdRng,
    trace: Trace,
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated<T> {
    /// What the story returned.
    pub result: T,
    /// What happened.
    pub trace: Trace,
    /// The virtual time that passed.
    pub elapsed: Duration,
}

/// Runs `story` in a simulation on this thread. Time passes only while every task waits; then it jumps to the next timer. The seed decides
/// everything if Tokio is built with `--cfg tokio_unstable`; otherwise, receivers of one channel are woken in any order.
///
/// # Errors
/// The runtime cannot be created, or this thread is in a simulation already.
pub fn simulate<T>(seed: u64, story: impl Future<Output = T>) -> io::Result<Simulated<T>> {
    run(seed, false, story)
}

/// Does the same as [`simulate`], and keeps all lines of the trace.
///
/// # Errors
/// The same.
pub fn simulate_with_trace<T>(
    seed: u64,
    story: impl Future<Output = T>,
) -> io::Result<Simulated<T>> {
    run(seed, true, story)
}

fn run<T>(seed: u64, keeps_all: bool, story: impl Future<Output = T>) -> io::Result<Simulated<T>> {
    if is_simulated() {
        return Err(io::Error::other("this thread runs a simulation already"));
    }
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // which receiver of a watch channel runs first, and the like
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    let runtime = builder.enable_all().start_paused(true).build()?;
    let begun = runtime.block_on(async { Instant::now() });
    SIMULATION.set(Some(Simulation {
        begun,
        start: Timestamp::from_second(START).map_err(io::Error::other)?,
        random: StdRng::seed_from_u64(seed),
        trace: Trace::new(keeps_all),
    }));
    let end = End;
    let (result, elapsed) = runtime.block_on(async {
        let result = story.await;
        (result, begun.elapsed())
    });
    let trace = SIMULATION.with_borrow_mut(|simulation| {
        let trace = &mut simulation.as_mut()?.trace;
        Some(std::mem::replace(trace, Trace::new(false)))
    });
    // tasks that are still there end inside of the simulation
    drop(runtime);
    drop(end);
    Ok(Simulated {
        result,
        trace: trace.unwrap_or_else(|| Trace::new(false)),
        elapsed,
    })
}

/// Ends the simulation of this thread, also after a panic.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        SIMULATION.set(None);
    }
}

/// Reports whether this thread runs a simulation.
pub fn is_simulated() -> bool {
    SIMULATION.with_borrow(Option::is_some)
}

/// Returns the virtual time; `None` outside of a simulation.
pub(crate) fn time() -> Option<Timestamp> {
    SIMULATION.with_borrow(|simulation| {
        let simulation = simulation.as_ref()?;
        let elapsed = simulation.begun.elapsed();
        simulation.start.checked_add(elapsed).ok()
    })
}

/// Sets the wall clock of this thread's simulation to `now`, before anything in it reads the clock. Outside of one, nothing happens.
pub fn set_virtual_time(now: Timestamp) {
    SIMULATION.with_borrow_mut(|simulation| {
        if let Some(simulation) = simulation {
            let start = now.checked_sub(simulation.begun.elapsed());
            simulation.start = start.unwrap_or(simulation.start);
        }
    });
}

/// Adds a line to the trace of this thread's simulation. Outside of one, `line` is not called.
pub fn trace(line: impl FnOnce() -> String) {
    let Some(now) = time() else { return };
    let line = format!("{now} {}", line());
    SIMULATION.with_borrow_mut(|simulation| {
        if let Some(simulation) = simulation {
            simulation.trace.push(line);
        }
    });
}

/// Calls `draw` with the random numbers of the simulation; `None` outside of one.
pub(crate) fn with_random<T>(draw: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    SIMULATION.with_borrow_mut(|simulation| Some(draw(&mut simulation.as_mut()?.random)))
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// A story that depends on time, random numbers, blocking work and the choice of a branch.
    async fn story() -> String {
        let mut told = String::new();
        for round in 0..50_u64 {
            let work = crate::spawn_blocking(move || round * 2);
            let branch = crate::select! {
                () = async {} => "left",
                () = async {} => "right",
            };
            sleep(Duration::from_secs(crate::rng().random_range(0..1000))).await;
            let doubled = work.await.unwrap();
            crate::trace(|| format!("round {round}"));
            told += &format!("{} {branch} {doubled} {}\n", crate::now(), crate::uuid());
        }
        told
    }

    #[test]
    fn a_seed_gives_the_same_run() {
        let begun = std::time::Instant::now();
        let run = simulate(7, story()).unwrap();
        assert_eq!(simulate(7, story()).unwrap(), run);
        let other = simulate(8, story()).unwrap();
        assert_ne!(other.result, run.result);
        assert_ne!(other.trace.digest, run.trace.digest);
        assert_eq!((run.trace.lines, run.trace.kept.len()), (50, 50));
        assert!(run.elapsed > Duration::from_secs(1000), "{:?}", run.elapsed);
        let told = run.result;
        assert!(
            told.contains(" left ") && told.contains(" right "),
            "{told}"
        );
        assert!(told.starts_with("2030-01-01T00:"), "{told}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(!is_simulated());
    }

    #[test]
    fn a_simulation_ends_with_its_panic_and_has_none_inside() {
        let ended = std::panic::catch_unwind(|| simulate(1, async { panic!("on purpose") }));
        assert!(ended.is_err() && !is_simulated());
        let inner = simulate(1, async { simulate(1, async {}).is_err() });
        assert!(inner.unwrap().result);
    }

    #[test]
    fn outside_of_a_simulation_the_machine_answers() {
        assert!(time().is_none());
        assert!(crate::now() > Timestamp::from_second(1_700_000_000).unwrap());
        assert_ne!(crate::uuid(), crate::uuid());
    }
}
