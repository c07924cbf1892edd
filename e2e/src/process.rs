//! A program that runs until it is told to end, or killed; and starts again.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::until;

/// How many lines of each log are shown with a test that fails.
const SHOWN_LINES: usize = 60;

/// A program that runs beside the test. It is killed when this is dropped, and its log printed, which the test harness shows
/// for tests that fail.
#[derive(Debug)]
pub struct Process {
    name: String,
    command: Command,
    logs: PathBuf,
    /// Each start has a log of its own: what is waited for must not be found in an older one.
    starts: u32,
    child: Option<Child>,
}

impl Process {
    /// Starts `command`; its stdout and stderr go to a file in `logs`, with `name` in the file's name.
    pub fn start(name: &str, command: Command, logs: &Path) -> anyhow::Result<Self> {
        let mut process =
            Self { name: name.to_owned(), command, logs: logs.to_owned(), starts: 0, child: None };
        process.start_again()?;
        Ok(process)
    }

    /// Starts it once more, after its end.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.starts += 1;
        let path = self.log_path();
        let log = File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        self.command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = self.command.spawn();
        self.child = Some(child.with_context(|| format!("{:?} cannot be started", self.command))?);
        Ok(())
    }

    /// SIGKILL: it ends at once, in whatever it was doing. Returns when it has ended.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                child.kill()?;
                child.wait().map(drop)
            }
            None => Ok(()),
        }
    }

    /// SIGTERM, as a service manager ends it. Returns when it has ended.
    pub fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_exit()
    }

    /// SIGSTOP: it holds still, in whatever it was doing, until it is killed.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
    }

    /// Waits for its end.
    pub fn wait_exit(&mut self) -> anyhow::Result<ExitStatus> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.name))?;
        let ended = until(&format!("end of {}", self.name), || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("it runs".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        if ended.is_err() {
            // put back: it is killed with the others
            self.child = Some(child);
        }
        ended
    }

    /// Its process id, while it runs or has ended unseen.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// What it has written since its last start.
    pub fn log(&self) -> String {
        fs::read(self.log_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until it has written `text` since its last start; its end before that is an error.
    pub fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        enum Seen {
            Nothing,
            Ended,
        }
        let seen = until(&format!("{text:?} from {}", self.name), || {
            // asked before the log is read: what it wrote last is not missed
            let runs = self.runs();
            match self.log().contains(text) {
                true => Ok(Seen::Nothing),
                false if runs => Err("it runs without having said so"),
                false => Ok(Seen::Ended),
            }
        })?;
        match seen {
            Seen::Nothing => Ok(()),
            Seen::Ended => bail!("{} has ended without saying {text:?}:\n{}", self.name, self.log()),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.logs.join(format!("{}.{}.log", self.name, self.starts))
    }
}

impl Drop for Process {
    // printed on purpose: the harness keeps it for tests that fail
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        // fails only where it has ended already
        let _ = self.kill();
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        eprintln!("--- {}, start {}, {} lines, the last:", self.name, self.starts, lines.len());
        for line in lines.iter().skip(from) {
            eprintln!("{line}");
        }
    }
}
