//! Writes definitions to the store.

use serde_json::Value;

use crate::Server;
use kubeapi::{object::text_or_empty, registry::Kind, status::StatusError};
use objectstore::{Expect, Key, StoreError, Write};

/// Writes a definition at the revision that it names. A conflict is not an error: another round follows.
pub(super) async fn write(api: &Server, kind: &Kind, definition: Value) -> Result<(), StatusError> {
    let revision = text_or_empty(&definition, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default();
    let key = Key::new(
        kind.resource().clone(),
        "",
        text_or_empty(&definition, "/metadata/name"),
    );
    commit(
        api,
        Write {
            key,
            expect: Expect::Revision(revision),
            value: Some(definition),
        },
    )
    .await
}

/// Treats a conflict as success, since the other write is followed by a round of its own.
pub(super) async fn commit(api: &Server, write: Write) -> Result<(), StatusError> {
    match api.store().commit(vec![write]).await {
        Ok(_)
        | Err(StoreError::Conflict { .. } | StoreError::Missing(_) | StoreError::Exists(_)) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
