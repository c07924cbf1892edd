//! Check `disk-speed`: how long the disk of the database takes for a durable write.

use clock::Instant;
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use tokio::time::timeout;

use super::{disk::nearest_directory, inputs::Inputs, report::CheckResult};

/// The number of writes; the median counts.
const WRITES: usize = 5;
/// The bytes of a write: a page of the database.
const PAGE: [u8; 4096] = [0; 4096];
/// A slower write delays each message of the cloud noticeably.
const SLOW: Duration = Duration::from_millis(100);
/// How long all writes may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn check(inputs: &Inputs<'_>) -> CheckResult {
    let folder = inputs.config.database.parent().and_then(nearest_directory);
    let Some(folder) = folder else {
        return CheckResult::NotApplicable("no directory for the database".into());
    };
    let path = folder.clone();
    let written = clock::spawn_blocking(move || median_write(&path));
    match timeout(WRITE_TIMEOUT, written).await {
        Ok(Ok(Ok(took))) => judge(&folder, took),
        Ok(Ok(Err(error))) => CheckResult::bad(
            format!("cannot write to {}: {error}", folder.display()),
            write_cure(&error),
        ),
        Ok(Err(_)) | Err(_) => CheckResult::bad(
            format!(
                "{} took no write within {} s",
                folder.display(),
                WRITE_TIMEOUT.as_secs()
            ),
            "check the disk: `dmesg` shows its errors",
        ),
    }
}

/// Returns the cure of a failed write.
pub(super) fn write_cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run this command as root; as root, check owner, mode and mount options of the folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount the file system for writing (mount -o remount,rw); `dmesg` shows whether the kernel made it read-only after an error"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free disk space",
        _ => "check the disk: `dmesg` shows its errors",
    }
}

fn judge(folder: &Path, took: Duration) -> CheckResult {
    let what = format!(
        "a durable write to {} takes {} ms",
        folder.display(),
        took.as_millis()
    );
    if took <= SLOW {
        return CheckResult::Passed(what);
    }
    CheckResult::warning(
        what,
        "move the database (database.dataSource) to a faster disk, or find the program that writes too much (iotop); worn flash \
         memory also becomes slow",
    )
}

/// Writes a page several times, and returns the median of the durations.
fn median_write(folder: &Path) -> io::Result<Duration> {
    let path = folder.join(format!(".edge-agent-check-{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let mut write = || {
        let begun = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_all()?;
        Ok(begun.elapsed())
    };
    let took: io::Result<Vec<Duration>> = (0..WRITES).map(|_| write()).collect();
    fs::remove_file(&path)?;
    let mut took = took?;
    took.sort();
    Ok(took[WRITES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_writes_warn_and_no_file_remains() {
        let directory = tempfile::tempdir().unwrap();
        median_write(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(median_write(&directory.path().join("missing")).is_err());
        for (code, part) in [
            (13, "as root"),
            (30, "remount"),
            (28, "space"),
            (5, "dmesg"),
        ] {
            let cure = write_cure(&io::Error::from_raw_os_error(code));
            assert!(cure.contains(part), "{code}: {cure}");
        }
        for (millis, is_good) in [(3, true), (100, true), (101, false)] {
            let found = judge(Path::new("/x"), Duration::from_millis(millis));
            assert_eq!(
                matches!(found, CheckResult::Passed(_)),
                is_good,
                "{found:?}"
            );
        }
    }
}
