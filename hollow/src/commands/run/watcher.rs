//! Follows a scenario: prints its steps as they end, shows the current one, and stops it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::{
    commands::screen::Screen,
    scenario::{Progress, StepOutcome, Verdict},
};

/// Follows a run, from any thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Watcher {
    /// Stops the run when it is cancelled.
    pub(super) stop: CancellationToken,
    /// The current step.
    step: Arc<Mutex<String>>,
    is_silent: bool,
}

impl Watcher {
    /// Returns a watcher that prints no steps.
    pub(super) fn silent(&self) -> Self {
        Self {
            is_silent: true,
            ..self.clone()
        }
    }

    /// Takes note of a step.
    pub(super) fn note(&self, progress: Progress<'_>) {
        match progress {
            Progress::Begins(title, line) => {
                let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
                *step = format!("  running   {:<9} {title}", place(line));
            }
            Progress::Ended(step) if !self.is_silent => print_step(step),
            Progress::Ended(_) => {}
        }
    }

    /// Returns the line of the current step.
    pub(super) fn step(&self) -> String {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        step.clone()
    }

    /// Reports whether the run was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Prints how a step has ended.
pub(super) fn print_step(step: &StepOutcome) {
    let took = step.took.as_secs_f64();
    let (mark, why) = match &step.verdict {
        Verdict::Passed => ("ok  ", String::new()),
        Verdict::Failed(why) => ("FAIL", format!(": {why}")),
        Verdict::Skipped => ("-   ", String::new()),
    };
    Screen::of_stdout().print_line(&format!(
        "  {mark} {took:>7.3} s  {:<9} {}{why}",
        place(step.line),
        step.title
    ));
}

/// Returns where a step is in the file; nothing for the start.
fn place(line: u64) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}"),
    }
}
