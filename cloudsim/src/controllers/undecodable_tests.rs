//! Objects that cannot be decoded hold up no controller.

use std::{fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Namespace, Node, ServiceAccount},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    core::ApiResource,
};
use objectstore::MemoryStore;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::eventually;
use tokio_util::sync::CancellationToken;

use super::{
    certificates, events::Recorder, namespace_defaults, namespace_lifecycle, node_lifecycle,
};
use crate::tasks::Tasks;

/// An API server, and a client that writes to its store what the API server would refuse.
struct World {
    client: Client,
    unchecked: Client,
}

impl World {
    fn new() -> Self {
        let store: Arc<MemoryStore> = MemoryStore::new();
        let unchecked = kubeapi::Api::builder(store.clone()).build();
        Self {
            client: apiserver::builder(store).build().client("default"),
            unchecked: unchecked.client("default"),
        }
    }

    async fn create<K: Resource<DynamicType = ()>>(&self, name: &str, fields: &Value) {
        let resource = ApiResource::erase::<K>(&());
        let mut object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        });
        let fields = fields.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        let api = Api::<DynamicObject>::all_with(self.unchecked.clone(), &resource);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates an object for which a typed list fails.
    async fn create_bad<K>(&self, fields: &Value)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        self.create::<K>("bad", fields).await;
        let (api, all) = (Api::<K>::all(self.client.clone()), ListParams::default());
        let listed = api.list(&all).await;
        assert!(matches!(listed, Err(kube::Error::SerdeError(_))));
    }
}

#[tokio::test]
async fn objects_that_cannot_be_decoded_hold_up_no_controller() {
    let world = World::new();
    world.create_bad::<Namespace>(&json!({"spec": 7})).await;
    world
        .create_bad::<Node>(&json!({"spec": {"taints": 7}}))
        .await;
    world
        .create_bad::<CertificateSigningRequest>(&json!({"status": 7}))
        .await;
    let finalizers = json!({"spec": {"finalizers": ["kubernetes"]}});
    for name in ["good", "leaving"] {
        world.create::<Namespace>(name, &finalizers).await;
    }
    let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [ready]}});
    world.create::<Node>("good", &status).await;
    let denied =
        json!({"type": "Denied", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"});
    let request = json!({"spec": {"request": "eA==", "signerName": "a/b", "usages": ["client auth"]},
        "status": {"conditions": [denied]}});
    world
        .create::<CertificateSigningRequest>("good", &request)
        .await;

    let (tasks, stop, client) = (Tasks::default(), CancellationToken::new(), &world.client);
    let events = Recorder::spawn(&tasks, client, &stop);
    let defaults = namespace_defaults::NamespaceDefaults {
        account: true,
        root_ca: None,
    };
    let grace = Duration::from_millis(10);
    let controllers = async {
        tokio::join!(
            namespace_defaults::run(client.clone(), defaults, stop.clone()),
            namespace_lifecycle::run(client.clone(), stop.clone()),
            node_lifecycle::run(client.clone(), events, grace, stop.clone()),
            certificates::clean(client.clone(), stop.clone()),
        )
    };
    let checks = async {
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces
            .delete("leaving", &DeleteParams::default())
            .await
            .unwrap();
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "good");
        let nodes = Api::<Node>::all(client.clone());
        let requests = Api::<CertificateSigningRequest>::all(client.clone());
        eventually("the work of all controllers", async || {
            let node = nodes.get("good").await.unwrap().status;
            let ready = node.and_then(|status| Some(status.conditions?.first()?.status.clone()));
            let found = (
                namespaces.get_opt("leaving").await.unwrap().is_none(),
                accounts.get_opt("default").await.unwrap().is_some(),
                ready.as_deref() == Some("Unknown"),
                requests.get_opt("good").await.unwrap().is_none(),
            );
            match found {
                (true, true, true, true) => Ok(()),
                found => Err(found),
            }
        })
        .await;
        stop.cancel();
    };
    tokio::join!(controllers, checks);
}
