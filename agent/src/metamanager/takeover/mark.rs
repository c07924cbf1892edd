//! The mark of a takeover in the store: its state, and the header of EdgeCore's database at that time.
//!
//! SQLite counts changes in a file's header. A database with another header than the recorded one has been used by EdgeCore
//! since: its content is then newer than the store's.
//!
//! Source: SQLite, "Database File Format", 1.3.

use std::{fmt::Write, path::Path, sync::Arc};

use objectstore::{Key, Resource, Store, StoreError};
use serde_json::{Value, json};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
};

use crate::metamanager::{desired::Desired, record::GROUP};

/// The offset of the file change counter in the header, bytes.
const CHANGE_COUNTER_OFFSET: u64 = 24;
/// The end of the header, bytes.
const HEADER_END: u64 = 100;

/// Returns the key of the mark.
pub(super) fn key() -> Key {
    Key::new(Resource::new(GROUP, "stores"), "", "takeover")
}

/// Returns the mark.
pub(super) fn object(state: &str, database: Option<&str>) -> Value {
    json!({"metadata": {}, "state": state, "database": database})
}

/// Returns the header of the database at `path`, from the change counter on; `None` if there is no file.
pub(super) async fn state_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).await.ok()?;
    file.seek(std::io::SeekFrom::Start(CHANGE_COUNTER_OFFSET))
        .await
        .ok()?;
    let mut header = Vec::new();
    file.take(HEADER_END - CHANGE_COUNTER_OFFSET)
        .read_to_end(&mut header)
        .await
        .ok()?;
    Some(header.iter().fold(String::new(), |mut text, byte| {
        // formatting into a string cannot fail
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Completes the mark of an older agent that did not record the header.
pub(super) async fn complete(
    desired: &Desired,
    known: Option<Value>,
    path: &Path,
) -> Result<(), StoreError> {
    match known.filter(|mark| mark["state"] == "done" && mark["database"].is_null()) {
        Some(_) => note(desired, path).await,
        None => Ok(()),
    }
}

async fn note(desired: &Desired, path: &Path) -> Result<(), StoreError> {
    match state_of(path).await {
        Some(state) => {
            desired
                .set(&key(), Some(object("done", Some(&state))))
                .await
        }
        None => Ok(()),
    }
}

/// Records in the store that EdgeCore's database at `path` was written from it.
///
/// # Errors
/// The store fails.
pub(crate) async fn note_exported(store: &Arc<dyn Store>, path: &Path) -> Result<(), StoreError> {
    note(&Desired::new(store.clone(), String::new()), path).await
}

/// Reports whether EdgeCore has changed its database at `path` since it was taken over into the store at `store`, or exported
/// from it. False if the store cannot be read, or has no mark.
pub(crate) async fn has_edgecore_run_since(path: &Path, store: &Path) -> bool {
    let Some(state) = state_of(path).await else {
        return false;
    };
    if !clock::fs::try_exists(store).await.unwrap_or(false) {
        return false;
    }
    let Ok(mut inspection) = objectstore::Inspection::open(store, None).await else {
        return false;
    };
    let noted = inspection.get(&key()).await;
    inspection.close().await;
    let Some(noted) = noted.ok().flatten().and_then(|object| object.value().ok()) else {
        return false;
    };
    noted["state"] == "done"
        && noted["database"]
            .as_str()
            .is_some_and(|noted| noted != state)
}
