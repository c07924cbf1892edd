//! Tests of a cloud: the kit enrols as edge nodes and speaks to CloudHub, and uses the cloud's Kubernetes API as its user does.

mod cases;
mod delivery;
mod devices;
mod enrolment;
mod jobs;
mod limits;
mod malformed;
mod nodes;
mod objects;
mod queries;
mod rules;
mod sessions;
mod sync;
mod target;
mod tunnel;

use std::sync::Arc;

pub use self::target::{Options, Target};
use crate::{Case, CaseInfo, CaseResult, run::run};

/// Cases that run at a time. Most of them wait.
const WIDTH: usize = 8;

/// Returns the descriptions of all cases.
pub fn list() -> Vec<CaseInfo> {
    cases::CASES.iter().map(|case| case.info).collect()
}

/// Runs the cases that `wanted` accepts. `done` is called with each outcome as it arrives. The objects of the run stay:
/// [`Target::clean_up`] removes them.
pub async fn test(
    target: &Arc<Target>,
    wanted: impl Fn(&CaseInfo) -> bool,
    done: impl FnMut(&CaseResult),
) -> Vec<CaseResult> {
    let cases: Vec<&Case<Target>> = cases::CASES
        .iter()
        .filter(|case| wanted(&case.info))
        .collect();
    run(target, &cases, WIDTH, done).await
}
