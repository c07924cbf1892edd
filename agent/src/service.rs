//! Why a service of systemd does not run: its state, and the last error in its journal.

use std::{process::Stdio, time::Duration};

use tokio::{io::AsyncReadExt, process::Command, time::timeout};
use wire::text::{count, printable};

/// How long a program of systemd may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of its output.
const MAX_BYTES: u64 = 256 * 1024;
/// The lines of a journal that are searched.
const LINES: &str = "--lines=200";
/// The most characters of an error that are shown.
const MAX_ERROR: usize = 600;
/// How systemd reports the end of a program, after the name of the service, and starts.
const EXITED: &str = "Main process exited";
const STARTS: [&str; 2] = ["Starting ", "Started "];
/// How systemd reports that the kernel stopped a process of the service.
const OUT_OF_MEMORY: &str = "killed by the OOM killer";
/// How the last line of programs that fail begins.
const FAILURES: [&str; 2] = ["error: ", "containerd: "];

/// A service that does not run although it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedService {
    /// Whether systemd starts it again.
    restarts: bool,
    /// How often systemd has started it again.
    count: u32,
    /// Why it ended.
    end: LastEnd,
}

/// Why a service ended, as its journal tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum LastEnd {
    /// Its last error.
    Error(String),
    /// A signal, with its number and name: `9/KILL`.
    Signal(String),
    /// The kernel stopped it, because no memory was free.
    OutOfMemory,
    /// The journal does not tell.
    #[default]
    Unknown,
}

impl FailedService {
    /// Asks systemd for a service; `None` if it runs, was stopped or is unknown.
    pub async fn find(unit: &str) -> Option<Self> {
        let properties = "--property=ActiveState,SubState,NRestarts";
        let shown = output("systemctl", &["show", properties, unit]).await?;
        let found = Self::of(&shown)?;
        let arguments = [
            "--no-pager",
            "--quiet",
            "--output=cat",
            LINES,
            "--unit",
            unit,
        ];
        let journal = output("journalctl", &arguments).await;
        let end = LastEnd::of(&journal.unwrap_or_default(), unit);
        Some(Self { end, ..found })
    }

    /// Reads the output of `systemctl show`.
    fn of(shown: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut pairs = shown.lines().filter_map(|line| line.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let count = value("NRestarts").and_then(|count| count.parse().ok());
        let count = count.unwrap_or_default();
        let restarts = match (value("ActiveState")?, value("SubState")?) {
            ("failed", _) => false,
            (_, sub) if sub.starts_with("auto-restart") => true,
            // it has just been started again
            ("active" | "activating" | "deactivating", _) if count > 0 => true,
            _ => return None,
        };
        Some(Self {
            restarts,
            count,
            end: LastEnd::Unknown,
        })
    }

    /// Returns what is wrong and the cure. `name` is what the service runs.
    pub fn texts(&self, name: &str, unit: &str) -> (String, String) {
        let (error, correct) = self.end.texts(unit);
        if self.restarts {
            let ends = match self.count {
                0 => "has ended, and systemd starts it again".to_owned(),
                1 => "has ended, and systemd has restarted it".to_owned(),
                times => format!(
                    "ends soon after each start, and systemd has restarted it {}",
                    count(times, "time")
                ),
            };
            return (
                format!("{name} {ends}; {error}"),
                format!("{correct}; systemd then starts it again by itself"),
            );
        }
        (
            format!("{name} has failed, and systemd does not restart it; {error}"),
            format!("{correct}, then start it: systemctl start {unit}"),
        )
    }
}

impl LastEnd {
    /// Reads a journal without times. Only the run that ended last counts: an older error may have been corrected.
    fn of(journal: &str, unit: &str) -> Self {
        let exited = format!("{unit}: {EXITED}");
        let ends = [
            exited.clone(),
            format!("{unit}: Deactivated successfully."),
            format!("{unit}: Succeeded."),
        ];
        let is_end = |line: &&str| ends.iter().any(|end| line.starts_with(end));
        let lines: Vec<&str> = journal.lines().collect();
        let Some(last) = lines.iter().rposition(|line| line.starts_with(&exited)) else {
            return last_error(&lines).map_or(Self::Unknown, Self::Error);
        };
        let first = lines[..last]
            .iter()
            .rposition(is_end)
            .map_or(0, |end| end + 1);
        // systemd may be faster than the last line of the program
        let late = lines[last..]
            .iter()
            .position(|line| STARTS.iter().any(|start| line.starts_with(start)));
        let run = &lines[first..late.map_or(lines.len(), |late| last + late)];
        let signal = lines[last]
            .split_once("code=killed, status=")
            .map(|(_, signal)| printable(signal));
        match (last_error(run), signal) {
            (Some(error), _) => Self::Error(error),
            (None, _) if run.iter().any(|line| line.contains(OUT_OF_MEMORY)) => Self::OutOfMemory,
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }

    /// Returns why the service ended, and the cure.
    fn texts(&self, unit: &str) -> (String, String) {
        match self {
            Self::Error(error) => (
                format!("its last error: {error}"),
                "correct what this error names".to_owned(),
            ),
            Self::Signal(signal) => (
                format!("a signal stopped it: {signal}"),
                format!("find out who sent it: journalctl -u {unit} -n 50, and dmesg"),
            ),
            Self::OutOfMemory => (
                "the kernel stopped it, because no memory was free".to_owned(),
                "stop programs on this machine, or lower the memory of its pods".to_owned(),
            ),
            Self::Unknown => (
                "its journal has no error".to_owned(),
                format!("read its journal as root: journalctl -u {unit} -n 50"),
            ),
        }
    }
}

/// Returns the last error in these lines.
fn last_error(lines: &[&str]) -> Option<String> {
    let mut lines = lines.iter().rev();
    let found =
        lines.find_map(|line| FAILURES.iter().find_map(|begin| line.strip_prefix(begin)))?;
    let short: String = found.chars().take(MAX_ERROR).collect();
    Some(printable(&short))
}

/// Reports whether the service is installed and does not run.
pub async fn is_stopped(unit: &str) -> bool {
    let properties = "--property=LoadState,ActiveState";
    let shown = output("systemctl", &["show", properties, unit]).await;
    let shown = shown.unwrap_or_default();
    let has = |line: &str| shown.lines().any(|one| one == line);
    has("LoadState=loaded") && has("ActiveState=inactive")
}

/// Returns the output of a program, without its end if it is too long; `None` if it cannot be run.
async fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut text = Vec::new();
    let reading = child.stdout.take()?.take(MAX_BYTES);
    let read = async { { reading }.read_to_end(&mut text).await };
    timeout(TIMEOUT, read).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_that_ends_soon_after_each_start_is_reported_with_its_last_error() {
        let journal = "error: old\n2026-11-29T13:26:01Z  INFO edge-agent stopped\nerror: cannot lock x\nScheduled restart job\n";
        for (active, sub, restarts, journal, expected) in [
            (
                "activating",
                "auto-restart",
                5,
                journal,
                Some((
                    "restarted it 5 times; its last error: cannot lock x",
                    "starts it again by itself",
                )),
            ),
            (
                "active",
                "running",
                1,
                "",
                Some((
                    "x has ended, and systemd has restarted it; its journal has no error",
                    "journalctl",
                )),
            ),
            (
                "failed",
                "failed",
                0,
                "containerd: failed to load TOML\n",
                Some((
                    "does not restart it; its last error: failed to load TOML",
                    "systemctl start x.service",
                )),
            ),
            ("active", "running", 0, journal, None),
            ("inactive", "dead", 0, journal, None),
        ] {
            let shown = format!("NRestarts={restarts}\nActiveState={active}\nSubState={sub}\n");
            let found = FailedService::of(&shown).map(|found| {
                let end = LastEnd::of(journal, "x.service");
                FailedService { end, ..found }.texts("x", "x.service")
            });
            match (&found, expected) {
                (Some((what, cure)), Some((part, cure_part))) => {
                    assert!(what.contains(part), "{what}");
                    assert!(cure.contains(cure_part), "{cure}");
                }
                (None, None) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn only_the_run_that_ended_last_tells_why_a_service_ended() {
        const STARTED: &str = "Started x.service - X.\n";
        let run = |output: &str, status: &str| {
            format!(
                "{STARTED}{output}x.service: Main process exited, {status}\nx.service: Failed with result 'x'.\n"
            )
        };
        let old = run("error: old\n", "code=exited, status=1/FAILURE");
        let killed = run("INFO ready\n", "code=killed, status=9/KILL");
        let out_of_memory = run(
            "x.service: A process of this unit has been killed by the OOM killer.\n",
            "code=killed, status=9/KILL",
        );
        let late = format!("{}error: late\n", run("", "code=exited, status=1/FAILURE"));
        let stopped = format!(
            "{STARTED}error: of a run that was stopped\nx.service: Deactivated successfully.\n"
        );
        for (journal, expected) in [
            (old.clone(), LastEnd::Error("old".to_owned())),
            (
                format!("{old}{killed}"),
                LastEnd::Signal("9/KILL".to_owned()),
            ),
            (
                format!("{stopped}{killed}{STARTED}"),
                LastEnd::Signal("9/KILL".to_owned()),
            ),
            (format!("{old}{out_of_memory}"), LastEnd::OutOfMemory),
            (format!("{old}{late}"), LastEnd::Error("late".to_owned())),
            (
                format!("{old}{}", run("", "code=exited, status=1/FAILURE")),
                LastEnd::Unknown,
            ),
            (
                format!("{killed}{STARTED}error: of the next run\n"),
                LastEnd::Signal("9/KILL".to_owned()),
            ),
            (
                "error: without an end\n".to_owned(),
                LastEnd::Error("without an end".to_owned()),
            ),
        ] {
            assert_eq!(LastEnd::of(&journal, "x.service"), expected, "{journal}");
        }
    }

    #[tokio::test]
    async fn program_that_cannot_be_run_has_no_output() {
        assert_eq!(output("/nowhere/systemctl", &[]).await, None);
        assert_eq!(output("echo", &["a"]).await.as_deref(), Some("a\n"));
    }
}
