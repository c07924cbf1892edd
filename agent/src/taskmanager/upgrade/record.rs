//! The record of an upgrade, on disk beside edgecore.yaml: which version was checked, and how far its installation has come.
//!
//! The installed program changes by one rename, after the new version was connected. Before it, each start runs the old version, which
//! reads this record and tries the new one again or gives it up. After it, each start runs the new one.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::super::journal::{self, beside};

/// The suffix of the record.
const RECORD: &str = "upgrade";
/// The suffix of the new program, beside the installed one until it replaces it.
const CANDIDATE: &str = "upgrade";

/// A new version of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The id of the job.
    pub(super) job: String,
    /// The version that runs.
    pub(super) from: String,
    /// The new version.
    pub(super) to: String,
    /// The installed program.
    pub(super) program: PathBuf,
    /// The SHA-256 digest of the new program.
    pub(super) digest: String,
    /// How long the new version may take to connect, seconds.
    pub(super) limit: u64,
    /// How often the new version was started.
    pub(super) starts: u32,
    /// How far it has come.
    pub(super) phase: Phase,
}

/// How far an upgrade has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The new version was checked. Next: [`Phase::OnTrial`], when the job reaches that action.
    Checked,
    /// The old version starts the new one as its child. Next: [`Phase::Connected`] by the new version, else [`Phase::Failed`].
    OnTrial,
    /// The new version has connected; the old one stops and replaces itself. Next: [`Phase::Installed`] by the new version.
    Connected,
    /// The new version is installed and runs.
    Installed,
    /// The new version was given up, and why; the old one runs.
    Failed(String),
}

impl Record {
    /// Reads the record of the agent with this configuration.
    pub(super) fn read(config: &Path) -> Option<Self> {
        journal::read(&path(config))
    }

    pub(super) fn write(&self, config: &Path) -> io::Result<()> {
        journal::write(&path(config), self)
    }

    /// Writes the record with another phase.
    pub(super) fn enter(&mut self, config: &Path, phase: Phase) -> io::Result<()> {
        self.phase = phase;
        self.write(config)
    }

    /// Returns the path of the new program until it is installed.
    pub(super) fn candidate(&self) -> PathBuf {
        candidate(&self.program)
    }

    /// Reports whether this process is the new version while the old one watches it.
    pub(super) fn is_on_trial(&self) -> bool {
        self.to == version() && self.candidate().exists() && self.phase == Phase::OnTrial
    }

    /// Gives the new version up. The program is removed first, which frees the space for the record on a full disk.
    pub(super) fn give_up(&mut self, config: &Path, why: String) -> io::Result<()> {
        journal::remove(&self.candidate());
        self.enter(config, Phase::Failed(why))
    }

    /// Removes the record and the new program, unless it is installed.
    pub(super) fn remove(&self, config: &Path) {
        journal::remove(&self.candidate());
        journal::remove(&path(config));
    }
}

/// Returns the path of the record of the agent with this configuration.
pub(super) fn path(config: &Path) -> PathBuf {
    beside(config, RECORD)
}

/// Returns the path of the new program beside the installed one.
pub(super) fn candidate(program: &Path) -> PathBuf {
    beside(program, CANDIDATE)
}

/// Returns the version of this program, as jobs name it.
pub(super) fn version() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}
