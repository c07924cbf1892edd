//! Deletes a definition: first its objects, then itself.

use serde_json::Value;

use super::store::{commit, write};
use crate::Server;
use kubeapi::object::definition_status::{FINALIZER, conditions::set};
use kubeapi::{
    object::{
        deletion::{Deletion, Next, deletion_effect},
        items, metadata, text_or_empty, timestamp,
    },
    registry::Kind,
    status::StatusError,
};
use objectstore::{Expect, Key, Page, Resource, Scope, Write};

/// Deletes the objects of a definition under deletion, and the definition once there are none. Returns whether a definition changed;
/// objects with finalizers remain, and so does the definition.
pub(super) async fn clean(
    api: &Server,
    kind: &Kind,
    definition: &Value,
) -> Result<bool, StatusError> {
    if !items(definition, "/metadata/finalizers")
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
    {
        return Ok(false);
    }
    let (group, plural) = (
        text_or_empty(definition, "/spec/group"),
        text_or_empty(definition, "/spec/names/plural"),
    );
    let scope = Scope {
        resource: Resource::new(group, plural),
        namespace: None,
    };
    // one whose names were not accepted has no objects: those there are another's
    let is_own = text_or_empty(definition, "/status/acceptedNames/plural") == plural;
    if is_own {
        delete_all(api, &scope).await?;
        if !api
            .store()
            .list(
                &scope,
                &Page {
                    limit: Some(1),
                    after: None,
                },
            )
            .await?
            .items
            .is_empty()
        {
            return Ok(false);
        }
    }
    finish(api, kind, definition).await
}

async fn delete_all(api: &Server, scope: &Scope) -> Result<(), StatusError> {
    let registry = api.registry();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| *kind.resource() == scope.resource);
    for object in api.store().list(scope, &Page::default()).await?.items {
        // what is served in no version has nobody who could take its finalizers away
        let next = match kind {
            Some(kind) => {
                deletion_effect(kind, &Deletion::default(), &object.value()?, clock::now())
            }
            None => Next::Remove,
        };
        let value = match next {
            Next::Same => continue,
            Next::Replace(object) => Some(object),
            Next::Remove => None,
        };
        // whoever wrote meanwhile comes by here again
        commit(
            api,
            Write {
                key: object.key,
                expect: Expect::Revision(object.revision),
                value,
            },
        )
        .await?;
    }
    Ok(())
}

/// Removes the finalizer, and with the last one the definition.
async fn finish(api: &Server, kind: &Kind, definition: &Value) -> Result<bool, StatusError> {
    let mut done = definition.clone();
    let now = timestamp::now();
    let message = "removed all instances";
    set(
        &mut done,
        "Terminating",
        false,
        "InstanceDeletionCompleted",
        message,
        &now,
    );
    let finalizers = items(definition, "/metadata/finalizers")
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER);
    let finalizers: Vec<_> = finalizers.cloned().collect();
    if !finalizers.is_empty() {
        metadata(&mut done).insert("finalizers".into(), finalizers.into());
        write(api, kind, done).await?;
        return Ok(true);
    }
    let revision = text_or_empty(definition, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default();
    let key = Key::new(
        kind.resource().clone(),
        "",
        text_or_empty(definition, "/metadata/name"),
    );
    commit(
        api,
        Write {
            key,
            expect: Expect::Revision(revision),
            value: None,
        },
    )
    .await?;
    Ok(true)
}
