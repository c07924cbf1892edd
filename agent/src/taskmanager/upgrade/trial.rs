//! The trial of a new version: the old one starts it as its child, and watches whether it connects.
//!
//! The process that a service manager or a person has started stays, so that the trial needs neither of them. If the new version connects,
//! the old one stops it, renames it to the installed program and continues as that program. If the new version exits, or does not connect
//! in time, the old one continues as itself. If the old one is killed, the kernel ends the new one, and the next start tries it again.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use nix::{
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{
    candidate::digest_of,
    record::{Phase, Record, version},
};
use crate::{
    file,
    signals::{DRAIN_TIMEOUT, Signals},
};

/// How often a trial begins again after the old version was ended in it.
const MAX_STARTS: u32 = 3;
/// How often the record is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the new version may take to stop, longer than a shutdown takes.
const STOP_TIMEOUT: Duration = Duration::from_secs(DRAIN_TIMEOUT.as_secs() + 5);
/// The variable with the process that watches the trial.
const WATCHED_BY: &str = "EDGE_AGENT_WATCHED_BY";

/// A trial that is to run before the agent does.
#[derive(Debug)]
pub(crate) struct Trial {
    config: PathBuf,
    record: Record,
}

/// How a trial has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterTrial {
    /// By a signal: the program ends.
    Stopped,
    /// This program is to run, the old version or the new one.
    Run(PathBuf),
}

/// What has ended the wait for a new version.
enum Seen {
    Connected,
    Exited(io::Result<ExitStatus>),
    Late,
    Signal,
}

impl Trial {
    /// Returns the trial that the record of this configuration asks for.
    pub(crate) fn pending(config: &Path) -> Option<Self> {
        let record = Record::read(config)?;
        let is_due = matches!(record.phase, Phase::OnTrial | Phase::Connected);
        (is_due && record.from == version() && record.candidate().is_file()).then(|| Self {
            config: config.to_owned(),
            record,
        })
    }

    /// Runs the new version with these arguments until it has connected or failed.
    ///
    /// # Errors
    /// The system provides no handler for signals.
    pub(crate) async fn run(mut self, arguments: &[OsString]) -> io::Result<AfterTrial> {
        let mut signals = Signals::listen()?;
        if self.record.phase == Phase::OnTrial {
            match self.watch(arguments, &mut signals).await {
                Ok(true) => {}
                Ok(false) => return Ok(AfterTrial::Stopped),
                Err(why) => return Ok(self.give_up(why)),
            }
        }
        let program = self.record.program.clone();
        Ok(match file::rename(&self.record.candidate(), &program) {
            Ok(()) => {
                info!(version = self.record.to, program = %program.display(), "new version installed");
                AfterTrial::Run(program)
            }
            Err(error) => self.give_up(format!("cannot replace {}: {error}", program.display())),
        })
    }

    /// Starts the new version; `true` when it has connected and stopped, `false` after a signal to this process.
    async fn watch(
        &mut self,
        arguments: &[OsString],
        signals: &mut Signals,
    ) -> Result<bool, String> {
        let (version, limit) = (self.record.to.clone(), self.record.limit);
        let mut child = self.start(arguments)?;
        let seen = clock::select! {
            // cancel-safe: the next look sees the end as well
            ended = child.wait() => Seen::Exited(ended),
            // cancel-safe: the record stays
            () = wait_connected(&self.config) => Seen::Connected,
            // cancel-safe: the program ends then
            () = signals.wait() => Seen::Signal,
            () = sleep(Duration::from_secs(limit)) => Seen::Late,
        };
        stop(&mut child, &version).await;
        // the new version may have written why it ends
        let now = Record::read(&self.config).map(|record| record.phase);
        if let Some(Phase::Failed(why)) = now {
            return Err(why);
        }
        match seen {
            Seen::Signal => Ok(false),
            _ if now == Some(Phase::Connected) => Ok(true),
            Seen::Exited(Ok(status)) => Err(format!("{version} has ended by itself: {status}")),
            Seen::Exited(Err(error)) => Err(format!("{version} cannot be watched: {error}")),
            Seen::Connected | Seen::Late => Err(format!(
                "{version} has not reached the cloud within {limit} s"
            )),
        }
    }

    fn start(&mut self, arguments: &[OsString]) -> Result<Child, String> {
        let candidate = self.record.candidate();
        if self.record.starts >= MAX_STARTS {
            return Err(format!(
                "the agent was stopped {MAX_STARTS} times while it tried {}",
                self.record.to
            ));
        }
        self.record.starts += 1;
        let failed = |error: io::Error| format!("cannot start {}: {error}", candidate.display());
        self.record.write(&self.config).map_err(failed)?;
        // a power failure could have damaged it
        if digest_of(&candidate).map_err(failed)? != self.record.digest {
            return Err(format!("{} has changed on disk", candidate.display()));
        }
        info!(version = self.record.to, "trying a new version");
        Command::new(&candidate)
            .args(arguments)
            .env(WATCHED_BY, std::process::id().to_string())
            .spawn()
            .map_err(failed)
    }

    fn give_up(&mut self, why: String) -> AfterTrial {
        warn!(
            version = self.record.to,
            reason = why,
            "new version rejected; the installed one continues"
        );
        if let Err(error) = self.record.give_up(&self.config, why) {
            warn!(%error, "failed to record why a new version was rejected");
        }
        AfterTrial::Run(self.record.program.clone())
    }
}

async fn wait_connected(config: &Path) {
    let is_over = || {
        Record::read(config)
            .is_some_and(|record| matches!(record.phase, Phase::Connected | Phase::Failed(_)))
    };
    while !is_over() {
        sleep(POLL_INTERVAL).await;
    }
}

/// Stops the new version, unless it has ended.
async fn stop(child: &mut Child, version: &str) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let Some(id) = id.map(Pid::from_raw) else {
        return;
    };
    // fails only if it ends at this moment
    let _ = kill(id, Signal::SIGTERM);
    if timeout(STOP_TIMEOUT, child.wait()).await.is_err() {
        warn!(
            version,
            "failed to stop the new version in time; killing it"
        );
        let _ = child.kill().await;
    }
}

/// Makes the kernel end this process with the one that watches its trial, if this is a trial.
pub(crate) fn follow_watcher() -> io::Result<()> {
    let Ok(watcher) = std::env::var(WATCHED_BY) else {
        return Ok(());
    };
    set_pdeathsig(Signal::SIGKILL)?;
    // it may have ended before
    if getppid().to_string() != watcher {
        return Err(io::Error::other(
            "the agent that watched this one has ended",
        ));
    }
    Ok(())
}

/// Records why a new version on trial does not start.
pub(crate) fn note_failure(config: &Path, error: &str) {
    if let Some(mut record) = Record::read(config).filter(Record::is_on_trial) {
        let why = format!("{} does not start: {error}", record.to);
        // the watcher sees the end in any case
        let _ = record.enter(config, Phase::Failed(why));
    }
}
