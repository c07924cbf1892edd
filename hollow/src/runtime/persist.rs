//! The runtime's records on disk: one JSON file for each sandbox and container, and one for all images.
//!
//! A file is replaced as a whole, so a killed process leaves the old or the new one. Nothing is synced to the disk: the records must
//! outlive the runtime's process, but not the machine, because a reboot would end real containers too. A record that a power cut has
//! damaged is set aside: its container has ended, and its images are pulled again.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    error::Error,
    state::{Changes, Records, RuntimeState},
};

const SANDBOXES: &str = "sandboxes";
const CONTAINERS: &str = "containers";
const IMAGES: &str = "images.json";

/// A directory with the records of one runtime.
pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        for kind in [SANDBOXES, CONTAINERS] {
            let path = root.join(kind);
            fs::create_dir_all(&path).map_err(|source| Error::Load { path, source })?;
        }
        Ok(Self { root: root.into() })
    }

    pub(super) fn load(&self) -> Result<RuntimeState, Error> {
        Ok(RuntimeState::restore(Records {
            images: read(&self.root.join(IMAGES))?.unwrap_or_default(),
            sandboxes: self.read_all(SANDBOXES)?,
            containers: self.read_all(CONTAINERS)?,
        }))
    }

    /// Writes changed records. A change that cannot be recorded is logged and lost at the next restart, but it has happened.
    pub(super) fn save(&self, state: &RuntimeState, changes: &Changes) {
        // Containers are removed before sandboxes: an interrupted removal leaves no container without its sandbox.
        self.save_each(CONTAINERS, &changes.containers, |id| {
            state.container(id).ok()
        });
        self.save_each(SANDBOXES, &changes.sandboxes, |id| state.sandbox(id).ok());
        if changes.images {
            report(&self.root.join(IMAGES), |path| {
                write(path, &state.images().collect::<Vec<_>>())
            });
        }
    }

    fn save_each<'a, T: Serialize + 'a>(
        &self,
        kind: &str,
        ids: &BTreeSet<String>,
        find: impl Fn(&str) -> Option<&'a T>,
    ) {
        for id in ids {
            report(
                &self.root.join(kind).join(format!("{id}.json")),
                |path| match find(id) {
                    Some(record) => write(path, record),
                    None => match fs::remove_file(path) {
                        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                        _ => Ok(()),
                    },
                },
            );
        }
    }

    fn read_all<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<T>, Error> {
        let directory = self.root.join(kind);
        let failed = |source| Error::Load {
            path: directory.clone(),
            source,
        };
        let mut records = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // Other files are left from an interrupted write.
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                records.extend(read(&path)?);
            }
        }
        Ok(records)
    }
}

/// Creates empty logs for restored containers, so that they can be read. If that fails, the container's next line creates its log.
pub(super) fn begin_logs(records: &Records) {
    for path in records.log_paths() {
        let created = path.parent().map_or(Ok(()), fs::create_dir_all);
        let created =
            created.and_then(|()| OpenOptions::new().append(true).create(true).open(path));
        report(path, |_| created.map(drop));
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(|source| Error::Load {
            path: path.into(),
            source,
        })?,
    };
    match serde_json::from_slice(&text) {
        Ok(record) => Ok(Some(record)),
        Err(error) => {
            let aside = path.with_extension("damaged");
            tracing::warn!(
                path = %path.display(), %error, aside = %aside.display(),
                "record of the simulated runtime is damaged; setting it aside"
            );
            fs::rename(path, aside).map_err(|source| Error::Load {
                path: path.into(),
                source,
            })?;
            Ok(None)
        }
    }
}

/// Writes a record that only this user can read, because it contains environment variables.
fn write<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    fs::rename(&new, path)
}

fn report(path: &Path, act: impl FnOnce(&Path) -> io::Result<()>) {
    if let Err(error) = act(path) {
        tracing::error!(path = %path.display(), %error, "failed to save state of the simulated runtime");
    }
}
