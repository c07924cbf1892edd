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
/// How the last line of programs that fail begins.
const FAILURES: [&str; 2] = ["error: ", "containerd: "];

/// A service that does not run although it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FailedService {
    /// Whether systemd starts it again.
    restarts: bool,
    /// How often systemd has started it again.
    count: u32,
    /// Its last error.
    error: Option<String>,
}

impl FailedService {
    /// Asks systemd for a service; `None` if it runs, was stopped or is unknown.
    pub(super) async fn find(unit: &str) -> Option<Self> {
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
        let error = last_error(&journal.unwrap_or_default());
        Some(Self { error, ..found })
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
            error: None,
        })
    }

    /// Returns what is wrong and the cure. `name` is what the service runs.
    pub(super) fn texts(&self, name: &str, unit: &str) -> (String, String) {
        let error = match &self.error {
            Some(error) => format!("its last error: {error}"),
            None => "its journal has no error".to_owned(),
        };
        let correct = match &self.error {
            Some(_) => "correct what this error names".to_owned(),
            None => format!("read its journal: journalctl -u {unit} -n 50"),
        };
        if self.restarts {
            let times = count(self.count, "time");
            return (
                format!(
                    "{name} ends soon after each start, and systemd has restarted it {times}; {error}"
                ),
                format!("{correct}; systemd then starts it again by itself"),
            );
        }
        (
            format!("{name} has failed, and systemd does not restart it; {error}"),
            format!("{correct}, then start it: systemctl start {unit}"),
        )
    }
}

/// Returns the last error of a journal without times.
fn last_error(journal: &str) -> Option<String> {
    let mut lines = journal.lines().rev();
    let found =
        lines.find_map(|line| FAILURES.iter().find_map(|begin| line.strip_prefix(begin)))?;
    let short: String = found.chars().take(MAX_ERROR).collect();
    Some(printable(&short))
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
                    "restarted it 1 time; its journal has no error",
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
                let error = last_error(journal);
                FailedService { error, ..found }.texts("it", "x.service")
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

    #[tokio::test]
    async fn program_that_cannot_be_run_has_no_output() {
        assert_eq!(output("/nowhere/systemctl", &[]).await, None);
        assert_eq!(output("echo", &["a"]).await.as_deref(), Some("a\n"));
    }
}
