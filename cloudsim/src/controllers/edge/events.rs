//! Events of nodes. Nobody waits for an answer, so refused events are only logged.

use clock::Instant;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::Value;
use tracing::{debug, warn};

use super::{Edge, authorize::is_reported_by, event_limits, outcome::Outcome, requests::parse};

/// The fields of an event that say what it is about and who reports it.
const IDENTITY_FIELDS: [&str; 5] = [
    "metadata",
    "involvedObject",
    "source",
    "reportingComponent",
    "reportingInstance",
];

impl Edge {
    /// Creates an event.
    pub(super) async fn event(
        &self,
        node: &str,
        namespace: &str,
        event: &Value,
    ) -> Result<Outcome, kube::Error> {
        let Some(event) = self.within_limits(node, event, event) else {
            return Ok(Outcome::Nothing);
        };
        let created = self
            .of::<Event>(namespace)
            .create(&PostParams::default(), &parse(&event)?)
            .await;
        note(created.map(drop));
        Ok(Outcome::Nothing)
    }

    /// Patches an event that `node` has sent before. Its identity is checked in the stored event, and does not change.
    pub(super) async fn event_again(
        &self,
        node: &str,
        namespace: &str,
        name: &str,
        told: &Value,
    ) -> Result<Outcome, kube::Error> {
        let patch = serde_json::from_str(told["patchData"].as_str().unwrap_or_default());
        let patch: Value = patch.map_err(kube::Error::SerdeError)?;
        let Some(patch) = self.within_limits(node, &told["event"], &patch) else {
            return Ok(Outcome::Nothing);
        };
        note(self.count(node, namespace, name, patch).await);
        Ok(Outcome::Nothing)
    }

    /// Returns what is written of an event, if it is within the limits.
    fn within_limits(&self, node: &str, event: &Value, written: &Value) -> Option<Value> {
        let may = self.event_limits.lock().admit(node, event, Instant::now());
        let cut = event_limits::truncate(written.clone()).filter(|_| may);
        if cut.is_none() {
            debug!(
                node,
                "event of a node dropped: it is too large, or the rate limit is exceeded"
            );
        }
        cut
    }

    async fn count(
        &self,
        node: &str,
        namespace: &str,
        name: &str,
        mut patch: Value,
    ) -> Result<(), kube::Error> {
        let api = self.of::<Event>(namespace);
        let stored = serde_json::to_value(api.get(name).await?).map_err(kube::Error::SerdeError)?;
        let is_own = is_reported_by(node, &stored, &self.index.read());
        if !is_own {
            warn!(
                node,
                namespace, name, "event patch rejected: the event is not the node's own"
            );
            return Ok(());
        }
        if let Some(fields) = patch.as_object_mut() {
            IDENTITY_FIELDS
                .iter()
                .for_each(|field| drop(fields.remove(*field)));
        }
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
    }
}

fn note(taken: Result<(), kube::Error>) {
    if let Err(error) = taken {
        debug!(
            error = &error as &dyn std::error::Error,
            "failed to store an event of a node"
        );
    }
}

#[cfg(test)]
mod tests {
    use kube::Api;
    use objectstore::MemoryStore;
    use serde_json::json;
    use wire::{Header, ResourcePath, ResourceType};

    use super::{super::request::Verb, *};
    use crate::mailbox::Mailboxes;

    #[tokio::test]
    async fn a_node_counts_on_its_own_events_and_no_others() {
        let client = kubeapi::Api::builder(MemoryStore::new())
            .build()
            .client("test");
        let edge = Edge::new(client.clone(), Mailboxes::default(), "");
        let event = |node: &str, count: u32| {
            json!({"metadata": {"name": format!("{node}.1"), "namespace": "default"}, "reason": "Rebooted", "count": count,
                "involvedObject": {"kind": "Node", "name": node}, "source": {"host": node}})
        };
        for node in ["edge-1", "edge-2"] {
            let path = ResourcePath::object("default", &ResourceType::Event, &format!("{node}.1"));
            let told = (path, &event(node, 1));
            assert!(
                edge.request(node, &Header::default(), Verb::Insert, told)
                    .await
                    .is_none()
            );
        }
        let again = async |node: &str, about: &str, patch: Value| {
            let path = ResourcePath::object("default", &ResourceType::Event, &format!("{about}.1"));
            let mut told = event(node, 2);
            told["metadata"]["name"] = format!("{about}.1").into();
            let patch = json!({"event": told, "patchData": patch.to_string()});
            assert!(
                edge.request(node, &Header::default(), Verb::Patch, (path, &patch))
                    .await
                    .is_none()
            );
        };
        again("edge-1", "edge-1", event("edge-1", 2)).await;
        // what it says of the event is its own; what is stored under this name is another's
        again("edge-1", "edge-2", json!({"count": 9})).await;
        // its own, which is to become another's
        again(
            "edge-2",
            "edge-2",
            json!({"count": 3, "involvedObject": {"name": "edge-1"}}),
        )
        .await;
        for (node, count) in [("edge-1", 2), ("edge-2", 3)] {
            let stored = Api::<Event>::namespaced(client.clone(), "default")
                .get(&format!("{node}.1"))
                .await
                .unwrap();
            assert_eq!(
                (stored.count, stored.involved_object.name.as_deref()),
                (Some(count), Some(node))
            );
        }
    }
}
