//! Waiting until the machine has done what earlier rounds have left it to do: the kernel takes network namespaces, control
//! groups and files apart for seconds after the calls that removed them have returned.

use std::time::{Duration, Instant};

use anyhow::Context;

/// What of the processors' time may be in use, and for how long it has to be so.
const BUSY: f64 = 0.03;
const WINDOW: Duration = Duration::from_millis(500);
/// A machine that is never quiet is measured as it is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the processors have nothing to do.
pub(crate) async fn quiet() -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut before = Ticks::now()?;
    while begun.elapsed() < PATIENCE {
        tokio::time::sleep(WINDOW).await;
        let now = Ticks::now()?;
        if now.busy_since(&before) <= BUSY {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// Time of all processors since the machine's start, in ticks.
struct Ticks {
    all: f64,
    idle: f64,
}

impl Ticks {
    /// See proc_stat(5): user, nice, system, idle, iowait and more.
    fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let ticks = line.split_whitespace().skip(1).map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
        let idle = ticks.get(3..5).context("/proc/stat is too short")?.iter().sum();
        Ok(Self { all: ticks.iter().sum(), idle })
    }

    /// The part that was in use.
    fn busy_since(&self, before: &Self) -> f64 {
        let all = self.all - before.all;
        if all <= 0.0 { 0.0 } else { 1.0 - (self.idle - before.idle) / all }
    }
}
