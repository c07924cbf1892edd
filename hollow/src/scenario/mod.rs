//! Scenarios: files with a cloud, nodes, and steps that break things and say what must hold.
//!
//! [`Scenario::read`] parses a scenario, or returns the line and the reason of an error; [`run`] runs it in this process, on ports
//! and in directories of its own; [`junit()`] writes outcomes as CI systems read them. The file format is in `docs/scenarios.md`.

mod act;
mod expect;
mod file;
mod junit;
mod messages;
mod parse;
mod shrink;
mod stage;

use std::{path::Path, time::Duration};

use clock::Instant;
use tokio_util::sync::CancellationToken;

pub use self::{
    file::Scenario,
    junit::junit,
    parse::Faulty,
    shrink::{Failure, ScenarioFault, shrink},
};
use self::{file::Step, stage::Stage};

/// The outcome of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// The file that contains it.
    pub file: String,
    /// Its steps; the first is the start of its cloud and nodes.
    pub steps: Vec<StepOutcome>,
}

/// The outcome of one step.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// What the step does.
    pub title: String,
    /// The step's line in the file; 0 for the start.
    pub line: u64,
    /// How long the step took.
    pub took: Duration,
    /// Whether the step succeeded.
    pub verdict: Verdict,
}

/// Whether a step succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The step succeeded.
    Passed,
    /// The step failed; the text says what was observed instead.
    Failed(String),
    /// The step was not run because an earlier step failed.
    Skipped,
}

impl Outcome {
    /// Reports whether all steps succeeded.
    pub fn is_passed(&self) -> bool {
        self.steps
            .iter()
            .all(|step| step.verdict == Verdict::Passed)
    }
}

/// What a caller learns of a run.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A step begins: its title and its line in the file, 0 for the start.
    Begins(&'a str, u64),
    /// A step has ended.
    Ended(&'a StepOutcome),
}

/// What the first step does.
const START: &str = "the cloud starts, and its nodes connect";
/// Why a step failed that was not completed.
const STOPPED: &str = "stopped before the step was done";

/// Runs a scenario. `file` is its path, for people and for the files that it names; nodes live below `directory`; `told` is called
/// at the begin and the end of every step. When `stop` is cancelled, the current step fails, and all others are skipped.
pub async fn run(
    scenario: &Scenario,
    file: &Path,
    directory: &Path,
    told: &(dyn Fn(Progress<'_>) + Sync),
    stop: &CancellationToken,
) -> Outcome {
    let mut steps = Vec::new();
    let mut note = |title: &str, line, begun: Instant, verdict| {
        let step = StepOutcome {
            title: title.to_owned(),
            line,
            took: begun.elapsed(),
            verdict,
        };
        told(Progress::Ended(&step));
        steps.push(step);
    };
    let begun = Instant::now();
    told(Progress::Begins(START, 0));
    let opening = Box::pin(Stage::open(scenario, file, directory));
    let (mut stage, verdict) = match stop.run_until_cancelled(opening).await {
        Some(Ok(stage)) => (Some(stage), Verdict::Passed),
        Some(Err(error)) => (None, Verdict::Failed(story(&error))),
        None => (None, Verdict::Failed(STOPPED.to_owned())),
    };
    note(START, 0, begun, verdict);
    for step in &scenario.steps {
        let (title, line, begun) = (step.value.title(), step.referenced.line(), Instant::now());
        let verdict = match &mut stage {
            None => Verdict::Skipped,
            Some(running) => {
                told(Progress::Begins(&title, line));
                let step = Box::pin(running.carry_out(&step.value));
                let done = stop.run_until_cancelled(step).await;
                match done.unwrap_or_else(|| Err(STOPPED.to_owned())) {
                    Ok(()) => Verdict::Passed,
                    Err(why) => {
                        if let Some(stage) = stage.take() {
                            stage.close().await;
                        }
                        Verdict::Failed(why)
                    }
                }
            }
        };
        note(&title, line, begun, verdict);
    }
    if let Some(stage) = stage {
        stage.close().await;
    }
    Outcome {
        name: scenario.name.clone(),
        file: file.display().to_string(),
        steps,
    }
}

/// Returns an error and its causes in one line.
fn story(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut cause) = (message(error), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {}", message(error));
        cause = error.source();
    }
    text
}

/// Returns the text of one error. For a refusal of the API, it is the API's message, without the status that kube dumps.
fn message(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}
