//! Creates the objects of a dump in a cloud.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    client::Body,
    core::{GroupVersionKind, Request, response::Status},
    discovery::{ApiCapabilities, ApiResource, pinned_kind},
};
use serde_json::{Value, json};

use super::Error;
use crate::manifests;

/// The field manager.
const MANAGER: &str = "cloudsim-dump";
/// The largest refusal of the API in bytes.
const MAX_REFUSAL: usize = 1 << 20;
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

/// Resources by version and kind; `None` if the API does not serve it.
type Kinds = BTreeMap<(String, String), Option<(ApiResource, ApiCapabilities)>>;

/// Creates the objects, and returns those that the API refuses or warns about, with what it says.
pub(super) async fn create<'a>(
    client: &Client,
    objects: &'a [Value],
) -> Result<Vec<(&'a Value, String)>, Error> {
    let stage = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let found = STAGES.iter().position(|kinds| kinds.contains(&kind));
        found.unwrap_or(STAGES.len())
    };
    let mut remarks = Vec::new();
    for number in 0..=STAGES.len() {
        let of_stage: Vec<_> = objects.iter().filter(|it| stage(it) == number).collect();
        if of_stage.is_empty() {
            continue;
        }
        // again for each stage: definitions of the dump add kinds
        let kinds = find_kinds(client, &of_stage).await?;
        let created = stream::iter(of_stage).map(async |object| {
            let said = create_one(client, &kinds, object).await?;
            Ok::<_, Error>(said.into_iter().map(move |remark| (object, remark)))
        });
        let created: Vec<_> = created.buffered(AT_ONCE).try_collect().await?;
        remarks.extend(created.into_iter().flatten());
    }
    Ok(remarks)
}

/// Finds the kinds of objects in the API.
async fn find_kinds(client: &Client, objects: &[&Value]) -> Result<Kinds, Error> {
    let mut kinds = Kinds::new();
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let types = (text("apiVersion"), text("kind"));
        if kinds.contains_key(&types) {
            continue;
        }
        let (group, version) = types.0.split_once('/').unwrap_or(("", &types.0));
        let kind = GroupVersionKind::gvk(group, version, &types.1);
        let found = match pinned_kind(client, &kind).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(_) | kube::Error::Discovery(_)) => None,
            Err(error) => return Err(error.into()),
        };
        kinds.insert(types, found);
    }
    Ok(kinds)
}

/// Creates or changes an object; returns why it is refused, or the warnings of the API.
async fn create_one(client: &Client, kinds: &Kinds, object: &Value) -> Result<Vec<String>, Error> {
    let object: DynamicObject = match serde_json::from_value(object.clone()) {
        Ok(object) => object,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let types = object.types.clone().unwrap_or_default();
    let Some(Some((resource, capabilities))) = kinds.get(&(types.api_version, types.kind)) else {
        return Ok(vec!["this cloud does not serve its kind".to_owned()]);
    };
    let namespace = object.namespace();
    let api = manifests::api(client.clone(), resource, capabilities, namespace.as_deref());
    let request = Request::new(api.resource_url());
    let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
    let create = request.create(&PostParams::default(), body);
    let done = match send(client, create).await? {
        Err(refusal) if refusal.reason == "AlreadyExists" => {
            let force = PatchParams::apply(MANAGER).force();
            let patch = request.patch(&object.name_any(), &force, &Patch::Apply(&object));
            send(client, patch).await?
        }
        done => done,
    };
    Ok(done.unwrap_or_else(|refusal| vec![refusal.message]))
}

/// Sends a request; returns the warnings of the API or its refusal. kube's own calls do not return warnings.
async fn send(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Result<Vec<String>, Status>, Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    let answer = client.send(request.map(Body::from)).await?;
    if answer.status().is_success() {
        return Ok(Ok(warnings(answer.headers())));
    }
    let refusal = Limited::new(answer.into_body(), MAX_REFUSAL)
        .collect()
        .await;
    let refusal = refusal.map_err(kube::Error::Service)?.to_bytes();
    Ok(Err(
        serde_json::from_slice(&refusal).map_err(kube::Error::SerdeError)?
    ))
}

/// Returns the texts of `Warning` headers: `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let texts = headers.get_all(header::WARNING).iter().filter_map(|value| {
        let (_, text) = value.to_str().ok()?.split_once('"')?;
        let text = text.strip_suffix('"')?.replace("\\\"", "\"");
        Some(format!("created, but the API warns: {text}"))
    });
    texts.collect()
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
