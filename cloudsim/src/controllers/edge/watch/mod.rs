//! Watches the kinds that nodes get, updates the index, and notifies nodes.

use std::{collections::BTreeSet, fmt::Debug, hash::Hash, pin::pin, sync::Arc};

use crds::policy::ServiceAccountAccess;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kube::{
    Api, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Edge;
use crate::mailbox::{ObjectKind, ObjectPath};

/// Namespaces and names of the objects of a list.
type Listed = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Adds an object of a list that cannot be decoded: the index keeps what it knows of the object.
fn unreadable<K>(listed: &Listed) -> impl FnMut(&str, &str) -> Option<K> + Send + use<K> {
    let listed = Arc::clone(listed);
    move |namespace, name| {
        listed
            .lock()
            .insert((namespace.to_owned(), name.to_owned()));
        None
    }
}

impl Edge {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let watches = async {
            tokio::join!(
                self.pods(),
                self.others::<Node>(ObjectKind::Node),
                self.others::<ConfigMap>(ObjectKind::ConfigMap),
                self.others::<Secret>(ObjectKind::Secret),
                self.accesses(),
                self.services(),
            )
        };
        clock::select! {
            // cancel-safe: the index is rebuilt from a list at the next start
            () = shutdown.cancelled() => {}
            _ = watches => {}
        }
    }

    async fn pods(&self) {
        let listed = Listed::default();
        let client = self.client.clone();
        let mut events =
            kubeapi::watch_objects_with_backoff::<Pod>(client, watcher::Config::default())
                .with_last_version(unreadable(&listed));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.lock().clear(),
                Ok(Event::InitApply(pod)) => {
                    listed
                        .lock()
                        .insert((pod.namespace().unwrap_or_default(), pod.name_any()));
                    self.pod_applied(&pod);
                }
                Ok(Event::InitDone) => {
                    let gone = self.index.write().retain(&listed.lock());
                    gone.into_iter()
                        .for_each(|(node, path)| self.mailboxes.notify(&node, path));
                }
                Ok(Event::Apply(pod)) => self.pod_applied(&pod),
                Ok(Event::Delete(pod)) => self.pod_removed(&pod),
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch pods; retrying"
                    )
                }
            }
        }
    }

    fn pod_applied(&self, pod: &Pod) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let (nodes, paths) = {
            let mut index = self.index.write();
            // an earlier pod of this name may have had another account
            let mut paths = index.related_paths(&namespace, &name);
            let nodes = index.apply(pod);
            paths.extend(index.related_paths(&namespace, &name));
            (nodes, paths)
        };
        for node in nodes {
            paths
                .iter()
                .for_each(|path| self.mailboxes.notify(&node, path.clone()));
        }
    }

    fn pod_removed(&self, pod: &Pod) {
        let (node, mut paths) = {
            let mut index = self.index.write();
            let paths = index.related_paths(&pod.namespace().unwrap_or_default(), &pod.name_any());
            (index.remove(pod), paths)
        };
        let Some(node) = node else { return };
        // what the pod mounted stays on the node until it changes
        paths.retain(|path| matches!(path.kind, ObjectKind::Pod | ObjectKind::Access));
        paths
            .into_iter()
            .for_each(|path| self.mailboxes.notify(&node, path));
    }

    async fn accesses(&self) {
        let listed = Listed::default();
        let client = self.client.clone();
        let mut events = kubeapi::watch_objects_with_backoff::<ServiceAccountAccess>(
            client,
            watcher::Config::default(),
        )
        .with_last_version(unreadable(&listed));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.lock().clear(),
                Ok(Event::InitApply(access)) => {
                    listed
                        .lock()
                        .insert((access.namespace().unwrap_or_default(), access.name_any()));
                    self.apply_access(access);
                }
                Ok(Event::InitDone) => {
                    let gone = self.index.write().retain_granted(&listed.lock());
                    for (namespace, name) in gone {
                        self.notify_touched(&ObjectPath::new(ObjectKind::Access, namespace, name));
                    }
                }
                Ok(Event::Apply(access)) => self.apply_access(access),
                Ok(Event::Delete(access)) => {
                    let path = path_of(ObjectKind::Access, &access);
                    self.index.write().withdrawn(&path.namespace, &path.name);
                    self.notify_touched(&path);
                }
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch ServiceAccountAccesses; retrying"
                    );
                }
            }
        }
    }

    fn apply_access(&self, access: ServiceAccountAccess) {
        let path = path_of(ObjectKind::Access, &access);
        let has_changed = self.index.write().set_access(&path, access);
        if has_changed {
            self.notify_touched(&path);
        }
    }

    async fn others<K>(&self, kind: ObjectKind)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Eq + Hash,
    {
        let mut listed = BTreeSet::new();
        // only the pods' nodes matter here
        let all = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let events = watcher::watcher(all, watcher::Config::default());
        let mut events = pin!(events.default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    self.apply_group(kind, &object);
                    let path = path_of(kind, &object);
                    self.notify_touched(&path);
                    listed.insert(path);
                }
                Ok(Event::InitDone) => {
                    self.notify_unlisted(kind, &std::mem::take(&mut listed));
                    if kind == ObjectKind::Node {
                        self.topology.mark_listed(0);
                    }
                }
                Ok(Event::Apply(object)) => {
                    self.apply_group(kind, &object);
                    self.notify_touched(&path_of(kind, &object));
                }
                Ok(Event::Delete(object)) => self.notify_touched(&path_of(kind, &object)),
                Err(error) => warn!(
                    error = &error as &dyn std::error::Error,
                    kind = kind.kind(),
                    "failed to watch objects; retrying"
                ),
            }
        }
    }

    /// Reads the group of a node.
    fn apply_group<K: Resource<DynamicType = ()>>(&self, kind: ObjectKind, object: &K) {
        if kind == ObjectKind::Node {
            let name = object.name_any();
            self.topology
                .apply_node(&name, object.labels(), revision(object));
        }
    }

    /// Reads which Services have a topology.
    async fn services(&self) {
        let all = Api::<PartialObjectMeta<Service>>::all(self.client.clone());
        let events = watcher::watcher(all, watcher::Config::default());
        let mut events = pin!(events.default_backoff());
        let name = |service: &PartialObjectMeta<Service>| {
            (service.namespace().unwrap_or_default(), service.name_any())
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {}
                Ok(Event::InitApply(service) | Event::Apply(service)) => {
                    let revision = revision(&service);
                    self.topology
                        .apply_service(name(&service), service.annotations(), revision);
                }
                Ok(Event::InitDone) => self.topology.mark_listed(1),
                Ok(Event::Delete(service)) => self.topology.remove_service(&name(&service)),
                Err(error) => warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to watch Services; retrying"
                ),
            }
        }
    }

    /// Notifies the nodes that may hold objects missing from a new list: those may have been deleted while nothing was watched.
    fn notify_unlisted(&self, kind: ObjectKind, listed: &BTreeSet<ObjectPath>) {
        let expected: BTreeSet<ObjectPath> = match kind {
            ObjectKind::Node => {
                let nodes = self.mailboxes.nodes().into_iter();
                nodes.map(|node| ObjectPath::new(kind, "", node)).collect()
            }
            _ => self.index.read().referenced_objects(kind),
        };
        expected
            .difference(listed)
            .for_each(|path| self.notify_touched(path));
    }

    fn notify_touched(&self, path: &ObjectPath) {
        match path.kind {
            ObjectKind::Node => self.mailboxes.notify(&path.name, path.clone()),
            _ => {
                for node in self.index.read().nodes_referencing(path) {
                    self.mailboxes.notify(&node, path.clone());
                }
            }
        }
    }
}

fn revision<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    let revision = object.resource_version();
    revision
        .and_then(|revision| revision.parse().ok())
        .unwrap_or_default()
}

fn path_of<K: Resource<DynamicType = ()>>(kind: ObjectKind, object: &K) -> ObjectPath {
    ObjectPath::new(
        kind,
        object.namespace().unwrap_or_default(),
        object.name_any(),
    )
}

#[cfg(test)]
mod tests;
