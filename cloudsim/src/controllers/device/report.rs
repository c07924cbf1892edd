//! Reports of nodes, written into DeviceStatuses, and their confirmation.

use std::collections::BTreeSet;

use crds::devices::DeviceStatus;
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tracing::{debug, warn};
use wire::{Downstream, Header, ResourcePath};

use super::{
    Devices,
    missing_statuses::DeviceRef,
    status::{self, Report},
};
use crate::{clock::now_ms, controllers::edge::status as failures, delivery::Reply};

/// DeviceStatuses that are made at one time.
const CONCURRENT_CREATES: usize = 8;
/// How often a write begins anew because somebody else wrote meanwhile.
const MAX_WRITE_ATTEMPTS: usize = 8;

impl Devices {
    /// Takes a report of `node`; the confirmation, or why it was refused. Either ends the node's repeats.
    pub async fn report(&self, node: &str, header: &Header, path: &ResourcePath, content: &Value) -> Reply {
        let answer = match self.take(node, path, content).await {
            Ok(()) => Value::from("OK"),
            Err(status) => {
                warn!(node, path = path.as_str(), %status, "a report was refused");
                json!({"ErrStatus": status})
            }
        };
        let confirmation = Downstream::TwinConfirmed(answer).into_message(now_ms());
        Reply::Direct(confirmation.answering(&header.msg_id))
    }

    /// The error is a `metav1.Status`.
    async fn take(&self, node: &str, path: &ResourcePath, content: &Value) -> Result<(), Value> {
        let (namespace, name, report) = status::read(path, content)
            .map_err(|malformed| failures::failure(400, "BadRequest", &malformed.to_string()))?;
        let mut attempts = MAX_WRITE_ATTEMPTS;
        loop {
            attempts -= 1;
            // between two attempts it may have moved, or another one may have come under its name
            let own = self.index.read().on(node, &namespace, &name).cloned();
            let place = own.ok_or_else(|| {
                let message = format!("device {namespace}/{name} is not bound to node {node}");
                failures::failure(404, "NotFound", &message)
            })?;
            let device = DeviceRef { namespace: namespace.clone(), name: name.clone(), uid: place.uid };
            match self.write(&device, &place.properties, &report).await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempts > 0 => {}
                written => return written.map_err(|error| failures::of(&error)),
            }
        }
    }

    async fn write(
        &self,
        device: &DeviceRef,
        properties: &BTreeSet<String>,
        report: &Report,
    ) -> Result<(), kube::Error> {
        let api = Api::<DeviceStatus>::namespaced(self.client.clone(), &device.namespace);
        let current = self.ensure(&api, device).await?;
        let mut status = current.status.clone().unwrap_or_default();
        let unknown = status::merge(&mut status, properties, report.clone());
        if !unknown.is_empty() {
            debug!(device = device.name, ?unknown, "properties that the device does not have are left out");
        }
        if current.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut patch =
            json!({"metadata": {"resourceVersion": current.resource_version()}, "status": status});
        // an empty list is left out of a status, which would leave the old one
        patch["status"]["twins"] = json!(status.twins);
        api.patch(&device.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }

    /// The DeviceStatus of a device, made where it is missing. One of an earlier device of the same name goes.
    async fn ensure(&self, api: &Api<DeviceStatus>, device: &DeviceRef) -> Result<DeviceStatus, kube::Error> {
        if let Some(found) = api.get_opt(&device.name).await? {
            let owner = found.owner_references().iter().find(|owner| owner.kind == "Device");
            if owner.is_none_or(|owner| owner.uid == device.uid) {
                return Ok(found);
            }
            let preconditions = Preconditions { uid: found.uid(), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&device.name, &parameters).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted?),
            }
        }
        let new = DeviceStatus {
            metadata: ObjectMeta {
                name: Some(device.name.clone()),
                namespace: Some(device.namespace.clone()),
                owner_references: Some(vec![device.owner_reference()]),
                ..ObjectMeta::default()
            },
            ..DeviceStatus::default()
        };
        api.create(&PostParams::default(), &new).await
    }

    /// Gives devices their DeviceStatuses, as CloudCore does before anything is reported; the watches do not wait for that.
    pub(super) async fn statuses(&self) {
        loop {
            let missing = self.missing_statuses.take().await;
            stream::iter(missing)
                .for_each_concurrent(CONCURRENT_CREATES, |device| self.ensure_status(device))
                .await;
        }
    }

    async fn ensure_status(&self, device: DeviceRef) {
        if !self.index.read().is_there(&device.namespace, &device.name, &device.uid) {
            // gone meanwhile
            return;
        }
        let api = Api::<DeviceStatus>::namespaced(self.client.clone(), &device.namespace);
        match self.ensure(&api, &device).await {
            // somebody else was faster, or the namespace goes
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {}
            Err(error) => warn!(
                device = device.name,
                error = &error as &dyn std::error::Error,
                "a device has no DeviceStatus yet; its first report makes it"
            ),
            Ok(_) => {}
        }
    }
}
