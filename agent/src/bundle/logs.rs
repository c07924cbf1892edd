//! The log of a program: from systemd's journal, and from files.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use record::redact::Redactor;
use tokio::{io::AsyncReadExt, process::Command, time::timeout};

use super::{archive::Archive, time::TimeRange};

/// The most bytes of a log; the newest ones count.
const MAX_BYTES: u64 = 16 << 20;
/// How long journalctl may take.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The program that reads the journal.
const JOURNALCTL: &str = "journalctl";

/// Reads the log of a service.
#[derive(Clone, Debug)]
pub struct LogReader {
    /// The service.
    pub unit: &'static str,
    /// The time range.
    pub range: TimeRange,
}

impl LogReader {
    /// Returns the lines of the journal.
    ///
    /// # Errors
    /// There is no journalctl, or it fails or takes too long.
    pub async fn journal(&self) -> Result<Vec<u8>, String> {
        self.read(JOURNALCTL.as_ref()).await
    }

    async fn read(&self, program: &Path) -> Result<Vec<u8>, String> {
        let time = |time: jiff::Timestamp| format!("@{}", time.as_second());
        let mut command = Command::new(program);
        command
            .args([
                "--no-pager",
                "--quiet",
                "--output=short-iso-precise",
                "--unit",
                self.unit,
            ])
            .args(["--since", &time(self.range.since)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(until) = self.range.until {
            command.args(["--until", &time(until)]);
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot run {JOURNALCTL}: {error}"))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(format!("{JOURNALCTL} has no output"));
        };
        let mut log = Vec::new();
        let read = async {
            let read = stdout.take(MAX_BYTES).read_to_end(&mut log).await;
            read.map_err(|error| format!("cannot read from {JOURNALCTL}: {error}"))
        };
        match timeout(JOURNAL_TIMEOUT, read).await {
            Ok(read) => read.map(drop)?,
            Err(_) => {
                return Err(format!(
                    "{JOURNALCTL} took longer than {} s",
                    JOURNAL_TIMEOUT.as_secs()
                ));
            }
        }
        if log.is_empty() {
            let cure = match nix::unistd::geteuid().is_root() {
                true => "",
                false => ", or this user may not read it; run this command as root",
            };
            return Err(format!(
                "the journal has no lines of {} in this time{cure}",
                self.unit
            ));
        }
        Ok(log)
    }
}

/// Adds log files to an archive, without secrets.
pub fn add_log_files(
    archive: &mut Archive,
    files: &[PathBuf],
    range: TimeRange,
    redactor: &Redactor,
) {
    for (number, file) in files.iter().enumerate() {
        let name = file
            .file_name()
            .map_or_else(|| "log".into(), |name| name.to_string_lossy());
        let log = read_log_file(file, range).map(|log| redactor.bytes(&log));
        archive.add(&format!("logs/{number}-{name}"), log);
    }
}

/// Returns the lines of a log file in the range, at most the last 16 MiB.
fn read_log_file(path: &Path, range: TimeRange) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut file: File =
        limits::open_regular_file(path, File::options().read(true)).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))
        .map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(range.lines(&text).into_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// Runs a program in place of journalctl.
    async fn journal(script: &str, until: Option<i64>) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("journalctl");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let time = |second| jiff::Timestamp::from_second(second).unwrap();
        let reader = LogReader {
            unit: "edge-agent.service",
            range: TimeRange {
                since: time(1_700_000_000),
                until: until.map(time),
            },
        };
        let log = reader.read(&program).await?;
        Ok(String::from_utf8(log).unwrap())
    }

    #[tokio::test]
    async fn lines_of_the_journal_are_selected_by_unit_and_time() {
        let arguments = journal("echo \"$@\"", Some(1_700_000_060)).await.unwrap();
        assert_eq!(
            arguments,
            "--no-pager --quiet --output=short-iso-precise --unit edge-agent.service --since @1700000000 --until @1700000060\n"
        );
        let open_end = journal("echo \"$@\"", None).await.unwrap();
        assert!(open_end.ends_with("--since @1700000000\n"), "{open_end}");
    }

    #[tokio::test]
    async fn missing_lines_and_a_missing_program_are_reported() {
        let none = journal("exit 1", None).await.unwrap_err();
        assert!(none.contains("no lines of edge-agent.service"), "{none}");
        let range = TimeRange {
            since: jiff::Timestamp::UNIX_EPOCH,
            until: None,
        };
        let reader = LogReader { unit: "x", range };
        let missing = reader
            .read(Path::new("/nowhere/journalctl"))
            .await
            .unwrap_err();
        assert!(missing.starts_with("cannot run"), "{missing}");
    }

    #[tokio::test]
    async fn long_journal_is_cut() {
        let long = journal("yes | head -c 20000000", None).await.unwrap();
        assert_eq!(long.len() as u64, MAX_BYTES);
    }
}
