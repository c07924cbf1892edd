//! The way back: what this node's store holds, as a database of EdgeCore's, so that EdgeCore finds the node as this agent leaves it.
//!
//! Written are pods with their status, mirrors of static pods, the node, ConfigMaps, Secrets, volumes and claims, tokens, devices with
//! their attributes and twins, mappers, the topics of rules and URLs; and for the clients of EdgeCore's MetaServer the same objects in
//! `meta_v2`. Not written is what the cloud has deleted. What EdgeCore has no place for is told.
//!
//! The file is written beside its place and takes it whole, or not at all.
//!
//! Source: KubeEdge 1.23, `edge/pkg/metamanager/dao`; the tables are those that its ORM makes.

mod file;
mod objects;
mod pods;
mod rows;

use std::{collections::BTreeMap, io, path::Path};

use kubeapi::store::{Object, StoreError};
use serde_json::Value;

/// Why a database could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// An object of the store is damaged.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// The file cannot be made, flushed or put in its place.
    #[error("{path} cannot be written")]
    File {
        /// Where it was to stand.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite cannot write it.
    #[error("{path} cannot be written")]
    Database {
        /// Where it was to stand.
        path: String,
        /// What SQLite said.
        source: sqlx::Error,
    },
}

/// What was written, and what was not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exported {
    /// Rows by table.
    pub(crate) written: BTreeMap<&'static str, usize>,
    /// What EdgeCore has no place for: what it is, and its names.
    pub(crate) left: BTreeMap<&'static str, Vec<String>>,
}

/// A device as rows of EdgeCore's.
#[derive(Debug)]
pub(crate) struct DeviceRows {
    /// The device.
    pub(crate) id: String,
    /// Names of tables, each with a row: its values by column.
    pub(crate) rows: Vec<(&'static str, Value)>,
    /// Whether there is something that the cloud has not confirmed.
    pub(crate) is_due: bool,
}

/// Reads an object that is a device; `None` where it cannot be read.
pub(crate) type ReadDevice = fn(&Value) -> Option<DeviceRows>;

/// Writes `objects`, which are all of the store of this node, as a database of EdgeCore's at `path`; what stood there is replaced.
/// `read_device` is of the room that keeps devices.
///
/// # Errors
/// An object cannot be read, or the file cannot be written; what stood at `path` stands there still.
pub(crate) async fn export(
    objects: &[Object],
    node_name: &str,
    read_device: ReadDevice,
    path: &Path,
) -> Result<Exported, ExportError> {
    let rows = objects::rows_of(objects, node_name, read_device)?;
    file::write(&rows, path).await?;
    let mut written = BTreeMap::new();
    for row in &rows.rows {
        *written.entry(row.table.name()).or_default() += 1;
    }
    Ok(Exported { written, left: rows.left })
}

#[cfg(test)]
mod tests;
