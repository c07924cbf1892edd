//! Carries out the decisions of the graph.

use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tracing::warn;

use super::{
    graph::{Decision, Node, ORPHAN, Owner, Propagation},
    kinds::{self, Kinds},
};
use crate::controllers::{
    requeue::{ERROR_RETRY_INTERVAL, due, is_conflict},
    workloads::or_null,
};

/// The result of handling an object.
pub(super) struct ActionResult {
    pub(super) uid: String,
    /// Owners that do not exist.
    pub(super) absent: Vec<String>,
    pub(super) again: bool,
}

impl ActionResult {
    /// An object that is handled again.
    pub(super) fn again(uid: String) -> Self {
        Self {
            uid,
            absent: Vec::new(),
            again: true,
        }
    }
}

/// Carries out decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) client: Client,
    pub(super) kinds: Kinds,
}

impl Actor {
    /// Carries out the decision about `node`.
    pub(super) async fn act(self, node: &Node, decision: Decision) -> ActionResult {
        let done = |absent, again| ActionResult {
            uid: node.uid.clone(),
            absent,
            again,
        };
        let result = match decision {
            Decision::Nothing => Ok(()),
            Decision::Verify(owners) => match self.verify(node, &owners).await {
                // the graph learns of the change from the watch
                Ok(absent) if absent.is_empty() => return done(absent, false),
                Ok(absent) => return done(absent, true),
                Err(error) => Err(error),
            },
            Decision::Delete(propagation) => self.delete(node, propagation).await,
            Decision::Disown(owners) => self.disown(node, &owners).await,
            Decision::Unblock => self.unblock(node).await,
            Decision::Release(finalizer) => self.release(node, finalizer).await,
            Decision::Orphan(dependents) => self.orphan(node, &dependents).await,
        };
        match result {
            Ok(()) => done(Vec::new(), false),
            Err(error) => {
                if !is_conflict(&error) {
                    log_failure(node, &error);
                    tokio::time::sleep(ERROR_RETRY_INTERVAL).await;
                }
                ActionResult::again(node.uid.clone())
            }
        }
    }

    /// Returns the uids of owners that do not exist, or were replaced.
    async fn verify(&self, node: &Node, owners: &[Owner]) -> Result<Vec<String>, kube::Error> {
        let mut absent = Vec::new();
        for owner in owners {
            // a kind that is not served now may be served later: dependents of its objects are kept
            let Some(kind) = self.kinds.find(&owner.api_version, &owner.kind) else {
                continue;
            };
            // a cluster-scoped object cannot be owned by a namespaced one
            let found = if kind.namespaced && node.namespace.is_empty() {
                None
            } else {
                kinds::api(&self.client, &kind, &node.namespace)
                    .get_metadata_opt(&owner.name)
                    .await?
            };
            if found.and_then(|found| found.uid()).as_deref() != Some(owner.uid.as_str()) {
                absent.push(owner.uid.clone());
            }
        }
        Ok(absent)
    }

    async fn delete(&self, node: &Node, propagation: Propagation) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else {
            return Ok(());
        };
        let params = match propagation {
            Propagation::Background => DeleteParams::background(),
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Orphan => DeleteParams::orphan(),
        };
        let preconditions = Some(Preconditions {
            uid: Some(node.uid.clone()),
            resource_version: None,
        });
        ignore_not_found(
            api.delete(
                &node.name,
                &DeleteParams {
                    preconditions,
                    ..params
                },
            )
            .await
            .map(drop),
        )
    }

    /// Removes the references to these owners from the object.
    async fn disown(&self, node: &Node, owners: &[String]) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else {
            return Ok(());
        };
        let Some(current) = api.get_metadata_opt(&node.name).await? else {
            return Ok(());
        };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut left = current.owner_references().to_vec();
        left.retain(|owner| !owners.contains(&owner.uid));
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "ownerReferences": or_null(&left)}});
        ignore_not_found(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop),
        )
    }

    /// Sets `blockOwnerDeletion` to false in the object's references.
    async fn unblock(&self, node: &Node) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else {
            return Ok(());
        };
        let Some(current) = api.get_metadata_opt(&node.name).await? else {
            return Ok(());
        };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut owners = current.owner_references().to_vec();
        owners
            .iter_mut()
            .for_each(|owner| owner.block_owner_deletion = Some(false));
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "ownerReferences": owners}});
        ignore_not_found(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop),
        )
    }

    async fn release(&self, node: &Node, finalizer: &str) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else {
            return Ok(());
        };
        let Some(current) = api.get_metadata_opt(&node.name).await? else {
            return Ok(());
        };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut left = current.finalizers().to_vec();
        left.retain(|own| own != finalizer);
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "finalizers": or_null(&left)}});
        ignore_not_found(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop),
        )
    }

    async fn orphan(&self, node: &Node, dependents: &[Node]) -> Result<(), kube::Error> {
        for dependent in dependents {
            self.disown(dependent, std::slice::from_ref(&node.uid))
                .await?;
        }
        self.release(node, ORPHAN).await
    }
}

/// Logs a failure at once, and then at growing intervals.
fn log_failure(node: &Node, error: &kube::Error) {
    let (namespace, name) = (&node.namespace, &node.name);
    if let Some(times) = due(&format!("garbage collector {namespace}/{name} {error}")) {
        let error = error as &dyn std::error::Error;
        warn!(
            namespace,
            name, times, error, "failed to garbage-collect object; retrying"
        );
    }
}

/// Ignores that the object is already gone.
fn ignore_not_found(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result,
    }
}
