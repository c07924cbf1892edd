//! Watches the four kinds, keeps the index, and tells the nodes concerned to look.

use std::{collections::BTreeSet, fmt::Debug, hash::Hash, pin::pin};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Edge;
use crate::mailbox::{ObjectKind, ObjectPath};

impl Edge {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let watches = async {
            tokio::join!(
                self.pods(),
                self.others::<Node>(ObjectKind::Node),
                self.others::<ConfigMap>(ObjectKind::ConfigMap),
                self.others::<Secret>(ObjectKind::Secret),
            )
        };
        tokio::select! {
            // cancel-safe: the index is rebuilt from a list at the next start
            () = shutdown.cancelled() => {}
            _ = watches => {}
        }
    }

    async fn pods(&self) {
        let mut listed = BTreeSet::new();
        let events = watcher::watcher(Api::<Pod>::all(self.client.clone()), watcher::Config::default());
        let mut events = pin!(events.default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => {
                    listed.insert((pod.namespace().unwrap_or_default(), pod.name_any()));
                    self.pod_applied(&pod);
                }
                Ok(Event::InitDone) => {
                    let gone = self.index.write().retain(&listed);
                    gone.into_iter().for_each(|(node, path)| self.mailboxes.poke(&node, path));
                }
                Ok(Event::Apply(pod)) => self.pod_applied(&pod),
                Ok(Event::Delete(pod)) => {
                    if let Some(node) = self.index.write().removed(&pod) {
                        self.mailboxes.poke(&node, path_of(ObjectKind::Pod, &pod));
                    }
                }
                Err(error) => warn!(error = &error as &dyn std::error::Error, "watching pods"),
            }
        }
    }

    fn pod_applied(&self, pod: &Pod) {
        let (nodes, paths) = {
            let mut index = self.index.write();
            let nodes = index.applied(pod);
            (nodes, index.around(&pod.namespace().unwrap_or_default(), &pod.name_any()))
        };
        for node in nodes {
            paths.iter().for_each(|path| self.mailboxes.poke(&node, path.clone()));
        }
    }

    async fn others<K>(&self, kind: ObjectKind)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Eq + Hash,
    {
        let events = watcher::watcher(Api::<K>::all(self.client.clone()), watcher::Config::default());
        let mut events = pin!(events.default_backoff().touched_objects());
        while let Some(event) = events.next().await {
            match event {
                Ok(object) => self.touched(&path_of(kind, &object)),
                Err(error) => warn!(error = &error as &dyn std::error::Error, kind = kind.kind(), "watching"),
            }
        }
    }

    fn touched(&self, path: &ObjectPath) {
        match path.kind {
            ObjectKind::Node => self.mailboxes.poke(&path.name, path.clone()),
            _ => {
                for node in self.index.read().nodes_referencing(path) {
                    self.mailboxes.poke(&node, path.clone());
                }
            }
        }
    }
}

fn path_of<K: Resource<DynamicType = ()>>(kind: ObjectKind, object: &K) -> ObjectPath {
    ObjectPath::new(kind, object.namespace().unwrap_or_default(), object.name_any())
}
