//! An API in memory with one controller, for the controllers' tests.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, TypeMeta},
};
use kubeapi::Registry;
use objectstore::MemoryStore;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    events::Recorder,
    workloads::{Listed, Reflectors, Shared},
};
use crate::tasks::Tasks;

/// The API; everything stops when it is dropped.
pub(crate) struct TestApi {
    pub(crate) client: Client,
    pub(crate) reflectors: Reflectors,
    pub(crate) stop: CancellationToken,
}

impl Drop for TestApi {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl TestApi {
    /// Starts the API over a store, without a controller.
    pub(crate) fn new(store: &Arc<MemoryStore>) -> Self {
        Self::with_definitions(store, &crds::all())
    }

    /// Starts the API with these definitions of KubeEdge's kinds.
    pub(crate) fn with_definitions(
        store: &Arc<MemoryStore>,
        definitions: &[CustomResourceDefinition],
    ) -> Self {
        let registry = Registry::builtin().with_crds(definitions);
        let api = apiserver::builder(store.clone()).registry(registry).build();
        Self::of_client(api.client("default"))
    }

    /// Starts controllers that use this client.
    pub(crate) fn of_client(client: Client) -> Self {
        let (stop, tasks) = (CancellationToken::new(), Tasks::default());
        let shared = Shared::new(client.clone(), Recorder::spawn(&tasks, &client, &stop));
        Self {
            client,
            reflectors: Reflectors::new(shared, &tasks, &stop),
            stop,
        }
    }

    /// Starts the API with a controller and a namespace.
    pub(crate) async fn with<C: Listed, F>(
        namespace: &str,
        controller: impl FnOnce(C, CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let api = Self::new(&MemoryStore::new());
        api.reflectors.start("controller", controller);
        let object = json!({"metadata": {"name": namespace}});
        api.create("v1", "Namespace", "", object).await;
        api
    }

    /// Returns the objects of a kind: all, or those of a namespace.
    pub(crate) fn objects(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let types = TypeMeta {
            api_version: api_version.into(),
            kind: kind.into(),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) async fn create(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        object: Value,
    ) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.objects(api_version, kind, namespace)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }
}

/// Merges a patch into an object.
pub(crate) async fn patch(api: &Api<DynamicObject>, name: &str, patch: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}
