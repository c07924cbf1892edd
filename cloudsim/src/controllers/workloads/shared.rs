//! What the controllers share besides the objects: a client, and common writes.

use std::{fmt::Debug, sync::Arc};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{Selector, SelectorExt},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    backoff::FailureBackoff,
    pods::{controller_of, controller_reference},
};
use crate::controllers::{
    events::Recorder,
    informers::{Failure, Informer, WorkQueues},
};

/// How many pods one reconciliation creates or deletes at the same time.
pub(super) const CONCURRENT_WRITES: usize = 16;

/// What every controller has: a client, and the common writes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) events: Recorder,
    /// The metrics of the controllers' queues.
    pub(crate) queues: WorkQueues,
    /// The back-off of failing pods.
    pub(crate) failures: Arc<FailureBackoff>,
    /// When the controllers were started, before they listed anything.
    pub(crate) start: Timestamp,
}

/// A namespaced object.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

impl Shared {
    /// Creates it with metrics of its own.
    pub(crate) fn new(client: Client, events: Recorder) -> Self {
        Self {
            client,
            events,
            queues: WorkQueues::default(),
            failures: Arc::default(),
            start: clock::now(),
        }
    }

    /// Sets the metrics of queues.
    pub(crate) fn counted_in(self, queues: WorkQueues) -> Self {
        Self { queues, ..self }
    }

    /// Returns the API of objects in the namespace of `object`.
    pub(crate) fn beside<K: Namespaced>(&self, object: &impl ResourceExt) -> Api<K> {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }

    /// Returns the objects that `owner` controls, after it has adopted matching orphans and released objects that no longer match.
    pub(crate) async fn claim_objects<K, O>(
        &self,
        informer: &Informer<K>,
        owner: &O,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<K>>, Failure>
    where
        K: Namespaced,
        O: Namespaced,
    {
        let selector = Selector::try_from(selector.clone())
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        let uid = owner.meta().uid.as_deref().unwrap_or_default();
        let namespace = owner.namespace().unwrap_or_default();
        let mut changed = false;
        if owner.meta().deletion_timestamp.is_none() && !selector.selects_all() {
            for orphan in informer.orphans(&namespace) {
                if orphan.meta().deletion_timestamp.is_none() && selector.matches(orphan.labels()) {
                    self.adopt(informer, owner, &*orphan).await?;
                    changed = true;
                }
            }
        }
        let owned = informer.controlled_by(uid);
        for object in owned
            .iter()
            .filter(|object| !selector.matches(object.labels()))
        {
            self.release(informer, uid, &**object).await?;
            changed = true;
        }
        Ok(if changed {
            informer.controlled_by(uid)
        } else {
            owned
        })
    }

    async fn adopt<K: Namespaced, O: Namespaced>(
        &self,
        informer: &Informer<K>,
        owner: &O,
        orphan: &K,
    ) -> Result<(), Failure> {
        // checks the live owner: one that was deleted and created again must not adopt the pods of the old one
        let live = self.beside::<O>(owner).get_opt(&owner.name_any()).await?;
        let is_same = live.is_some_and(|live| {
            live.uid() == owner.uid() && live.meta().deletion_timestamp.is_none()
        });
        if !is_same || controller_of(orphan).is_some() {
            return Ok(());
        }
        let mut owners = orphan.owner_references().to_vec();
        owners.push(controller_reference(owner));
        let patch = json!({"metadata": {"uid": orphan.uid(), "resourceVersion": orphan.resource_version(), "ownerReferences": owners}});
        self.patch(informer, orphan, &patch).await
    }

    async fn release<K: Namespaced>(
        &self,
        informer: &Informer<K>,
        uid: &str,
        object: &K,
    ) -> Result<(), Failure> {
        let mut owners = object.owner_references().to_vec();
        owners.retain(|owner| owner.uid != uid);
        let patch = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), "ownerReferences": or_null(&owners)}});
        self.patch(informer, object, &patch).await
    }

    /// Patches an object by a merge patch. A deleted one is removed from the informer.
    pub(crate) async fn patch<K: Namespaced>(
        &self,
        informer: &Informer<K>,
        object: &K,
        patch: &Value,
    ) -> Result<(), Failure> {
        let api = self.beside::<K>(object);
        match api
            .patch(
                &object.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
        {
            Ok(written) => informer.wrote(written),
            Err(kube::Error::Api(status)) if status.code == 404 => informer.apply_removal(object),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Creates an object.
    pub(crate) async fn create<K: Namespaced>(
        &self,
        informer: &Informer<K>,
        object: &K,
    ) -> Result<K, kube::Error> {
        let written = self
            .beside::<K>(object)
            .create(&PostParams::default(), object)
            .await?;
        informer.wrote(written.clone());
        Ok(written)
    }

    /// Deletes an object, with its dependents in the background.
    pub(crate) async fn delete<K: Namespaced>(
        &self,
        informer: &Informer<K>,
        object: &K,
    ) -> Result<(), Failure> {
        let preconditions = kube::api::Preconditions {
            uid: object.uid(),
            resource_version: None,
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        match self
            .beside::<K>(object)
            .delete(&object.name_any(), &params)
            .await
        {
            Ok(answer) => match answer.left() {
                Some(left) if left.meta().deletion_timestamp.is_some() => informer.wrote(left),
                _ => informer.apply_removal(object),
            },
            // deleted, or replaced by another one of this name
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                informer.apply_removal(object)
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Deletes objects, several at the same time.
    pub(crate) async fn delete_all<K: Namespaced>(
        &self,
        informer: &Informer<K>,
        objects: Vec<Arc<K>>,
    ) -> Result<(), Failure> {
        let deleted = stream::iter(objects)
            .map(|object| async move { self.delete(informer, &*object).await });
        let results: Vec<_> = deleted.buffer_unordered(CONCURRENT_WRITES).collect().await;
        results.into_iter().collect()
    }

    /// Writes a status if it differs from the known one.
    pub(crate) async fn write_status<K: Namespaced, S: Serialize>(
        &self,
        informer: &Informer<K>,
        object: &K,
        old: &Option<S>,
        new: &S,
    ) -> Result<(), Failure> {
        let written = patch_status(&self.beside::<K>(object), object, old.as_ref(), new).await?;
        if let Some(written) = written {
            informer.wrote(written);
        }
        Ok(())
    }
}

/// Writes a status that was computed from `object` if it differs from the known one; returns the written object. `None` if nothing was
/// written, as the status is the same or the object is gone.
///
/// # Errors
/// The call failed, or the object has changed meanwhile (409).
pub(crate) async fn patch_status<K, S>(
    api: &Api<K>,
    object: &K,
    old: Option<&S>,
    new: &S,
) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let value = |status: &S| serde_json::to_value(status).unwrap_or_default();
    let (old, new) = (old.map(value).unwrap_or_default(), value(new));
    if old == new {
        return Ok(None);
    }
    // with the resource version: a status computed from an older one could count twice
    let patch = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version()},
        "status": with_removed_fields(&old, new)});
    let (name, parameters) = (object.name_any(), PatchParams::default());
    match api
        .patch_status(&name, &parameters, &Patch::Merge(patch))
        .await
    {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a list for a merge patch: null if it is empty, as the API omits it.
pub(crate) fn or_null<T: Serialize>(list: &[T]) -> Value {
    if list.is_empty() {
        Value::Null
    } else {
        json!(list)
    }
}

/// Makes `new` a merge patch of `old`: fields that are missing at any depth become null. Lists are replaced as a whole.
pub(crate) fn with_removed_fields(old: &Value, mut new: Value) -> Value {
    if let (Value::Object(old), Value::Object(new)) = (old, &mut new) {
        for (key, old) in old {
            let cleared = new
                .remove(key)
                .map_or(Value::Null, |new| with_removed_fields(old, new));
            new.insert(key.clone(), cleared);
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_at_any_depth_is_said_to_be_null() {
        for (old, new, patch) in [
            (json!({"a": 1}), json!({}), json!({"a": null})),
            (
                json!({"a": {"b": ["x"]}}),
                json!({"a": {}}),
                json!({"a": {"b": null}}),
            ),
            (
                json!({"a": {"b": {"c": 1, "d": 2}}}),
                json!({"a": {"b": {"d": 2}}}),
                json!({"a": {"b": {"c": null, "d": 2}}}),
            ),
            (
                json!({"a": [1, 2]}),
                json!({"a": [2], "b": 3}),
                json!({"a": [2], "b": 3}),
            ),
            (Value::Null, json!({"a": 1}), json!({"a": 1})),
        ] {
            assert_eq!(with_removed_fields(&old, new), patch, "{old}");
        }
    }
}
