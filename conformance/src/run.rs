//! Runs a table of cases against a target.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use tokio::time::{Instant, timeout};

use crate::{Case, CaseResult, Failure, Verdict};

/// No case may take longer.
const CASE_DEADLINE: Duration = Duration::from_secs(180);

/// Runs the cases whose ids `wanted` accepts, `width` at a time. `done` is called with each outcome as it arrives; the result is in the
/// order of the table.
pub(crate) async fn run<T: Send + Sync + 'static>(
    target: &Arc<T>,
    cases: &[&Case<T>],
    width: usize,
    mut done: impl FnMut(&CaseResult),
) -> Vec<CaseResult> {
    let running = cases.iter().enumerate().map(|(place, case)| {
        let (info, test) = (case.info, (case.run)(target.clone()));
        async move {
            let begin = Instant::now();
            let verdict = match timeout(CASE_DEADLINE, test).await {
                Ok(Ok(())) => Verdict::Passed,
                Ok(Err(Failure::Failed(why))) => Verdict::Failed(why),
                Ok(Err(Failure::Skipped(why))) => Verdict::Skipped(why),
                Err(_) => Verdict::Failed(format!("no end within {CASE_DEADLINE:?}")),
            };
            let result = CaseResult {
                case: info,
                verdict,
                took: begin.elapsed(),
            };
            (place, result)
        }
    });
    let mut results = Vec::with_capacity(cases.len());
    let mut running = stream::iter(running).buffer_unordered(width);
    while let Some((place, result)) = running.next().await {
        done(&result);
        results.push((place, result));
    }
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}
