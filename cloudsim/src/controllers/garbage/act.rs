//! Doing what the graph decided.

use std::time::Duration;

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
use crate::controllers::workloads::or_null;

/// After a failed call.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// What came of dealing with an object.
pub(super) struct Done {
    pub(super) uid: String,
    /// Owners that are no more.
    pub(super) absent: Vec<String>,
    pub(super) again: bool,
}

/// Who does it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) client: Client,
    pub(super) kinds: Kinds,
}

impl Actor {
    /// Does what was decided about `node`.
    pub(super) async fn act(self, node: &Node, decision: Decision) -> Done {
        let done = |absent, again| Done { uid: node.uid.clone(), absent, again };
        let result = match decision {
            Decision::Nothing => Ok(()),
            Decision::Verify(owners) => match self.verify(node, &owners).await {
                // the rest is unknown to the graph and yet there: its news is on the way
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
                let is_race = matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
                if !is_race {
                    warn!(name = %node.name, error = &error as &dyn std::error::Error, "an object could not be collected");
                    tokio::time::sleep(AFTER_ERROR).await;
                }
                done(Vec::new(), true)
            }
        }
    }

    /// The uids of the owners that are no more, or are others by now.
    async fn verify(&self, node: &Node, owners: &[Owner]) -> Result<Vec<String>, kube::Error> {
        let mut absent = Vec::new();
        for owner in owners {
            // a kind that nobody serves may be served later: its objects' dependents stay
            let Some(kind) = self.kinds.find(&owner.api_version, &owner.kind) else { continue };
            // what has no namespace cannot be owned by what has one
            let found = if kind.namespaced && node.namespace.is_empty() {
                None
            } else {
                kinds::api(&self.client, &kind, &node.namespace).get_metadata_opt(&owner.name).await?
            };
            if found.and_then(|found| found.uid()).as_deref() != Some(owner.uid.as_str()) {
                absent.push(owner.uid.clone());
            }
        }
        Ok(absent)
    }

    async fn delete(&self, node: &Node, propagation: Propagation) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else { return Ok(()) };
        let params = match propagation {
            Propagation::Background => DeleteParams::background(),
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Orphan => DeleteParams::orphan(),
        };
        let preconditions = Some(Preconditions { uid: Some(node.uid.clone()), resource_version: None });
        gone_is_fine(api.delete(&node.name, &DeleteParams { preconditions, ..params }).await.map(drop))
    }

    /// Takes the references to these owners from the object.
    async fn disown(&self, node: &Node, owners: &[String]) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut left = current.owner_references().to_vec();
        left.retain(|owner| !owners.contains(&owner.uid));
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "ownerReferences": or_null(&left)}});
        gone_is_fine(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop),
        )
    }

    /// Lets no owner of the object wait for it.
    async fn unblock(&self, node: &Node) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut owners = current.owner_references().to_vec();
        owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "ownerReferences": owners}});
        gone_is_fine(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop),
        )
    }

    async fn release(&self, node: &Node, finalizer: &str) -> Result<(), kube::Error> {
        let Some(api) = self.kinds.api(&self.client, node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        if current.uid().as_deref() != Some(node.uid.as_str()) {
            return Ok(());
        }
        let mut left = current.finalizers().to_vec();
        left.retain(|own| own != finalizer);
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(), "finalizers": or_null(&left)}});
        gone_is_fine(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop),
        )
    }

    async fn orphan(&self, node: &Node, dependents: &[Node]) -> Result<(), kube::Error> {
        for dependent in dependents {
            self.disown(dependent, std::slice::from_ref(&node.uid)).await?;
        }
        self.release(node, ORPHAN).await
    }
}

/// Who comes too late finds the work done.
fn gone_is_fine(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result,
    }
}
