//! Objects as raw JSON, so that no field is lost on the way to a node.

use crds::{
    devices::{Device, DeviceModel},
    policy::ServiceAccountAccess,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::{
    Api, Client,
    api::{ApiResource, GetParams, Patch, PatchParams, Request},
    core::DynamicObject,
};
use serde_json::Value;
use wire::names::{is_dns_label, is_path_segment};

use crate::mailbox::{ObjectKind, ObjectPath};

/// Returns the object at `path` with kind and apiVersion; `None` if it does not exist, as no object does whose name is not one segment of a
/// URL.
pub(in crate::controllers) async fn get(
    client: &Client,
    path: &ObjectPath,
) -> Result<Option<Value>, kube::Error> {
    // some paths have names that nodes send, and nothing encodes them on their way into the URL
    let is_placed = path.namespace.is_empty() || is_dns_label(&path.namespace);
    if !is_placed || !is_path_segment(&path.name) {
        return Ok(None);
    }
    let one =
        Request::new(dynamic(client, path).resource_url()).get(&path.name, &GetParams::default());
    match client
        .request(one.map_err(kube::Error::BuildRequest)?)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

/// Patches the status of an object; returns the object.
pub(super) async fn patch_status(
    client: &Client,
    api: &Api<DynamicObject>,
    name: &str,
    patch: Value,
) -> Result<Value, kube::Error> {
    let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let request =
        Request::new(api.resource_url()).patch_subresource("status", name, &parameters, &patch);
    client
        .request(request.map_err(kube::Error::BuildRequest)?)
        .await
}

/// Returns the API of the object's kind and namespace.
pub(super) fn dynamic(client: &Client, path: &ObjectPath) -> Api<DynamicObject> {
    let resource = match path.kind {
        ObjectKind::Node => return Api::all_with(client.clone(), &ApiResource::erase::<Node>(&())),
        ObjectKind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
        ObjectKind::Secret => ApiResource::erase::<Secret>(&()),
        ObjectKind::Access => ApiResource::erase::<ServiceAccountAccess>(&()),
        ObjectKind::Pod => ApiResource::erase::<Pod>(&()),
        ObjectKind::DeviceModel => ApiResource::erase::<DeviceModel>(&()),
        ObjectKind::Device => ApiResource::erase::<Device>(&()),
    };
    Api::namespaced_with(client.clone(), &path.namespace, &resource)
}
