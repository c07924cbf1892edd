//! The records of this user's clouds: one file per process, in a directory that only the user can read. A record is written when its
//! cloud begins to start; the records and logs of clouds that have ended are removed when the directory is read, except the log of the
//! last one that has crashed.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use limits::read_regular_text;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::process::{Process, start_ticks};

/// The largest record in bytes, and how many files are read.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
const MAX_FILES: usize = 2000;
/// The directory of the records of the packaged service (`packaging/cloudsim.service`), which root can read.
const SERVICE: &str = "/run/cloudsim/cloudsim";
/// The log of the last cloud that has crashed, beside the records.
const CRASHED_LOG: &str = "crashed.log";
/// How long a start waits for others that write their records, and how often it tries.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A cloud of this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunningCloud {
    /// Its process.
    pub(super) process: Process,
    /// When it was started.
    pub(super) since: Timestamp,
    /// Whether it is not ready yet.
    #[serde(default)]
    pub(super) is_starting: bool,
    /// The address of the Kubernetes API; unknown until the cloud is ready.
    pub(super) api: Option<String>,
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

    /// Reports whether it writes the same entries of a kubeconfig as this one, and is another.
    fn rivals(&self, other: &Self) -> bool {
        let file = other.kubeconfig.as_deref();
        self.process != other.process
            && file.is_some()
            && self.is_of(file, other.context.as_deref())
    }
}

fn canonical_path(file: &Path) -> PathBuf {
    let found = file.canonicalize();
    // Of a file that does not exist yet, the directory may be known by several names.
    let found = found.or_else(|_| {
        let whole = std::path::absolute(file)?;
        let parent = whole.parent().and_then(|parent| parent.canonicalize().ok());
        std::io::Result::Ok(match (parent, whole.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => whole,
        })
    });
    found.unwrap_or_else(|_| file.to_owned())
}

/// Why a cloud was not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// Another cloud has the same entries of a kubeconfig: of two clouds, commands would show the wrong one.
    #[error(
        "process {pid} runs a cloud with context {context} in {}; stop it with `cloudsim down`, or choose another name with --context or \
         another file with --kubeconfig",
        file.display()
    )]
    Taken {
        /// The other process.
        pid: i32,
        /// The context of both.
        context: String,
        /// The kubeconfig of both.
        file: PathBuf,
    },
    /// The directory of the records cannot be used.
    #[error(transparent)]
    Unusable(#[from] anyhow::Error),
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
        let found = fs::symlink_metadata(directory).with_context(|| unreadable(directory))?;
        if found.uid() != geteuid().as_raw() {
            bail!(
                "{shown} belongs to another user; set XDG_RUNTIME_DIR to a directory that you own"
            );
        }
        if !found.is_dir() || found.mode() & 0o077 != 0 {
            bail!(
                "{shown} is accessible to other users; remove it, or set XDG_RUNTIME_DIR to a directory that you own"
            );
        }
        Ok(directory)
    }

    /// Writes the record of a cloud, which is removed when the returned value is dropped.
    ///
    /// # Errors
    /// Another cloud has its entries, or the record cannot be written.
    pub(super) async fn add(&self, cloud: RunningCloud) -> Result<Registration, RecordError> {
        let directory = self.directory()?;
        // Of two clouds that start at the same time, the second sees the record of the first.
        let _locked = lock(directory).await?;
        if let Some(rival) = self
            .list_beside(Some(&cloud))?
            .into_iter()
            .find(|it| it.rivals(&cloud))
        {
            return Err(RecordError::Taken {
                pid: rival.process.pid,
                context: rival.name().to_owned(),
                file: rival.kubeconfig.clone().unwrap_or_default(),
            });
        }
        let path = directory.join(format!("{}.json", cloud.process.pid));
        let registration = Registration { path, cloud };
        registration.write()?;
        Ok(registration)
    }

    /// Returns the running clouds, the oldest first, and removes what others have left.
    ///
    /// # Errors
    /// The directory is not private, or cannot be read.
    pub(super) fn list(&self) -> anyhow::Result<Vec<RunningCloud>> {
        self.list_beside(None)
    }

    /// Returns these clouds and that of the packaged service, if this user may see it.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub(super) fn list_with_service(&self) -> anyhow::Result<Vec<RunningCloud>> {
        let mut clouds = self.list()?;
        let service = Path::new(SERVICE);
        if self.directory != service {
            clouds.extend(others(service));
            clouds.sort_by_key(|cloud| (cloud.since, cloud.process.pid));
        }
        Ok(clouds)
    }

    /// The same for a cloud that has no record yet, whose log is kept.
    fn list_beside(&self, own: Option<&RunningCloud>) -> anyhow::Result<Vec<RunningCloud>> {
        let directory = self.directory.as_path();
        match fs::symlink_metadata(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.with_context(|| unreadable(directory))?,
        };
        let entries = fs::read_dir(self.directory()?).with_context(|| unreadable(directory))?;
        let files: Vec<PathBuf> = (entries.take(MAX_FILES).flatten())
            .map(|entry| entry.path())
            .collect();
        let of_kind = |wanted: &'static str| {
            let is_wanted = move |file: &&PathBuf| file.extension().is_some_and(|it| it == wanted);
            files.iter().filter(is_wanted)
        };
        let mut clouds: Vec<_> = of_kind("json").filter_map(|file| read(file)).collect();
        let used: Vec<_> = (clouds.iter().chain(own))
            .filter_map(|cloud| cloud.log.as_deref())
            .collect();
        of_kind("log").for_each(|log| remove_useless(log, &used));
        clouds.sort_by_key(|cloud| (cloud.since, cloud.process.pid));
        Ok(clouds)
    }
}

fn unreadable(directory: &Path) -> String {
    format!(
        "cannot read {}; remove it, or set XDG_RUNTIME_DIR to a directory that you own",
        directory.display()
    )
}

/// Locks the directory, until the returned file is dropped.
async fn lock(directory: &Path) -> anyhow::Result<File> {
    let file = File::open(directory).with_context(|| unreadable(directory))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                sleep(LOCK_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => bail!(
                "another program has locked {} for {LOCK_TIMEOUT:?}; stop it, and try again",
                directory.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", directory.display()));
            }
        }
    }
}

/// Returns the running clouds of another user's directory; none if it cannot be read.
fn others(directory: &Path) -> Vec<RunningCloud> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let files = entries.take(MAX_FILES).flatten().map(|entry| entry.path());
    let records = files.filter(|file| file.extension().is_some_and(|it| it == "json"));
    records.filter_map(|file| read_running(&file)).collect()
}

/// Reads the record of a running cloud.
fn read_running(file: &Path) -> Option<RunningCloud> {
    read_record(file).filter(|cloud| cloud.process.is_running())
}

fn read_record(file: &Path) -> Option<RunningCloud> {
    let text = read_regular_text(file, MAX_RECORD_BYTES).ok()?;
    serde_json::from_str(&text).ok()
}

/// Reads a record. That of a process that has ended, as after `kill -9`, is removed, and so is what is no record.
fn read(file: &Path) -> Option<RunningCloud> {
    let cloud = read_record(file);
    if let Some(cloud) = cloud.as_ref().filter(|cloud| cloud.process.is_running()) {
        return Some(cloud.clone());
    }
    // the process that waits for a start shows its log
    let crashed = cloud.filter(|cloud| !cloud.is_starting);
    if let Some(log) = crashed.and_then(|cloud| cloud.log).and_then(keep_crashed) {
        warn!(
            log = %log.display(),
            "cloud ended unexpectedly; its log shows the cause"
        );
    }
    let _ = fs::remove_file(file);
    None
}

/// Keeps the log of a cloud that has crashed: one that is beside the records is renamed, since it would be removed. Returns its path.
fn keep_crashed(log: PathBuf) -> Option<PathBuf> {
    let is_beside = starter(&log).is_some();
    let kept = match is_beside {
        true => log.with_file_name(CRASHED_LOG),
        false => log.clone(),
    };
    let exists = fs::metadata(&log).is_ok_and(|log| log.is_file());
    let is_kept = exists && (!is_beside || fs::rename(&log, &kept).is_ok());
    is_kept.then_some(kept)
}

/// Returns the process that started the cloud of a log beside the records, whose number is the log's name.
fn starter(log: &Path) -> Option<i32> {
    log.file_stem()?.to_str()?.parse().ok()
}

/// Removes a log unless it is that of a running cloud, or its name is the number of a running process, which is about to start a cloud.
fn remove_useless(log: &Path, used: &[&Path]) {
    let is_crashed = log.file_name().is_some_and(|name| name == CRASHED_LOG);
    if !is_crashed && !used.contains(&log) && starter(log).and_then(start_ticks).is_none() {
        let _ = fs::remove_file(log);
    }
}

/// The record of a cloud of this process. It ends with the cloud, and so does the log of a cloud without a data directory.
#[derive(Debug)]
pub(super) struct Registration {
    path: PathBuf,
    cloud: RunningCloud,
}

impl Registration {
    /// Records that the cloud is ready.
    pub(super) fn set_ready(
        &mut self,
        api: String,
        kubeconfig: Option<PathBuf>,
    ) -> anyhow::Result<()> {
        self.cloud.is_starting = false;
        self.cloud.api = Some(api);
        self.cloud.kubeconfig = kubeconfig;
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_vec_pretty(&self.cloud)?;
        if u64::try_from(text.len()).is_ok_and(|length| length > MAX_RECORD_BYTES) {
            bail!(
                "the record of this cloud is larger than {MAX_RECORD_BYTES} bytes; shorten the name of the context"
            );
        }
        // readable by its owner only
        let mut file = tempfile::NamedTempFile::new_in(directory).with_context(failed)?;
        file.write_all(&text).with_context(failed)?;
        file.persist(&self.path).with_context(failed)?;
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Another process may have removed it, or the directory is gone.
        let _ = fs::remove_file(&self.path);
        // The process that waits for the start shows the log of one that failed.
        let log = self.cloud.log.as_ref().filter(|_| !self.cloud.is_starting);
        if let Some(log) = log.filter(|log| log.parent() == self.path.parent()) {
            let _ = fs::remove_file(log);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
