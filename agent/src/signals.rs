//! The signals that end a program: the first one starts an orderly shutdown, a second one or a deadline aborts it.

use std::{fs, io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};
use tracing::info;

/// How long the shutdown may take: Kubernetes kills what has not ended 30 seconds after the signal.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// A signal within this time after the first is the same one, sent to this process and to its group.
const SAME_SIGNAL_PERIOD: Duration = Duration::from_millis(500);

/// Ctrl-C, the service manager's termination, and the end of the terminal. Created before anything starts that has to be shut down.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the parent of this process ignores it, as `nohup` does.
    hangup: Option<Signal>,
}

/// Why a program ends before its shutdown is complete.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// There was a second signal.
    #[error("stopped by a second signal before shutdown was complete")]
    SecondSignal,
    /// The shutdown takes too long.
    #[error(
        "shutdown took longer than {DRAIN_TIMEOUT:?}; please report this with the end of the log"
    )]
    Timeout,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    /// The system provides no handler.
    pub fn listen() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = (!is_hangup_ignored(&status))
            .then(|| signal(SignalKind::hangup()))
            .transpose()?;
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Waits for a signal, also one that came before, and logs it: the program ends then.
    pub async fn wait(&mut self) {
        let signal = self.next().await;
        info!(signal, "signal received; shutting down");
    }

    /// Waits for a signal, and returns its name.
    async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        clock::select! {
            // cancel-safe: a signal that is not seen waits for the next call
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }

    /// Awaits `stopping`, the shutdown after a first signal.
    ///
    /// # Errors
    /// There was a second signal, or it took longer than [`DRAIN_TIMEOUT`].
    pub async fn drain<T>(&mut self, stopping: impl Future<Output = T>) -> Result<T, DrainError> {
        drain(stopping, async || {
            self.next().await;
        })
        .await
    }
}

/// Reports whether SIGHUP, the signal with number 1, is ignored, from a process's `/proc/PID/status`.
fn is_hangup_ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

async fn drain<T>(
    stopping: impl Future<Output = T>,
    mut signal: impl AsyncFnMut(),
) -> Result<T, DrainError> {
    let second = async {
        let same = async {
            loop {
                signal().await;
            }
        };
        let _: Result<(), _> = timeout(SAME_SIGNAL_PERIOD, same).await;
        signal().await;
    };
    clock::select! {
        // cancel-safe: the program ends then
        stopped = stopping => Ok(stopped),
        () = second => Err(DrainError::SecondSignal),
        () = sleep(DRAIN_TIMEOUT) => Err(DrainError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::{sync::mpsc, time::Instant};

    use super::*;

    /// Drains a shutdown that never ends, with signals at these milliseconds after the first; returns the result, and after how
    /// many milliseconds.
    async fn drain_signals(signals: &[u64]) -> (Result<(), DrainError>, u128) {
        let begun = Instant::now();
        let (sender, mut received) = mpsc::channel(8);
        let after: Vec<_> = signals
            .iter()
            .map(|millis| Duration::from_millis(*millis))
            .collect();
        tokio::spawn(async move {
            for after in after {
                tokio::time::sleep_until(begun + after).await;
                sender.send(()).await.unwrap();
            }
            pending::<()>().await;
        });
        let signal = async || {
            received.recv().await.unwrap();
        };
        (drain(pending(), signal).await, begun.elapsed().as_millis())
    }

    #[test]
    fn a_hangup_is_not_waited_for_under_nohup() {
        for (status, ignored) in [
            (
                "Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n",
                true,
            ),
            (
                "SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n",
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_hangup_ignored(status), ignored, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_or_a_deadline_ends_the_wait() {
        assert_eq!(drain_signals(&[]).await, (Err(DrainError::Timeout), 25_000));
        assert_eq!(
            drain_signals(&[2000]).await,
            (Err(DrainError::SecondSignal), 2000)
        );
        // the first one again, as a terminal and a service manager send it
        assert_eq!(
            drain_signals(&[20]).await,
            (Err(DrainError::Timeout), 25_000)
        );
        assert_eq!(
            drain_signals(&[20, 700]).await,
            (Err(DrainError::SecondSignal), 700)
        );
        assert_eq!(drain(ready(7), async || pending().await).await, Ok(7));
    }
}
