//! The revisions of a daemon set or stateful set, stored as `ControllerRevision`s.

use std::{ops::Deref, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::ControllerRevision,
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, runtime::RawExtension},
};
use kube::{
    ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    hash,
    pods::{controller_of, controller_reference},
    shared::{Namespaced, Shared},
};
use crate::controllers::informers::{Failure, Informer};

/// The objects of the workload's controller that belong to a history.
pub(super) struct Caches<'a> {
    pub(super) shared: &'a Shared,
    pub(super) pods: &'a Informer<Pod>,
    pub(super) revisions: &'a Informer<ControllerRevision>,
}

impl Deref for Caches<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

/// The workload whose history it is.
pub(super) struct Owner<'a, O> {
    pub(super) object: &'a O,
    pub(super) selector: &'a LabelSelector,
    pub(super) template: &'a PodTemplateSpec,
    pub(super) collisions: Option<i32>,
}

/// The pods and revisions of a workload.
pub(super) struct Observed {
    pub(super) pods: Vec<Arc<Pod>>,
    /// The oldest first.
    pub(super) revisions: Vec<Arc<ControllerRevision>>,
    /// The revision of the present template.
    pub(super) present: Arc<ControllerRevision>,
}

/// Returns the pods and revisions of a workload, including newly adopted ones; `None` if it is being deleted.
pub(super) async fn observe<O: Namespaced>(
    owner: &Owner<'_, O>,
    cluster: &Caches<'_>,
) -> Result<Option<Observed>, Failure> {
    let pods = cluster
        .claim_objects(cluster.pods, owner.object, owner.selector)
        .await?;
    if owner.object.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    let (revisions, present) = revisions(owner, cluster).await?;
    Ok(Some(Observed {
        pods,
        revisions,
        present,
    }))
}

/// Returns all revisions, the oldest first, and the one of the present template, which is created or made the newest if necessary.
async fn revisions<O: Namespaced>(
    owner: &Owner<'_, O>,
    cluster: &Caches<'_>,
) -> Result<(Vec<Arc<ControllerRevision>>, Arc<ControllerRevision>), Failure> {
    let mut all = cluster
        .claim_objects(cluster.revisions, owner.object, owner.selector)
        .await?;
    all.sort_by_key(|revision| (revision.revision, revision.name_any()));
    let data = data(owner.template);
    let newest = all
        .last()
        .map(|revision| revision.revision)
        .unwrap_or_default();
    // the newest of several with this template
    let known = all
        .iter()
        .rfind(|revision| revision.data.as_ref().is_some_and(|own| own.0 == data))
        .cloned();
    let present = match known {
        Some(known) if known.revision == newest => known,
        Some(known) => {
            let patch = json!({"revision": newest + 1});
            cluster.patch(cluster.revisions, &*known, &patch).await?;
            let mut renewed = (*known).clone();
            renewed.revision = newest + 1;
            Arc::new(renewed)
        }
        None => create(owner, data, newest + 1, cluster).await?,
    };
    Ok((all, present))
}

/// Returns the value of the revision label of pods.
pub(super) fn label(revision: &ControllerRevision) -> String {
    revision
        .labels()
        .get(hash::REVISION)
        .cloned()
        .unwrap_or_default()
}

/// Builds the patch that restores the template, which `kubectl rollout undo` applies.
fn data(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    if let Value::Object(template) = &mut template {
        template.insert("$patch".into(), "replace".into());
    }
    sort_keys(json!({"spec": {"template": template}}))
}

/// Sorts the keys of all objects, since patches are compared as bytes.
fn sort_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map
                .into_iter()
                .map(|(key, value)| (key, sort_keys(value)))
                .collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(list) => list.into_iter().map(sort_keys).collect(),
        other => other,
    }
}

async fn create<O: Namespaced>(
    owner: &Owner<'_, O>,
    data: Value,
    revision: i64,
    cluster: &Caches<'_>,
) -> Result<Arc<ControllerRevision>, Failure> {
    let hash = hash::hash(&json!(owner.template), owner.collisions);
    let mut labels = owner.selector.match_labels.clone().unwrap_or_default();
    labels.insert(hash::REVISION.into(), hash.clone());
    let new = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.object.name_any())),
            namespace: owner.object.namespace(),
            labels: Some(labels),
            // `kubectl rollout history` shows the cause of the change
            annotations: owner.object.meta().annotations.clone(),
            owner_references: Some(vec![controller_reference(owner.object)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision,
    };
    match cluster.create(cluster.revisions, &new).await {
        Err(kube::Error::Api(status)) if status.code == 409 => existing(owner, &new, cluster).await,
        created => Ok(Arc::new(created?)),
    }
}

/// Returns the revision that has the name of `new`, if it is the owner's and has the same data. Another template with the same hash is
/// counted as a collision, which changes the next hash.
async fn existing<O: Namespaced>(
    owner: &Owner<'_, O>,
    new: &ControllerRevision,
    cluster: &Caches<'_>,
) -> Result<Arc<ControllerRevision>, Failure> {
    let (namespace, name) = (new.namespace().unwrap_or_default(), new.name_any());
    let existing = cluster
        .beside::<ControllerRevision>(owner.object)
        .get_opt(&name)
        .await?;
    let own_uid = owner.object.meta().uid.as_ref();
    let is_own =
        |revision: &ControllerRevision| controller_of(revision).map(|one| &one.uid) == own_uid;
    match existing {
        Some(existing) if is_own(&existing) && existing.data == new.data => {
            cluster.revisions.wrote(existing.clone());
            Ok(Arc::new(existing))
        }
        Some(existing) if is_own(&existing) => {
            let patch =
                json!({"status": {"collisionCount": owner.collisions.unwrap_or_default() + 1}});
            let api = cluster.beside::<O>(owner.object);
            let (name, patch) = (owner.object.name_any(), Patch::Merge(patch));
            api.patch_status(&name, &PatchParams::default(), &patch)
                .await?;
            let message = "the ControllerRevision has another template with the same hash; trying the next hash";
            Err(Failure::Invalid(format!(
                "{namespace}/{}: {message}",
                existing.name_any()
            )))
        }
        _ => Err(Failure::Invalid(format!(
            "ControllerRevision {namespace}/{name} belongs to another owner; retrying until it is deleted"
        ))),
    }
}

/// Deletes the oldest revisions beyond `limit` that no pod uses by label or name.
pub(super) async fn clean_up(
    all: &[Arc<ControllerRevision>],
    limit: Option<i32>,
    in_use: &[&str],
    cluster: &Caches<'_>,
) -> Result<(), Failure> {
    let is_used = |known: String| in_use.contains(&known.as_str());
    let idle = all
        .iter()
        .filter(|revision| !is_used(label(revision)) && !is_used(revision.name_any()));
    let mut idle: Vec<_> = idle.cloned().collect();
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or_default();
    idle.truncate(idle.len().saturating_sub(limit));
    cluster.delete_all(cluster.revisions, idle).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_its_keys_in_order() {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "spec": {"containers": [{"name": "c", "image": "i", "env": [{"value": "v", "name": "n"}]}]},
            "metadata": {"labels": {"b": "1", "a": "2"}},
        }))
        .unwrap();
        assert_eq!(
            data(&template).to_string(),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"2","b":"1"}},"spec":{"containers":[{"env":[{"name":"n","value":"v"}],"image":"i","name":"c"}]}}}}"#
        );
    }
}
