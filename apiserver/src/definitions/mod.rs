//! Serves the kinds of the stored CustomResourceDefinitions, from the moment of their write.
//!
//! [`refresh`] runs after each write of a definition: it accepts names, serves accepted kinds, and removes the definitions under
//! deletion whose objects are gone. It starts from the stored state, so it can be called at any time.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use kubeapi::{
    object::{
        as_map, assign, default_to, definition_status, is_deleting, metadata, text_or_empty,
        timestamp,
    },
    registry::Builtin,
    status::StatusError,
};
use objectstore::{Expect, Key, Object, Page, Scope, Store, StoreError, Write};

mod cleanup;
mod conversion_rules;
mod defaults;
mod expressions;
mod keywords;
mod list_types;
mod names;
mod ratchets;
pub(crate) mod readable;
pub(crate) mod rules;
mod schema_parts;
mod selectable_rules;
mod store;
mod structural_check;
mod version_rules;

use self::store::{commit, write};

/// How often a round is retried after a conflict with another write of a definition.
const ATTEMPTS: usize = 16;

/// Serves the stored definitions; the first call stores the API's initial definitions.
pub(crate) async fn ready(api: &Server) -> Result<(), StatusError> {
    if api.definitions_loaded().initialized() {
        return Ok(());
    }
    let load = || async {
        for definition in api.registry().initial_definitions() {
            seed(api, definition).await?;
        }
        refresh(api).await
    };
    api.definitions_loaded()
        .get_or_try_init(load)
        .await
        .map(drop)
}

/// Updates the status of all definitions, and serves the accepted ones.
pub(crate) async fn refresh(api: &Server) -> Result<(), StatusError> {
    let _turn = api.definitions_lock().lock().await;
    let mut attempts = ATTEMPTS;
    loop {
        let settled = round(api).await?;
        attempts -= 1;
        if settled || attempts == 0 {
            return Ok(());
        }
    }
}

/// Runs one round; returns whether nothing is left to do.
async fn round(api: &Server) -> Result<bool, StatusError> {
    let Some(kind) = api
        .registry()
        .of(Builtin::CustomResourceDefinition)
        .cloned()
    else {
        return Ok(true);
    };
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: None,
    };
    let stored = api.store().list(&scope, &Page::default()).await?.items;
    let mut standing = stored
        .iter()
        .map(Object::value)
        .collect::<Result<Vec<_>, _>>()?;
    // the older one has the name
    standing.sort_by_cached_key(|definition| {
        let text = |pointer| text_or_empty(definition, pointer).to_owned();
        (text("/metadata/creationTimestamp"), text("/metadata/name"))
    });
    let now = timestamp::now();
    let decided = names::decide_names(&api.registry(), &standing, &now);
    let changed: Vec<_> = decided.iter().map(|(index, _)| *index).collect();
    for (index, status) in decided {
        if let Some(definition) = standing.get_mut(index) {
            as_map(definition).insert("status".into(), status);
        }
    }
    // before anybody can read that they are established
    let established = standing
        .iter()
        .filter(|definition| definition_status::conditions::is_true(definition, "Established"));
    api.serve(&established.filter_map(decode).collect::<Vec<_>>());
    if !changed.is_empty() {
        for definition in changed.into_iter().filter_map(|index| standing.get(index)) {
            write(api, &kind, definition.clone()).await?;
        }
        return Ok(false);
    }
    let mut settled = true;
    for definition in standing.iter().filter(|definition| is_deleting(definition)) {
        settled &= !cleanup::clean(api, &kind, definition).await?;
    }
    Ok(settled)
}

/// Parses a stored definition; one that cannot be parsed is not served.
fn decode(definition: &Value) -> Option<CustomResourceDefinition> {
    let name = text_or_empty(definition, "/metadata/name");
    CustomResourceDefinition::deserialize(definition)
        .inspect_err(
            |error| tracing::error!(%error, name, "cannot read stored definition; apply it again"),
        )
        .ok()
}

/// Stores an initial definition, unless the stored one is the same.
async fn seed(api: &Server, definition: &CustomResourceDefinition) -> Result<(), StatusError> {
    let Some(kind) = api
        .registry()
        .of(Builtin::CustomResourceDefinition)
        .cloned()
    else {
        return Ok(());
    };
    let mut new = serde_json::to_value(definition)
        .map_err(|error| StatusError::internal(format!("cannot write a definition: {error}")))?;
    let map = as_map(&mut new);
    map.shift_insert(0, "kind".into(), kind.kind.as_str().into());
    map.shift_insert(1, "apiVersion".into(), kind.api_version().into());
    crate::defaults::fill(&kind, &mut new)?;
    let key = Key::new(
        kind.resource().clone(),
        "",
        text_or_empty(&new, "/metadata/name"),
    );
    let stored = match Store::get(&**api.store(), &key).await {
        // it is written anew as if there were none
        Err(StoreError::Damaged { .. }) => {
            assign(
                metadata(&mut new),
                "uid",
                api.store().damaged_uid(&key).await?.map(Value::String),
            );
            None
        }
        stored => stored?,
    };
    let Some(stored) = stored else {
        let metadata = metadata(&mut new);
        default_to(metadata, "uid", clock::uuid().to_string());
        default_to(metadata, "creationTimestamp", timestamp::now());
        default_to(metadata, "generation", 1);
        as_map(&mut new).shift_remove("status");
        definition_status::begin(&mut new);
        return commit(
            api,
            Write {
                key,
                expect: Expect::Absent,
                value: Some(new),
            },
        )
        .await;
    };
    let mut changed = stored.value()?;
    if changed.get("spec") != new.get("spec") {
        let spec = new.get("spec").cloned().unwrap_or_else(|| json!({}));
        as_map(&mut changed).insert("spec".into(), spec);
        let generation = changed
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        metadata(&mut changed).insert("generation".into(), (generation + 1).into());
        definition_status::follow(&mut changed);
        let expect = Expect::Revision(stored.revision);
        commit(
            api,
            Write {
                key,
                expect,
                value: Some(changed),
            },
        )
        .await?;
    }
    Ok(())
}
