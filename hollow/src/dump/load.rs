//! Creates the objects of a dump in a cloud.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::Scope,
};
use serde_json::{Value, json};

use super::Error;

/// The field manager.
const MANAGER: &str = "cloudsim-dump";
/// How many objects are created at a time.
const AT_ONCE: usize = 32;
/// The kinds that are created first, in this order; all others follow together.
const STAGES: [&[&str]; 4] = [
    &["Namespace", "CustomResourceDefinition"],
    &[
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ServiceAccount",
        "Secret",
        "ConfigMap",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ],
    &["Pod"],
    &["ReplicaSet", "ReplicationController"],
];

/// Creates the objects, and returns those that the API refuses, with the reason.
pub(super) async fn create<'a>(
    client: &Client,
    objects: &'a [Value],
) -> Result<Vec<(&'a Value, String)>, Error> {
    let stage = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let found = STAGES.iter().position(|kinds| kinds.contains(&kind));
        found.unwrap_or(STAGES.len())
    };
    let mut refused = Vec::new();
    for number in 0..=STAGES.len() {
        // again for each stage: definitions of the dump add kinds
        let discovery = Discovery::new(client.clone()).run().await?;
        let of_stage = objects.iter().filter(|object| stage(object) == number);
        let created = stream::iter(of_stage).map(async |object| {
            let reason = create_one(client, &discovery, object).await?;
            Ok::<_, Error>(reason.map(|reason| (object, reason)))
        });
        let created: Vec<_> = created.buffered(AT_ONCE).try_collect().await?;
        refused.extend(created.into_iter().flatten());
    }
    Ok(refused)
}

/// Creates or changes an object; returns why it is refused.
async fn create_one(
    client: &Client,
    discovery: &Discovery,
    object: &Value,
) -> Result<Option<String>, Error> {
    let object: DynamicObject = match serde_json::from_value(object.clone()) {
        Ok(object) => object,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let types = object.types.clone().unwrap_or(TypeMeta {
        api_version: String::new(),
        kind: String::new(),
    });
    let gvk = match GroupVersionKind::try_from(&types) {
        Ok(gvk) => gvk,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let Some((resource, capabilities)) = discovery.resolve_gvk(&gvk) else {
        return Ok(Some(format!(
            "this cloud serves no {} of {}",
            types.kind, types.api_version
        )));
    };
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    };
    let created = api.create(&PostParams::default(), &object).await;
    let created = match created {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let force = PatchParams::apply(MANAGER).force();
            api.patch(&object.name_any(), &force, &Patch::Apply(&object))
                .await
        }
        created => created,
    };
    match created {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// Makes nodes accept no new pods.
pub(super) async fn cordon(client: &Client, nodes: &[String]) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    for node in nodes {
        api.patch(node, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
