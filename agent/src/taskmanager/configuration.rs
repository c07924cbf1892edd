//! The agent's edgecore.yaml while a job changes it: a backup, a journal, and the start with the new one.
//!
//! The journal beside the file exists from the change until the node is connected again. A start that fails meanwhile restores the backup:
//! whatever happens, the next start reads a configuration that was valid.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::journal::{self, beside};
use crate::config::replace_like;

/// The suffix of the backup.
const BACKUP: &str = "before-job";
/// The suffix of the journal.
const JOURNAL: &str = "job";
/// How often the agent starts with a new configuration without reaching the cloud.
const MAX_STARTS: u32 = 3;

/// The agent's configuration file, and how the agent starts again.
#[derive(Clone, Debug)]
pub struct Configuration {
    path: PathBuf,
    restart: CancellationToken,
}

/// A change that is not confirmed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The id of the job.
    pub(super) id: String,
    /// How often the agent has started with the new configuration.
    pub(super) starts: u32,
    /// Why the new configuration was given up; `None` as long as it is not.
    pub(super) failed: Option<String>,
}

impl Configuration {
    /// Creates it; cancelling `restart` makes the agent start again.
    pub fn new(path: PathBuf, restart: CancellationToken) -> Self {
        Self { path, restart }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what makes the agent start again when it is cancelled.
    pub(super) fn restart(&self) -> &CancellationToken {
        &self.restart
    }

    /// Copies the file.
    pub(super) fn back_up(&self) -> Result<(), String> {
        let copied = fs::read(&self.path)
            .and_then(|text| replace_like(&beside(&self.path, BACKUP), &text, &self.path));
        copied.map_err(|error| failure("back up", &self.path, &error))
    }

    /// Writes the new text, with a journal before it, and starts the agent again.
    pub(super) fn change(&self, id: &str, text: &str) -> Result<(), String> {
        let journal = Journal {
            id: id.to_owned(),
            ..Journal::default()
        };
        write(&self.path, &journal).map_err(|error| failure("change", &self.path, &error))?;
        if let Err(error) = replace_like(&self.path, text.as_bytes(), &self.path) {
            self.confirm();
            return Err(failure("change", &self.path, &error));
        }
        info!(file = %self.path.display(), "configuration changed by a node job; restarting the agent");
        self.restart.cancel();
        Ok(())
    }

    /// Returns the journal of this job.
    pub(super) fn journal(&self, id: &str) -> Option<Journal> {
        read(&self.path).filter(|journal| journal.id == id)
    }

    /// Ends the change: the new configuration stays.
    pub(super) fn confirm(&self) {
        journal::remove(&beside(&self.path, JOURNAL));
    }

    /// Restores the backup; `true` if that changed the file, so that the agent starts again.
    pub(super) fn roll_back(&self) -> Result<bool, String> {
        let is_changed =
            restore(&self.path).map_err(|error| failure("restore", &self.path, &error))?;
        if is_changed {
            self.restart.cancel();
        } else {
            self.confirm();
        }
        Ok(is_changed)
    }
}

/// Counts a start of the agent with a changed configuration. After too many, the backup is restored.
pub(crate) fn count_start(path: &Path) {
    let Some(mut journal) = read(path).filter(|journal| journal.failed.is_none()) else {
        return;
    };
    journal.starts += 1;
    if journal.starts > MAX_STARTS {
        give_up(
            path,
            format!("the agent ended {MAX_STARTS} times with the new configuration"),
        );
    } else if let Err(error) = write(path, &journal) {
        warn!(%error, "failed to count the start with a changed configuration");
    }
}

/// Restores the backup after a start that failed with a changed configuration; reports whether the agent can start again with it.
pub(crate) fn give_up_after(path: &Path, error: &str) -> bool {
    let is_changed = read(path).is_some_and(|journal| journal.failed.is_none());
    is_changed
        && give_up(
            path,
            format!("the agent does not start with the new configuration: {error}"),
        )
}

fn give_up(path: &Path, why: String) -> bool {
    let Some(mut journal) = read(path) else {
        return false;
    };
    warn!(
        reason = why,
        "configuration of a node job rejected; restoring the one before it"
    );
    journal.failed = Some(why);
    match restore(path).and_then(|_| write(path, &journal)) {
        Ok(()) => true,
        Err(error) => {
            warn!(%error, "failed to restore the configuration before the node job");
            false
        }
    }
}

/// Replaces the file by its backup; `true` if they differed.
fn restore(path: &Path) -> io::Result<bool> {
    let backup = fs::read(beside(path, BACKUP))?;
    if fs::read(path).is_ok_and(|text| text == backup) {
        return Ok(false);
    }
    replace_like(path, &backup, path)?;
    Ok(true)
}

/// Returns the journal of this configuration file.
fn read(path: &Path) -> Option<Journal> {
    journal::read(&beside(path, JOURNAL))
}

fn write(path: &Path, journal: &Journal) -> io::Result<()> {
    journal::write(&beside(path, JOURNAL), journal)
}

/// Returns the files that jobs may have left beside this configuration file.
pub(super) fn files(path: &Path) -> [PathBuf; 2] {
    [BACKUP, JOURNAL].map(|suffix| beside(path, suffix))
}

fn failure(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, Configuration) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("edgecore.yaml");
        fs::write(&path, text).unwrap();
        (
            directory,
            Configuration::new(path, CancellationToken::new()),
        )
    }

    fn text(file: &Configuration) -> String {
        fs::read_to_string(&file.path).unwrap()
    }

    #[test]
    fn a_confirmed_change_stays() {
        let (_directory, file) = file("old");
        file.back_up().unwrap();
        file.change("1", "new").unwrap();
        assert!(file.restart.is_cancelled());
        count_start(&file.path);
        assert_eq!(file.journal("1").unwrap().starts, 1);
        assert_eq!(file.journal("2"), None);
        file.confirm();
        count_start(&file.path);
        assert!(!give_up_after(&file.path, "x"));
        assert_eq!((text(&file).as_str(), file.journal("1")), ("new", None));
    }

    #[test]
    fn a_change_that_does_not_start_is_given_up() {
        for fails in [true, false] {
            let (_directory, file) = file("old");
            file.back_up().unwrap();
            file.change("1", "new").unwrap();
            if fails {
                assert!(give_up_after(&file.path, "port 1 is in use"));
                assert!(!give_up_after(&file.path, "again"));
            } else {
                for _ in 0..=MAX_STARTS {
                    assert_eq!(text(&file), "new");
                    count_start(&file.path);
                }
            }
            assert_eq!(text(&file), "old");
            let why = file.journal("1").unwrap().failed.unwrap();
            assert!(
                why.contains(if fails {
                    "port 1 is in use"
                } else {
                    "ended 3 times"
                }),
                "{why}"
            );
            // the rollback has nothing left to do
            assert_eq!(file.roll_back(), Ok(false));
            assert_eq!(file.journal("1"), None);
        }
    }

    #[test]
    fn a_rollback_starts_the_agent_again() {
        let (_directory, file) = file("old");
        file.back_up().unwrap();
        fs::write(&file.path, "new").unwrap();
        assert_eq!(file.roll_back(), Ok(true));
        assert!(file.restart.is_cancelled());
        assert_eq!((text(&file).as_str(), file.roll_back()), ("old", Ok(false)));
    }

    #[test]
    fn without_a_journal_nothing_happens() {
        let (_directory, file) = file("old");
        count_start(&file.path);
        assert!(!give_up_after(&file.path, "x"));
        fs::write(beside(&file.path, JOURNAL), "{").unwrap();
        count_start(&file.path);
        assert_eq!(text(&file), "old");
    }
}
