//! Waiting until the machine has done what earlier rounds have left it to do: the kernel takes network namespaces, control
//! groups and files apart for seconds after the calls that removed them have returned.

use std::{
    num::NonZero,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use agent::edged::{busy_nanos, idle};
use anyhow::Context;

/// What of the processors' time may be in use, and for how long it has to be so.
const BUSY: f64 = 0.03;
const WINDOW: Duration = Duration::from_millis(500);
/// A machine that is never quiet is measured as it is.
const QUIET_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until the processors have nothing to do.
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
