//! A program that runs until it is told to end or killed, and can be started again.

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

/// How many lines of each log are shown for a failed test.
const SHOWN_LINES: usize = 60;

/// A background program. When this is dropped, it is killed and its log printed, which the test harness shows for failed tests.
#[derive(Debug)]
pub struct Process {
    name: String,
    command: Command,
    logs: PathBuf,
    /// The number of starts; each has a log of its own, so that what is waited for is not found in an older one.
    starts: u32,
    child: Option<Child>,
}

impl Process {
    /// Starts `command`; its stdout and stderr go to a file in `logs`, with `name` in the file's name.
    pub fn start(name: &str, command: Command, logs: &Path) -> anyhow::Result<Self> {
        let mut process = Self {
            name: name.to_owned(),
            command,
            logs: logs.to_owned(),
            starts: 0,
            child: None,
        };
        process.start_again()?;
        Ok(process)
    }

    /// Starts it again after its end.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.starts += 1;
        let path = self.log_path();
        let log =
            File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        self.command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = self.command.spawn();
        self.child = Some(child.with_context(|| format!("{:?} cannot be started", self.command))?);
        Ok(())
    }

    /// Sends SIGKILL, which ends it at once, and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                child.kill()?;
                child.wait().map(drop)
            }
            None => Ok(()),
        }
    }

    /// Sends SIGTERM, as a service manager does, and waits for its end.
    pub fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_exit()
    }

    /// Sends SIGSTOP, which halts it until it is killed or resumed.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Sends SIGCONT, with which it continues.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self
            .child
            .as_ref()
            .with_context(|| format!("{} does not run", self.name))?;
        Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
    }

    /// Waits for its end.
    pub fn wait_exit(&mut self) -> anyhow::Result<ExitStatus> {
        let mut child = self
            .child
            .take()
            .with_context(|| format!("{} does not run", self.name))?;
        let ended = until(&format!("end of {}", self.name), || {
            match child.try_wait() {
                Ok(Some(status)) => Ok(status),
                Ok(None) => Err("it runs".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        if ended.is_err() {
            // The child is put back, so that it is killed with the others.
            self.child = Some(child);
        }
        ended
    }

    /// Returns its process id, unless its end was already noticed.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Reports whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Returns what it has written since its last start.
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
            // Checked before the log is read, so that its last output is not missed.
            let runs = self.runs();
            match self.log().contains(text) {
                true => Ok(Seen::Nothing),
                false if runs => Err("it runs without having said so"),
                false => Ok(Seen::Ended),
            }
        })?;
        match seen {
            Seen::Nothing => Ok(()),
            Seen::Ended => bail!(
                "{} has ended without saying {text:?}:\n{}",
                self.name,
                self.log()
            ),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.logs.join(format!("{}.{}.log", self.name, self.starts))
    }
}

impl Drop for Process {
    // Printed on purpose: the test harness shows it for failed tests.
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        // This fails only if it has ended already.
        let _ = self.kill();
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        eprintln!(
            "--- {}, start {}, {} lines, the last:",
            self.name,
            self.starts,
            lines.len()
        );
        for line in lines.iter().skip(from) {
            eprintln!("{line}");
        }
    }
}
