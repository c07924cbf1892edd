//! Takeover: the first start of this agent where EdgeCore has run. The content of EdgeCore's database is imported into the
//! store, so that the node's pods start from there with the cloud or without. The database itself is not changed.
//!
//! Imported are pods of this node with their last status, the node, ConfigMaps, Secrets, persistent volumes and claims, tokens
//! of service accounts, devices and whatever else the cloud sent, and the rows of `device`, `device_attr`, `device_twin`,
//! `sub_topics` and `target_urls` unchanged. It happens once, into a new store, and is repeated only if it was interrupted,
//! which changes nothing that was imported already. If EdgeCore has run again since, the store is older than EdgeCore's
//! database ([`has_edgecore_run_since`]): whoever opens the store then starts with a new one.
//!
//! Source: KubeEdge 1.23, `edge/pkg/metamanager/dao`.

mod database;
mod mark;
mod rows;
mod token;

use std::{path::Path, sync::Arc};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use objectstore::{Key, Store, StoreError};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

pub(crate) use self::mark::{has_edgecore_run_since, note_exported};
pub(super) use self::token::TokenRequest;
use self::{
    database::{Database, META, META_V2, OTHER_TABLES},
    rows::Row,
};
use super::desired::{ApplyError, Desired, resource};

/// The revision of a store to which nothing was ever written.
const NEW_STORE_REVISION: u64 = 1;

/// Imports EdgeCore's database at `database` if it exists and `store` is new. Returns the number of imported rows.
///
/// A damaged database is read as far as possible: the cloud sends what is missing.
///
/// # Errors
/// The store fails.
pub async fn take_over(
    database: &Path,
    store: &Arc<dyn Store>,
    node_name: &str,
) -> Result<usize, StoreError> {
    let desired = Desired::new(store.clone(), node_name.to_owned());
    let mark = mark::key();
    let known = desired.get(&mark).await?;
    let begun = known.as_ref().is_some_and(|mark| mark["state"] == "begun");
    if !begun && store.revision() > NEW_STORE_REVISION
        || !clock::fs::try_exists(database).await.unwrap_or(false)
    {
        mark::complete(&desired, known, database).await?;
        return Ok(0);
    }
    let seen = mark::state_of(database).await;
    desired
        .set(&mark, Some(mark::object("begun", seen.as_deref())))
        .await?;
    let client = kubeapi::Api::builder(store.clone())
        .build()
        .client("default");
    let mut takeover = Takeover {
        node_name,
        desired,
        client,
        taken: 0,
        left: 0,
    };
    let scratch = database.parent().unwrap_or(Path::new("/"));
    match Database::open(database, scratch).await {
        Ok(mut opened) => {
            let outcome = takeover.run(&mut opened).await;
            opened.close().await;
            outcome?;
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            warn!(
                error,
                "failed to read EdgeCore's database; the cloud resends its contents"
            );
        }
    }
    takeover
        .desired
        .set(&mark, Some(mark::object("done", seen.as_deref())))
        .await?;
    let (taken, left) = (takeover.taken, takeover.left);
    info!(imported = taken, skipped = left, database = %database.display(), "EdgeCore's data imported");
    Ok(taken)
}

struct Takeover<'a> {
    node_name: &'a str,
    desired: Desired,
    client: Client,
    taken: usize,
    left: usize,
}

impl Takeover<'_> {
    async fn run(&mut self, database: &mut Database) -> Result<(), StoreError> {
        for table in [META, META_V2].into_iter().chain(OTHER_TABLES) {
            let outcome = match database.has(table).await {
                Ok(true) => self.table(database, table).await?,
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    table,
                    "failed to read a table of EdgeCore's database; using the rows read so far"
                );
            }
        }
        Ok(())
    }

    /// Imports a table. The inner error is the database's, the outer one the store's.
    async fn table(
        &mut self,
        database: &mut Database,
        table: &str,
    ) -> Result<Result<(), sqlx::Error>, StoreError> {
        let mut rows = std::pin::pin!(database.rows(table));
        loop {
            let (key, kind, value) = match rows.try_next().await {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let row = match table {
                META => rows::of_meta(self.node_name, &key, &kind, &value),
                META_V2 => rows::of_meta_v2(self.node_name, &key, &value),
                other => rows::of_table(other, &key, &value),
            };
            match self.import(row).await? {
                Ok(()) => self.taken += 1,
                Err(why) => {
                    self.left += 1;
                    debug!(
                        table,
                        key,
                        reason = why,
                        "row of EdgeCore's database skipped"
                    );
                }
            }
        }
    }

    /// Imports a row. The inner error says why the row is left out.
    async fn import(&self, row: Row) -> Result<Result<(), String>, StoreError> {
        match row {
            Row::Object(put) => match self.desired.apply(put).await {
                Ok(()) => Ok(Ok(())),
                Err(ApplyError::Malformed(why)) => Ok(Err(why)),
                Err(ApplyError::Store(error)) => Err(error),
            },
            Row::V2Object(put) => {
                if self
                    .desired
                    .entry(put.key())
                    .await?
                    .record
                    .is_none_or(|record| record.uid != put.uid())
                {
                    return Ok(Err("the cloud has deleted it".to_owned()));
                }
                Box::pin(self.import(Row::Object(put))).await
            }
            Row::Status(namespace, name, patch) => Ok(self.patch(&namespace, &name, patch).await?),
            Row::Raw(key, value) => Ok(Ok(self.desired.set(&key, Some(value)).await?)),
            Row::Skipped(why) => Ok(Err(why.to_owned())),
        }
    }

    /// Sets a pod's status to what EdgeCore saw last, whether or not the cloud has it.
    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Result<(), String>, StoreError> {
        let key = Key::new(resource(&wire::ResourceType::Pod), namespace, name);
        let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
        let is_of_pod = |pod: &Value| uid(pod).is_some() && uid(pod) == uid(&patch);
        if !self
            .desired
            .get(&key)
            .await?
            .as_ref()
            .is_some_and(is_of_pod)
        {
            return Ok(Err("its pod is not here".to_owned()));
        }
        let Some(status) = patch.get("status") else {
            return Ok(Err("it has no status".to_owned()));
        };
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let patch = Patch::Strategic(json!({"status": status}));
        let patched = pods
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        Ok(patched.map(drop).map_err(|error| error.to_string()))
    }
}

#[cfg(test)]
mod tests;
