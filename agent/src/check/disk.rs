//! Check `disk`: free space and inodes of the directories of state, images and logs.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use edged::disk_space;
use nix::{
    errno::Errno,
    sys::{
        stat::{major, minor},
        statvfs::{FsFlags, statvfs},
    },
};

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};

/// The free space in percent below which the check warns, and below which it fails.
const SPACE_PERCENT: [u64; 2] = [10, 1];
/// The same for inodes.
const INODES_PERCENT: [u64; 2] = [5, 1];

/// The state of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileSystem {
    bytes: u64,
    free_bytes: u64,
    /// 0 if the file system has no fixed number.
    inodes: u64,
    free_inodes: u64,
    is_read_only: bool,
}

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    let none = CheckResult::NotApplicable("no directory".into());
    let parts = directories(inputs).into_iter().map(|(purposes, path)| {
        let purposes = purposes.join(", ");
        match measure(&path) {
            Ok(found) => judge(&purposes, &path, found),
            Err(error) => CheckResult::Remark(format!(
                "cannot read the free space of {}: {error}",
                path.display()
            )),
        }
    });
    Finding::combine(parts.collect(), none)
}

/// Returns a directory of each file system, with what is stored there.
fn directories(inputs: &Inputs<'_>) -> Vec<(Vec<&'static str>, PathBuf)> {
    let config = inputs.config;
    let mut all = vec![
        ("database", config.database.parent().map(Path::to_owned)),
        ("volumes", Some(config.edged.root_dir.clone())),
        ("logs", Some(config.edged.pod_logs_dir.clone())),
    ];
    let images = inputs
        .machine
        .answering()
        .find_map(|(_, found)| found.images.clone());
    all.push(("images", images.filter(|_| !inputs.machine.is_simulated())));
    let mut found: Vec<(u64, Vec<&str>, PathBuf)> = Vec::new();
    for (purpose, path) in all {
        let Some(path) = path.as_deref().and_then(nearest_directory) else {
            continue;
        };
        let device = fs::metadata(&path)
            .map(|file| file.dev())
            .unwrap_or_default();
        match found.iter_mut().find(|(known, ..)| *known == device) {
            Some((_, purposes, _)) => purposes.push(purpose),
            None => found.push((device, vec![purpose], path)),
        }
    }
    let without_device = |(_, purposes, path)| (purposes, path);
    found.into_iter().map(without_device).collect()
}

/// Returns the directory, or the one in which it will be created.
pub(crate) fn nearest_directory(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .find(|one| one.is_dir())
        .map(Path::to_owned)
}

fn measure(path: &Path) -> nix::Result<FileSystem> {
    let flags = statvfs(path)?.flags();
    let (bytes, inodes) = disk_space(path).ok_or(Errno::EIO)?;
    let number = |value: i64| u64::try_from(value).unwrap_or_default();
    Ok(FileSystem {
        bytes: number(bytes.capacity),
        free_bytes: number(bytes.available),
        inodes: number(inodes.capacity),
        free_inodes: number(inodes.available),
        is_read_only: flags.contains(FsFlags::ST_RDONLY) || is_stopped(path),
    })
}

/// Reports whether the kernel has stopped writing to a file system after an error although its mount is writable: the options of
/// the file system itself show that.
fn is_stopped(path: &Path) -> bool {
    /// The most bytes of the table of mounts.
    const MAX_BYTES: u64 = 4 << 20;
    let Ok(device) = fs::metadata(path).map(|file| file.dev()) else {
        return false;
    };
    let table = limits::read_regular_text(Path::new("/proc/self/mountinfo"), MAX_BYTES);
    table.is_ok_and(|table| has_stopped(&table, &format!("{}:{}", major(device), minor(device))))
}

/// Searches a table of mounts (proc_pid_mountinfo(5)) for the file system on this device.
fn has_stopped(table: &str, device: &str) -> bool {
    table.lines().any(|line| {
        let Some((mount, file_system)) = line.split_once(" - ") else {
            return false;
        };
        let options = file_system.split_whitespace().nth(2).unwrap_or_default();
        mount.split_whitespace().nth(2) == Some(device)
            && options
                .split(',')
                .any(|option| matches!(option, "ro" | "emergency_ro" | "shutdown"))
    })
}

fn judge(purpose: &str, path: &Path, found: FileSystem) -> CheckResult {
    let place = format!("{purpose} ({})", path.display());
    if found.is_read_only {
        return CheckResult::bad(
            format!("{place} is on a read-only file system"),
            "mount it for writing; `dmesg` shows whether the kernel made it read-only after an error",
        );
    }
    let percent = |free: u64, all: u64| free.saturating_mul(100).checked_div(all);
    let free = format!("{} MiB free", found.free_bytes >> 20);
    let mut worst = CheckResult::Passed(format!("{place}: {free}"));
    for (what, share, [warn, fail], cure) in [
        (
            free.clone(),
            percent(found.free_bytes, found.bytes),
            SPACE_PERCENT,
            "free disk space: remove unused images (`ctr -n k8s.io images ls` lists them) and old logs",
        ),
        (
            format!("{} inodes free", found.free_inodes),
            percent(found.free_inodes, found.inodes),
            INODES_PERCENT,
            "remove small files that are not needed; `du --inodes -x -d 2 /` finds them",
        ),
    ] {
        let Some(share) = share else { continue };
        let what = format!("{place}: only {what}, {share} %");
        if share < fail {
            return CheckResult::bad(what, cure);
        }
        if share < warn && matches!(worst, CheckResult::Passed(_)) {
            worst = CheckResult::warning(what, cure);
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_space_or_few_inodes_are_reported() {
        let good = FileSystem {
            bytes: 100 << 30,
            free_bytes: 50 << 30,
            inodes: 1_000_000,
            free_inodes: 900_000,
            is_read_only: false,
        };
        let none = FileSystem::default();
        for (found, expected) in [
            (good, "ok"),
            (
                FileSystem {
                    inodes: 0,
                    free_inodes: 0,
                    ..good
                },
                "ok",
            ),
            (none, "ok"),
            (
                FileSystem {
                    free_bytes: 9 << 30,
                    ..good
                },
                "warning free disk space",
            ),
            (
                FileSystem {
                    free_bytes: 900 << 20,
                    ..good
                },
                "error free disk space",
            ),
            (
                FileSystem {
                    free_inodes: 40_000,
                    ..good
                },
                "warning remove small files",
            ),
            (
                FileSystem {
                    free_inodes: 0,
                    ..good
                },
                "error remove small files",
            ),
            (
                FileSystem {
                    is_read_only: true,
                    ..good
                },
                "error mount it",
            ),
        ] {
            let result = judge("database", Path::new("/x"), found);
            let text = match &result {
                CheckResult::Passed(_) => "ok".to_owned(),
                CheckResult::Warning { cure, .. } => format!("warning {cure}"),
                CheckResult::Failed { cure, .. } => format!("error {cure}"),
                other => panic!("{other:?}"),
            };
            assert!(text.starts_with(expected), "{found:?}: {result:?}");
            assert!(result.texts().0.contains("(/x)"), "{result:?}");
        }
    }

    #[test]
    fn file_system_that_the_kernel_has_stopped_is_read_only() {
        for (options, device, expected) in [
            ("rw,errors=remount-ro", "7:1", false),
            ("ro", "7:1", true),
            ("rw,emergency_ro,errors=remount-ro", "7:1", true),
            ("rw,emergency_ro", "7:2", false),
        ] {
            let table = format!(
                "29 1 7:1 / /var/lib/kubeedge rw,relatime shared:1 - ext4 /dev/loop1 {options}\n"
            );
            assert_eq!(has_stopped(&table, device), expected, "{options}");
        }
    }

    #[test]
    fn missing_directory_is_measured_where_it_will_be_created() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("a/b");
        assert_eq!(nearest_directory(&missing).unwrap(), directory.path());
        assert!(measure(directory.path()).unwrap().bytes > 0);
    }
}
