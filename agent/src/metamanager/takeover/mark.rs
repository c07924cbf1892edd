//! What is noted of a takeover: how far it has come, and which state of EdgeCore's database it took.
//!
//! SQLite counts in a file's header whoever has changed it. A database with another header than the noted one is one on which
//! EdgeCore has run since: then EdgeCore knows the node best.
//!
//! Source: SQLite, "Database File Format", 1.3.

use std::{fmt::Write, path::Path, sync::Arc};

use kubeapi::store::{Key, Resource, Store, StoreError};
use serde_json::{Value, json};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
};

use crate::metamanager::{desired::Desired, record::GROUP};

/// The header from the file change counter on.
const COUNTER: u64 = 24;
/// … to its end.
const END: u64 = 100;

/// Where the note stands.
pub(super) fn key() -> Key {
    Key::new(Resource::new(GROUP, "stores"), "", "takeover")
}

/// The note.
pub(super) fn object(state: &str, database: Option<&str>) -> Value {
    json!({"metadata": {}, "state": state, "database": database})
}

/// The state of the database at `path`; `None` where there is none.
pub(super) async fn state_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).await.ok()?;
    file.seek(std::io::SeekFrom::Start(COUNTER)).await.ok()?;
    let mut header = Vec::new();
    file.take(END - COUNTER).read_to_end(&mut header).await.ok()?;
    Some(header.iter().fold(String::new(), |mut text, byte| {
        // a string takes whatever is written to it
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Notes the state of the database where an agent that did not note it has taken it over.
pub(super) async fn complete(desired: &Desired, known: Option<Value>, path: &Path) -> Result<(), StoreError> {
    match known.filter(|mark| mark["state"] == "done" && mark["database"].is_null()) {
        Some(_) => note(desired, path).await,
        None => Ok(()),
    }
}

async fn note(desired: &Desired, path: &Path) -> Result<(), StoreError> {
    match state_of(path).await {
        Some(state) => desired.set(&key(), Some(object("done", Some(&state)))).await,
        None => Ok(()),
    }
}

/// Notes in the store that EdgeCore's database at `path` was written from it.
///
/// # Errors
/// The store fails.
pub(crate) async fn note_exported(store: &Arc<dyn Store>, path: &Path) -> Result<(), StoreError> {
    note(&Desired::new(store.clone(), String::new()), path).await
}

/// Whether EdgeCore has worked on its database at `path` since it was taken over into the store at `store`, or written from it.
/// Not known of a store that cannot be read, or in which nothing is noted: then it has not.
pub(crate) async fn has_edgecore_run_since(path: &Path, store: &Path) -> bool {
    let Some(state) = state_of(path).await else { return false };
    if !tokio::fs::try_exists(store).await.unwrap_or(false) {
        return false;
    }
    let Ok(mut inspection) = kubeapi::store::Inspection::open(store, None).await else { return false };
    let noted = inspection.get(&key()).await;
    inspection.close().await;
    let Some(noted) = noted.ok().flatten().and_then(|object| object.value().ok()) else { return false };
    noted["state"] == "done" && noted["database"].as_str().is_some_and(|noted| noted != state)
}
