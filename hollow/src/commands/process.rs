//! Processes of this user, by number and start.

use std::{fs, time::Duration};

use anyhow::{Context, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// How long a cloud may take to stop; it aborts its own shutdown after 25 seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a process is checked that should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A process. A number alone could belong to another process by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: i32,
    /// Its start, in the kernel's ticks since the boot.
    pub(super) started: u64,
    /// The id of this boot of the machine.
    pub(super) boot: String,
}

impl Process {
    /// Returns the running process with this number.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let pid = i32::try_from(pid)?;
        Ok(Self {
            pid,
            started: start_ticks(pid).with_context(|| format!("process {pid} has ended"))?,
            boot: boot_id(),
        })
    }

    /// Returns this process.
    pub(super) fn own() -> anyhow::Result<Self> {
        Self::of(std::process::id())
    }

    /// Reports whether it still runs.
    pub(super) fn is_running(&self) -> bool {
        self.boot == boot_id() && start_ticks(self.pid) == Some(self.started)
    }

    /// Asks it to stop, and waits until it has ended.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        let pid = self.pid;
        if !self.is_running() {
            return Ok(());
        }
        kill(Pid::from_raw(pid), Signal::SIGTERM)
            .with_context(|| format!("cannot stop process {pid}; run this as its user"))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.is_running() {
            if Instant::now() >= deadline {
                bail!(
                    "process {pid} has not stopped within {STOP_TIMEOUT:?}; stop it with `kill -9 {pid}`"
                );
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns when a process was started; `None` if it has ended, even if its parent has not noticed yet.
pub(super) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn process_that_has_ended_is_not_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_running());
        let stale = Process {
            started: 0,
            ..process.clone()
        };
        stale.stop().await.unwrap();
        assert!(process.is_running());
        process.stop().await.unwrap();
        assert!(!process.is_running());
        assert!(!child.wait().unwrap().success());
    }
}
