//! Waits until the machine has finished the cleanup of earlier rounds: the kernel destroys network namespaces, control groups and
//! files for seconds after the calls that removed them have returned.

use std::{
    num::NonZero,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use anyhow::Context;
use edged::{busy_nanos, idle};

/// The share of processor time below which the machine is idle, and how long it has to be so.
const BUSY: f64 = 0.03;
const WINDOW: Duration = Duration::from_millis(500);
/// How long to wait: a machine that is never idle is measured as it is.
const QUIET_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until the processors are idle.
pub(crate) async fn quiet() -> anyhow::Result<()> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let busy = || busy_nanos().context("/proc/stat does not say what processors did");
    let begun = Instant::now();
    while begun.elapsed() < QUIET_TIMEOUT {
        let (looked, before) = (Instant::now(), busy()?);
        tokio::time::sleep(WINDOW).await;
        if idle(before, busy()?, looked.elapsed(), processors) >= 1.0 - BUSY {
            break;
        }
    }
    Ok(())
}
