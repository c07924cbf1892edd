//! Nodes' requests about persistent volumes: claims of their pods, the bound volumes, and attachments. None of these are sent without a
//! request, as in CloudCore.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};
use serde_json::Value;
use wire::{Answer, ResourceType};

use super::{
    Edge,
    authorize::{Denied, denial},
    outcome::Outcome,
    request::Request,
};
use crate::controllers::{api_status, refusal_log::log_refused};

impl Edge {
    /// Returns the object, if it is the node's.
    pub(super) async fn storage(
        &self,
        node: &str,
        request: &Request<'_>,
    ) -> Result<Outcome, kube::Error> {
        let failed = |status: Value| Ok(Outcome::Answer(Answer::Failed(status), None));
        let refused = |Denied(reason): Denied| {
            log_refused(node, &reason);
            failed(api_status::failure(403, "Forbidden", &reason))
        };
        let claim = request.kind == ResourceType::PersistentVolumeClaim;
        if claim
            && !self
                .index
                .read()
                .claim_on(node, request.namespace, request.name)
        {
            return refused(denial(node, request));
        }
        let Some(object) = self.stored_api(request).get_opt(request.name).await? else {
            let message = format!("{}s \"{}\" not found", request.kind, request.name);
            return failed(api_status::failure(404, "NotFound", &message));
        };
        if !claim && !self.is_of(node, &object) {
            return refused(denial(node, request));
        }
        let revision = object.metadata.resource_version.clone();
        let object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        Ok(Outcome::Answer(Answer::Found(object), revision))
    }

    fn stored_api(&self, request: &Request<'_>) -> Api<DynamicObject> {
        let resource = match request.kind {
            ResourceType::PersistentVolumeClaim => {
                let resource = ApiResource::erase::<PersistentVolumeClaim>(&());
                return Api::namespaced_with(self.client.clone(), request.namespace, &resource);
            }
            ResourceType::PersistentVolume => ApiResource::erase::<PersistentVolume>(&()),
            _ => ApiResource::erase::<VolumeAttachment>(&()),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// Reports whether the object is the node's: a volume if a pod there uses its claim; an attachment names its node.
    fn is_of(&self, node: &str, object: &DynamicObject) -> bool {
        let text = |pointer: &str| {
            object
                .data
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (namespace, claim) = (
            text("/spec/claimRef/namespace"),
            text("/spec/claimRef/name"),
        );
        text("/spec/nodeName") == node || self.index.read().claim_on(node, namespace, claim)
    }
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;
    use objectstore::MemoryStore;
    use serde_json::json;
    use wire::{Header, ResourcePath};

    use super::{super::request::Verb, *};
    use crate::{delivery::Reply, mailbox::Mailboxes};

    /// The code of the answer to `node` asking, 200 where it gets the object.
    async fn asks(edge: &Edge, node: &str, kind: ResourceType, namespace: &str, name: &str) -> u64 {
        let path = ResourcePath::object(namespace, &kind, name);
        let reply = edge
            .request(node, &Header::default(), Verb::Query, (path, &Value::Null))
            .await;
        let Some(Reply::Direct(answer)) = reply else {
            return 0;
        };
        let value = match wire::Down::from(answer).body {
            wire::Downstream::Answer {
                answer: Answer::Found(object),
                ..
            } => {
                assert_eq!(object["metadata"]["name"], name);
                return 200;
            }
            wire::Downstream::Answer {
                answer: Answer::Failed(status),
                ..
            } => status,
            other => panic!("{other:?}"),
        };
        value["code"].as_u64().unwrap_or_default()
    }

    #[tokio::test]
    async fn a_node_reads_the_volumes_of_its_own_pods_claims() {
        let client = kubeapi::Api::builder(MemoryStore::new())
            .build()
            .client("test");
        let edge = Edge::new(client.clone(), Mailboxes::default(), "");
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "edge-1",
            "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "missing"}}]}});
        edge.index
            .write()
            .apply(&serde_json::from_value(pod).unwrap());
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for name in ["data", "others"] {
            let claim = json!({"metadata": {"name": name}, "spec": spec});
            let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), "default");
            api.create(
                &PostParams::default(),
                &serde_json::from_value(claim).unwrap(),
            )
            .await
            .unwrap();
            let volume = json!({"metadata": {"name": format!("pv-{name}")}, "spec": {"accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}, "claimRef": {"namespace": "default", "name": name}}});
            let api = Api::<PersistentVolume>::all(client.clone());
            api.create(
                &PostParams::default(),
                &serde_json::from_value(volume).unwrap(),
            )
            .await
            .unwrap();
        }
        use ResourceType::{PersistentVolume as Volume, PersistentVolumeClaim as Claim};
        for (node, kind, namespace, name, code) in [
            ("edge-1", Claim, "default", "data", 200),
            ("edge-1", Claim, "default", "others", 403),
            ("edge-1", Claim, "default", "missing", 404),
            ("edge-2", Claim, "default", "data", 403),
            ("edge-1", Volume, "", "pv-data", 200),
            ("edge-1", Volume, "", "pv-others", 403),
            ("edge-1", Volume, "", "pv-none", 404),
            ("edge-2", Volume, "", "pv-data", 403),
        ] {
            assert_eq!(
                asks(&edge, node, kind.clone(), namespace, name).await,
                code,
                "{node} {kind} {name}"
            );
        }
    }
}
