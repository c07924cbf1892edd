//! Rotates containers' logs: `0.log` is renamed to `0.log.20060102-150405`, older files are compressed, and the oldest are
//! removed. No line is lost: the runtime continues writing to the renamed file until it has opened the new one. Errors name the file.
//!
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation>.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use fs_err::{self as fs, File, OpenOptions, os::unix::fs::OpenOptionsExt};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::timestamps;

/// Suffix of a compressed file.
const GZIP_SUFFIX: &str = ".gz";
/// Suffix of a file that is being written, and is incomplete after a crash.
const TEMPORARY_SUFFIX: &str = ".tmp";
/// Format of the time in a file name.
const TIME_FORMAT: &str = "%Y%m%d-%H%M%S";
/// A file name whose time is further in the future was given while the clock was wrong.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A log that exceeds the maximum size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LargeLog {
    /// The file to which the runtime writes.
    pub(super) path: PathBuf,
    /// The pod's uid.
    pub(super) uid: String,
    /// The container's name.
    pub(super) container: String,
    /// The container's attempt number, which is the number in the file's name.
    pub(super) attempt: u32,
}

/// Returns the logs below `root` with at least `most` bytes. Paths are `<namespace>_<name>_<uid>/<container>/<attempt>.log`.
pub(super) fn large_logs(root: &Path, most: u64) -> Vec<LargeLog> {
    let mut all = Vec::new();
    for (pod, pod_dir) in directories(root) {
        let Some((_, uid)) = pod.rsplit_once('_') else {
            continue;
        };
        for (container, dir) in directories(&pod_dir) {
            let files = fs::read_dir(&dir).into_iter().flatten().flatten();
            for file in files {
                let name = file.file_name().to_string_lossy().into_owned();
                let Some(attempt) = name.strip_suffix(".log").and_then(|text| text.parse().ok())
                else {
                    continue;
                };
                // Links are not followed: the container may have created them.
                if file
                    .metadata()
                    .is_ok_and(|meta| meta.is_file() && meta.len() >= most)
                {
                    all.push(LargeLog {
                        path: file.path(),
                        uid: uid.to_owned(),
                        container: container.clone(),
                        attempt,
                    });
                }
            }
        }
    }
    all
}

fn directories(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| {
        (
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        )
    })
    .collect()
}

/// Prepares a rotation of `log`: removes what a crash has left, removes the oldest rotated files until at most `most - 2` are
/// left, and compresses those. The current file and the one that it is renamed to make up `most`.
pub(super) fn prepare_rotation(log: &Path, most: usize) -> io::Result<()> {
    let mut rotated = rotated_files(log)?;
    let compressed: Vec<PathBuf> = rotated
        .iter()
        .filter(|path| has_suffix(path, GZIP_SUFFIX))
        .cloned()
        .collect();
    let stale = |path: &PathBuf| {
        has_suffix(path, TEMPORARY_SUFFIX)
            || (!has_suffix(path, GZIP_SUFFIX)
                && compressed.contains(&with_suffix(path, GZIP_SUFFIX)))
    };
    for path in rotated.iter().filter(|path| stale(path)) {
        fs::remove_file(path)?;
    }
    rotated.retain(|path| !stale(path));
    let surplus = rotated.len().saturating_sub(most.saturating_sub(2));
    for path in rotated.drain(..surplus) {
        fs::remove_file(&path)?;
    }
    rotated
        .iter()
        .filter(|path| !has_suffix(path, GZIP_SUFFIX))
        .try_for_each(|path| compress(path))
}

/// Returns the rotated files of the log, oldest first: their times sort as text.
fn rotated_files(log: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = log
        .file_name()
        .map(|name| format!("{}.", name.to_string_lossy()))
    else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(log.parent().unwrap_or(Path::new("/")))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&name) && entry.file_type()?.is_file() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

fn has_suffix(path: &Path, suffix: &str) -> bool {
    path.as_os_str().to_string_lossy().ends_with(suffix)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn compress(path: &Path) -> io::Result<()> {
    let temporary = with_suffix(path, TEMPORARY_SUFFIX);
    let done = write_compressed(path, &temporary)
        .and_then(|()| fs::rename(&temporary, with_suffix(path, GZIP_SUFFIX)));
    if done.is_err() {
        // If it cannot be removed now, it is found again next time.
        let _ = fs::remove_file(&temporary);
        return done;
    }
    fs::remove_file(path)
}

fn write_compressed(path: &Path, temporary: &Path) -> io::Result<()> {
    let mut source = File::open(path)?;
    let mode = source.metadata()?.mode();
    let target = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(temporary)?;
    let mut encoder = GzEncoder::new(target, Compression::default());
    io::copy(&mut source, &mut encoder)?;
    encoder.finish()?.sync_all()
}

/// Renames the current file and returns its new path.
pub(super) fn rename_current(log: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let named = |at: Timestamp| with_suffix(log, &format!(".{}", at.strftime(TIME_FORMAT)));
    // The new name sorts after the newest file's, even if the log is rotated twice in a second or the clock was set back a little
    // …
    let after_newest = newest(log).map(|newest| timestamps::after(newest, Duration::from_secs(1)));
    let mut at = after_newest
        .filter(|at| *at < timestamps::after(now, MAX_CLOCK_SKEW))
        .map_or(now, |at| at.max(now));
    let mut aside = named(at);
    // … and no existing file is overwritten.
    while aside.exists() || with_suffix(&aside, GZIP_SUFFIX).exists() {
        at = timestamps::after(at, Duration::from_secs(1));
        aside = named(at);
    }
    fs::rename(log, &aside)?;
    Ok(aside)
}

/// Returns when the newest rotated file was renamed, according to its name.
fn newest(log: &Path) -> Option<Timestamp> {
    let newest = rotated_files(log).ok()?.pop()?;
    let name = newest.file_name()?.to_str()?.trim_end_matches(GZIP_SUFFIX);
    let time = DateTime::strptime(TIME_FORMAT, name.rsplit_once('.')?.1).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Renames the file back if the runtime still writes to it. Does nothing if the runtime has created a new file after all, which
/// would be lost.
pub(super) fn rename_back(aside: &Path, log: &Path) -> io::Result<()> {
    if log.exists() {
        return Ok(());
    }
    fs::rename(aside, log)
}

/// Removes a container's log and its rotated files.
pub(super) fn remove(log: &Path) {
    let all = rotated_files(log).unwrap_or_default();
    for path in all.iter().map(PathBuf::as_path).chain([log]) {
        // A file that cannot be removed is removed with the pod.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut all: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn five_files_are_kept_the_older_ones_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for round in 0..8 {
            fs::write(&log, format!("round {round}\n")).unwrap();
            prepare_rotation(&log, 5).unwrap();
            rename_current(&log, at(round)).unwrap();
        }
        fs::write(&log, "now\n").unwrap();
        assert_eq!(
            names(dir.path()),
            [
                "0.log",
                "0.log.20231114-221324.gz",
                "0.log.20231114-221325.gz",
                "0.log.20231114-221326.gz",
                "0.log.20231114-221327"
            ]
        );
        let mut text = String::new();
        let file = File::open(dir.path().join("0.log.20231114-221324.gz")).unwrap();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "round 4\n");
    }

    #[test]
    fn rotations_within_a_second_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for round in 0..6 {
            fs::write(&log, format!("round {round}")).unwrap();
            prepare_rotation(&log, 3).unwrap();
            rename_current(&log, at(0)).unwrap();
        }
        assert_eq!(
            names(dir.path()),
            ["0.log.20231114-221324.gz", "0.log.20231114-221325"]
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("0.log.20231114-221325")).unwrap(),
            "round 5"
        );
        fs::write(&log, "after the clock was set right").unwrap();
        let aside = rename_current(&log, at(-86_400)).unwrap();
        assert!(
            aside.ends_with("0.log.20231113-221320"),
            "{}",
            aside.display()
        );
    }

    #[test]
    fn leftovers_of_a_crash_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for name in [
            "0.log",
            "0.log.1",
            "0.log.1.gz",
            "0.log.2",
            "0.log.2.tmp",
            "1.log",
            "1.log.1",
        ] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        prepare_rotation(&log, 5).unwrap();
        assert_eq!(
            names(dir.path()),
            ["0.log", "0.log.1.gz", "0.log.2.gz", "1.log", "1.log.1"]
        );
        remove(&log);
        assert_eq!(names(dir.path()), ["1.log", "1.log.1"]);
    }

    #[test]
    fn log_is_renamed_back_if_it_was_not_reopened() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        fs::write(&log, "first").unwrap();
        let aside = rename_current(&log, at(0)).unwrap();
        rename_back(&aside, &log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "first");
        let aside = rename_current(&log, at(0)).unwrap();
        fs::write(&log, "second").unwrap();
        rename_back(&aside, &log).unwrap();
        assert_eq!(
            fs::read_to_string(&log).unwrap(),
            "second",
            "the runtime was there first"
        );
        let other = rename_current(&log, at(0)).unwrap();
        assert!(other > aside, "twice in a second: {}", other.display());
    }

    #[test]
    fn only_large_logs_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let of = |pod: &str, file: &str, size: usize| {
            let path = dir.path().join(pod).join("main");
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(file), vec![b'x'; size]).unwrap();
        };
        of("ns_web_u-1", "0.log", 10);
        of("ns_web_u-1", "1.log", 9);
        of("ns_web_u-1", "0.log.20231114-221324", 99);
        of("stranger", "0.log", 99);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("ns_web_u-1/main/7.log"))
            .unwrap();
        let found = large_logs(dir.path(), 10);
        let path = dir.path().join("ns_web_u-1/main/0.log");
        assert_eq!(
            found,
            [LargeLog {
                path,
                uid: "u-1".into(),
                container: "main".into(),
                attempt: 0
            }]
        );
        assert_eq!(large_logs(&dir.path().join("none"), 1), []);
    }
}
