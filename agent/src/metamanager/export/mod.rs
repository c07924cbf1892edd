//! Export: writes this node's store as a database of EdgeCore, so that EdgeCore finds the node as this agent leaves it.
//!
//! Exported are pods with their status, mirrors of static pods, the node, ConfigMaps, Secrets, volumes and claims, tokens,
//! devices with their attributes and twins, mappers, the topics of rules and URLs; and for the clients of EdgeCore's MetaServer
//! the same objects in `meta_v2`. What the cloud has deleted is not exported. What EdgeCore cannot store is reported.
//!
//! The file is written to a temporary place and replaces the old one as a whole, or not at all.
//!
//! Source: KubeEdge 1.23, `edge/pkg/metamanager/dao`; the tables are those that its ORM makes.

mod file;
mod objects;
mod pods;
mod rows;

use std::{collections::BTreeMap, io, path::Path};

use objectstore::{Object, StoreError};
use serde_json::Value;

/// Why a database could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// An object of the store is damaged.
    #[error("cannot read the database; `edge-agent db check` names the damaged objects")]
    Store(#[from] StoreError),
    /// The file cannot be created, flushed or renamed.
    #[error("cannot write {path}; check free space and permissions of its directory")]
    File {
        /// The path of the database.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// SQLite cannot write it.
    #[error("cannot write {path}; check free space and permissions of its directory")]
    Database {
        /// The path of the database.
        path: String,
        /// The error of SQLite.
        source: sqlx::Error,
    },
}

/// What was exported, and what was not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportSummary {
    /// Rows by table.
    pub(crate) written: BTreeMap<&'static str, usize>,
    /// What EdgeCore cannot store: a description, and the names.
    pub(crate) skipped: BTreeMap<&'static str, Vec<String>>,
}

/// A device as rows of EdgeCore's tables.
#[derive(Debug)]
pub(crate) struct DeviceRows {
    /// The id of the device.
    pub(crate) id: String,
    /// A table's name and the row's values by column, for each row.
    pub(crate) rows: Vec<(&'static str, Value)>,
    /// Whether the device has values that the cloud has not confirmed.
    pub(crate) has_unconfirmed: bool,
}

/// Reads an object that is a device; `None` where it cannot be read.
pub(crate) type ReadDevice = fn(&Value) -> Option<DeviceRows>;

/// Writes `objects`, which are all objects of this node's store, as a database of EdgeCore at `path`, which is replaced.
/// `read_device` is DeviceTwin's, which knows the form of a device.
///
/// # Errors
/// An object cannot be read, or the file cannot be written; the file at `path` is then unchanged.
pub(crate) async fn export(
    objects: &[Object],
    node_name: &str,
    read_device: ReadDevice,
    path: &Path,
) -> Result<ExportSummary, ExportError> {
    let rows = objects::rows_of(objects, node_name, read_device)?;
    file::write(&rows, path).await?;
    let mut written = BTreeMap::new();
    for row in &rows.rows {
        *written.entry(row.table.name()).or_default() += 1;
    }
    Ok(ExportSummary {
        written,
        skipped: rows.skipped,
    })
}

#[cfg(test)]
mod tests;
