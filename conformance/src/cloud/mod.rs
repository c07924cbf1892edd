//! Tests of a cloud: the kit enrols as edge nodes and speaks to CloudHub, and uses the cloud's Kubernetes API as its user does.

mod cases;
mod delivery;
mod devices;
mod enrolment;
mod malformed;
mod nodes;
mod objects;
mod queries;
mod sessions;
mod target;
mod tunnel;

use std::sync::Arc;

pub use self::target::{Options, Target};
use crate::{Case, CaseInfo, CaseResult, run::run};
use peer::Failure;

/// Cases that run at a time. Most of them wait.
const WIDTH: usize = 8;

/// Returns the descriptions of all cases.
pub fn list() -> Vec<CaseInfo> {
    cases::CASES.iter().map(|case| case.info).collect()
}

/// Runs the cases that `wanted` accepts. `done` is called with each outcome as it arrives.
///
/// # Errors
/// The cloud's CA cannot be fetched, or its API does not let the kit create its namespace.
pub async fn test(
    options: Options,
    wanted: impl Fn(&CaseInfo) -> bool,
    done: impl FnMut(&CaseResult),
) -> Result<Vec<CaseResult>, Failure> {
    let target = Arc::new(Target::new(options).await?);
    let cases: Vec<&Case<Target>> = cases::CASES
        .iter()
        .filter(|case| wanted(&case.info))
        .collect();
    let results = run(&target, &cases, WIDTH, done).await;
    target.clean_up().await;
    Ok(results)
}
