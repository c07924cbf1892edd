//! The records of this user's running clouds: one file per process, in a directory that only the user can read. A record whose process
//! has ended is removed when it is read.

use std::{
    fs::{self, DirBuilder},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// The largest record in bytes, and how many are read.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
const MAX_RECORDS: usize = 1000;
/// How long a cloud may take to stop; it aborts its own shutdown after 25 seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a process is checked that should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A process. A number alone could belong to another process by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: i32,
    /// Its start, in the kernel's ticks since the boot.
    started: u64,
    /// The id of this boot of the machine.
    boot: String,
}

impl Process {
    /// Returns the running process with this number.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let pid = i32::try_from(pid)?;
        Ok(Self {
            pid,
            started: start_ticks(pid).with_context(|| format!("process {pid} has ended"))?,
            boot: boot_id(),
        })
    }

    /// Reports whether it still runs.
    pub(super) fn is_running(&self) -> bool {
        self.boot == boot_id() && start_ticks(self.pid) == Some(self.started)
    }

    /// Asks it to stop, and waits until it has ended.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        let pid = self.pid;
        if !self.is_running() {
            return Ok(());
        }
        kill(Pid::from_raw(pid), Signal::SIGTERM)
            .with_context(|| format!("cannot stop process {pid}; run this as its user"))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.is_running() {
            if Instant::now() >= deadline {
                bail!(
                    "process {pid} has not stopped within {STOP_TIMEOUT:?}; stop it with `kill -9 {pid}`"
                );
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns when a process was started; `None` if it has ended, even if its parent has not noticed yet.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

/// A running cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunningCloud {
    /// Its process.
    pub(super) process: Process,
    /// When it was ready.
    pub(super) since: Timestamp,
    /// The address of the Kubernetes API.
    pub(super) api: String,
    /// Its kubeconfig; `None` in cluster mode.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Its context there; that of the cluster in cluster mode.
    pub(super) context: Option<String>,
    /// Its data directory; `None` if everything is in memory.
    pub(super) data_dir: Option<PathBuf>,
    /// Its log; `None` if it runs at a terminal.
    pub(super) log: Option<PathBuf>,
}

impl RunningCloud {
    /// Returns the name by which it is shown.
    pub(super) fn name(&self) -> &str {
        self.context.as_deref().unwrap_or("cluster")
    }

    /// Reports whether its entries are in this kubeconfig, under this name if one is given.
    pub(super) fn is_of(&self, kubeconfig: Option<&Path>, context: Option<&str>) -> bool {
        let same_file = |file: &Path| {
            self.kubeconfig.as_deref().map(canonical_path) == Some(canonical_path(file))
        };
        kubeconfig.is_none_or(same_file)
            && context.is_none_or(|context| self.context.as_deref() == Some(context))
    }
}

fn canonical_path(file: &Path) -> PathBuf {
    file.canonicalize()
        .or_else(|_| std::path::absolute(file))
        .unwrap_or_else(|_| file.to_owned())
}

/// The directory of the records.
#[derive(Clone, Debug)]
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Returns the directory of this user: below `$XDG_RUNTIME_DIR`, or else below the directory for temporary files.
    pub(super) fn of_user() -> Self {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let directory = match runtime.filter(|directory| directory.is_absolute()) {
            Some(runtime) => runtime.join("cloudsim"),
            None => std::env::temp_dir().join(format!("cloudsim-{}", geteuid())),
        };
        Self { directory }
    }

    /// Returns the directory, which is created if it is missing.
    ///
    /// # Errors
    /// It cannot be created, or others can read or write it.
    pub(super) fn directory(&self) -> anyhow::Result<&Path> {
        let directory = self.directory.as_path();
        let shown = directory.display();
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot create {shown}; set XDG_RUNTIME_DIR to a directory that you own"
                    )
                });
            }
            _ => {}
        }
        let found =
            fs::symlink_metadata(directory).with_context(|| format!("cannot read {shown}"))?;
        let is_private =
            found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
        if !is_private {
            bail!(
                "{shown} is accessible to other users; remove it, or set XDG_RUNTIME_DIR to a directory that you own"
            );
        }
        Ok(directory)
    }

    /// Writes the record of a cloud, which is removed when the returned value is dropped.
    pub(super) fn add(&self, cloud: &RunningCloud) -> anyhow::Result<Registration> {
        let directory = self.directory()?;
        let path = directory.join(format!("{}.json", cloud.process.pid));
        // readable by its owner only
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec_pretty(cloud)?)?;
        file.persist(&path)?;
        let log = cloud.log.clone();
        let log = log.filter(|log| log.parent() == Some(directory));
        Ok(Registration { path, log })
    }

    /// Returns the running clouds, the oldest first.
    ///
    /// # Errors
    /// The directory is not private.
    pub(super) fn list(&self) -> anyhow::Result<Vec<RunningCloud>> {
        if fs::symlink_metadata(&self.directory).is_err() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(self.directory()?)?.take(MAX_RECORDS);
        let files = entries.flatten().map(|entry| entry.path());
        let records = files.filter(|file| file.extension().is_some_and(|it| it == "json"));
        let mut clouds: Vec<_> = records.filter_map(|file| read(&file)).collect();
        clouds.sort_by_key(|cloud| (cloud.since, cloud.process.pid));
        Ok(clouds)
    }
}

/// Reads a record. That of a process that has ended, as after `kill -9`, is removed.
fn read(file: &Path) -> Option<RunningCloud> {
    let mut text = String::new();
    let opened = fs::File::open(file).ok()?;
    opened
        .take(MAX_RECORD_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    let cloud: Option<RunningCloud> = serde_json::from_str(&text).ok();
    let running = cloud.filter(|cloud| cloud.process.is_running());
    if running.is_none() {
        let _ = fs::remove_file(file);
    }
    running
}

/// The record of a cloud of this process, with its log if it has no data directory: both end with the cloud.
#[derive(Debug)]
pub(super) struct Registration {
    path: PathBuf,
    log: Option<PathBuf>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Another process may have removed it, or the directory is gone.
        let _ = fs::remove_file(&self.path);
        if let Some(log) = &self.log {
            let _ = fs::remove_file(log);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub(in crate::commands) fn records(directory: &Path) -> Records {
        Records {
            directory: directory.join("cloudsim"),
        }
    }

    pub(in crate::commands) fn cloud(process: Process, context: &str) -> RunningCloud {
        RunningCloud {
            process,
            since: Timestamp::UNIX_EPOCH,
            api: "https://127.0.0.1:6443".to_owned(),
            kubeconfig: Some(PathBuf::from("/nowhere/kubeconfig")),
            context: Some(context.to_owned()),
            data_dir: None,
            log: None,
        }
    }

    fn own() -> Process {
        Process::of(std::process::id()).unwrap()
    }

    #[test]
    fn records_are_private_and_end_with_their_cloud() {
        let directory = tempfile::tempdir().unwrap();
        let records = records(directory.path());
        assert!(records.list().unwrap().is_empty());
        let cloud = cloud(own(), "cloudsim");
        let added = records.add(&cloud).unwrap();
        assert_eq!(records.list().unwrap(), [cloud]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(
            (mode(&records.directory), mode(&added.path)),
            (0o700, 0o600)
        );
        drop(added);
        assert!(records.list().unwrap().is_empty());
    }

    #[test]
    fn records_of_ended_or_other_processes_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let records = records(directory.path());
        let own = own();
        for stale in [
            Process {
                started: own.started + 1,
                ..own.clone()
            },
            Process {
                boot: "another".to_owned(),
                ..own.clone()
            },
            Process {
                pid: i32::MAX,
                ..own.clone()
            },
        ] {
            std::mem::forget(records.add(&cloud(stale, "old")).unwrap());
        }
        fs::write(records.directory.join("1.json"), "{").unwrap();
        assert!(records.list().unwrap().is_empty());
        assert_eq!(fs::read_dir(&records.directory).unwrap().count(), 0);
    }

    #[test]
    fn directory_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let records = records(directory.path());
        fs::create_dir(&records.directory).unwrap();
        for mode in [0o755, 0o770] {
            fs::set_permissions(&records.directory, fs::Permissions::from_mode(mode)).unwrap();
            let refused = records.list().unwrap_err().to_string();
            assert!(refused.contains("XDG_RUNTIME_DIR"), "{refused}");
        }
        fs::remove_dir(&records.directory).unwrap();
        std::os::unix::fs::symlink(directory.path(), &records.directory).unwrap();
        assert!(records.add(&cloud(own(), "c")).is_err());
    }

    #[tokio::test]
    async fn process_that_has_ended_is_not_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_running());
        let stale = Process {
            started: 0,
            ..process.clone()
        };
        stale.stop().await.unwrap();
        assert!(process.is_running());
        process.stop().await.unwrap();
        assert!(!process.is_running());
        assert!(!child.wait().unwrap().success());
    }
}
