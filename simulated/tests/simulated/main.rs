//! Nothing is lost: many seeds of the simulated world, and many disconnects.

// a helper fails its test by panicking, with a message that says what was expected
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod disconnects;
// with its tests, which need no program of their own
#[path = "../../src/frames.rs"]
mod frames;
mod replays;
mod seeds;

/// The number in an environment variable, where there is one.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

/// Fails with the violations of rules of a simulation, after its newest lines.
fn check(simulated: clock::Simulated<Vec<String>>) {
    let broken = simulated.result;
    let lines: Vec<_> = simulated.trace.kept.into();
    assert!(
        broken.is_empty(),
        "{}\nbroken: {broken:#?}",
        lines.join("\n")
    );
}

/// Says with which settings a failure is seen again, whatever fails while it lives.
struct Again(String);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} shows it again", self.0);
        }
    }
}
