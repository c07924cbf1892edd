//! Progress of commands: a line for each step that takes longer than a second, and again while it continues.

use std::{future::Future, io::Write, pin::pin, time::Duration};

use tokio::time::{Instant, timeout};

/// Duration of a step before its first line.
const SILENT: Duration = Duration::from_secs(1);
/// Interval between the lines of a step.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for a step; writes `  text …` to `out` after a second, and with the elapsed time every ten seconds.
pub(crate) async fn step<T>(out: &mut impl Write, text: &str, work: impl Future<Output = T>) -> T {
    let mut report = |line: String| {
        // a closed pipe does not interrupt the step
        let _ = writeln!(out, "  {line}").and_then(|()| out.flush());
    };
    let mut work = pin!(work);
    if let Ok(done) = timeout(SILENT, &mut work).await {
        return done;
    }
    let begun = Instant::now() - SILENT;
    report(format!("{text} …"));
    loop {
        if let Ok(done) = timeout(REPORT_INTERVAL, &mut work).await {
            return done;
        }
        report(format!("{text} … ({} s)", begun.elapsed().as_secs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_of_more_than_a_second_is_reported_until_it_ends() {
        for (millis, lines) in [
            (0, ""),
            (900, ""),
            (1100, "  waiting …\n"),
            (
                22_500,
                "  waiting …\n  waiting … (11 s)\n  waiting … (21 s)\n",
            ),
        ] {
            let mut out = Vec::new();
            let work = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                7
            };
            assert_eq!(step(&mut out, "waiting", work).await, 7);
            assert_eq!(String::from_utf8(out).unwrap(), lines, "{millis}");
        }
    }
}
