//! The log of a program: from systemd's journal, and from files.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{io::AsyncReadExt, process::Command, time::timeout};

use super::{archive::Archive, redact::Redactor, time::TimeRange};

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
        let time = |time: jiff::Timestamp| format!("@{}", time.as_second());
        let mut command = Command::new(JOURNALCTL);
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
            return Err(format!(
                "the journal has no lines of {} in this time",
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
