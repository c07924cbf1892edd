//! Scenarios: a cloud, nodes, and steps that break things and say what must hold, from a file.
//!
//! [`Scenario::read`] makes a scenario of a text, or says in which line what is wrong with it; [`run`] carries it out in this
//! process, on ports and in directories of its own; [`junit()`] writes outcomes as CI systems read them. How files look:
//! `docs/scenarios.md`.

mod act;
mod expect;
mod file;
mod junit;
mod messages;
mod stage;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use self::{file::Step, stage::Stage};
pub use self::{
    file::{Faulty, Scenario},
    junit::junit,
};

/// What became of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// The file that it stands in.
    pub file: String,
    /// Its steps; the first is its beginning.
    pub steps: Vec<StepOutcome>,
}

/// What became of one step.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// What it was to do.
    pub title: String,
    /// Where it stands; 0 for the beginning.
    pub line: u64,
    /// How long it took.
    pub took: Duration,
    /// Whether it came true.
    pub verdict: Verdict,
}

/// Whether something came true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did.
    Passed,
    /// It did not: what was seen instead.
    Failed(String),
    /// A step before it did not.
    Skipped,
}

impl Outcome {
    /// Whether everything came true.
    pub fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.verdict == Verdict::Passed)
    }
}

/// Carries a scenario out. `file` is where it stands, for people and for the files that it names; nodes live below `directory`;
/// `told` hears of every step as it ends.
pub async fn run(
    scenario: &Scenario,
    file: &Path,
    directory: &Path,
    seed: Option<u64>,
    told: &(dyn Fn(&StepOutcome) + Sync),
) -> Outcome {
    let mut steps = Vec::new();
    let mut note = |step: StepOutcome| {
        told(&step);
        steps.push(step);
    };
    let begun = Instant::now();
    let stage = Stage::open(scenario, file, directory, seed).await;
    let beginning = |verdict| StepOutcome {
        title: "the cloud and its nodes start".to_owned(),
        line: 0,
        took: begun.elapsed(),
        verdict,
    };
    let mut stage = match stage {
        Ok(stage) => {
            note(beginning(Verdict::Passed));
            Some(stage)
        }
        Err(error) => {
            note(beginning(Verdict::Failed(story(&error))));
            None
        }
    };
    for step in &scenario.steps {
        let (title, line, begun) = (step.value.title(), step.referenced.line(), Instant::now());
        let verdict = match &mut stage {
            None => Verdict::Skipped,
            Some(running) => match running.carry_out(&step.value).await {
                Ok(()) => Verdict::Passed,
                Err(why) => {
                    if let Some(stage) = stage.take() {
                        stage.close().await;
                    }
                    Verdict::Failed(why)
                }
            },
        };
        note(StepOutcome { title, line, took: begun.elapsed(), verdict });
    }
    if let Some(stage) = stage {
        stage.close().await;
    }
    Outcome { name: scenario.name.clone(), file: file.display().to_string(), steps }
}

/// An error and its causes in one line.
fn story(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
