//! Tests of an edge: the kit is a cloud, which one edge joins. It keeps the few objects that it sends in memory.

mod answers;
mod cases;
mod devices;
mod hub;
mod jobs;
mod joining;
mod kit;
mod mqtt;
mod node;
mod options;
mod pods;
mod reconnection;
mod robustness;
mod state;
mod tunnel;

pub use self::{kit::Kit, options::Options};
use crate::{Case, CaseInfo, CaseResult, run::run};

/// Returns the descriptions of all cases, in the order in which they run.
pub fn list() -> Vec<CaseInfo> {
    cases::CASES.iter().map(|case| case.info).collect()
}

/// Runs the cases that `wanted` accepts, one after the other, against the edge that joins. `done` is called with each outcome.
pub async fn test(
    kit: &Kit,
    wanted: impl Fn(&CaseInfo) -> bool,
    done: impl FnMut(&CaseResult),
) -> Vec<CaseResult> {
    let cases: Vec<&Case<state::Cloud>> = cases::CASES
        .iter()
        .filter(|case| wanted(&case.info))
        .collect();
    run(kit.cloud(), &cases, 1, done).await
}
