//! Writes nodes' reports to DeviceStatuses, and confirms them.

use std::collections::BTreeSet;

use crds::devices::DeviceStatus;
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tracing::{debug, warn};
use wire::{Downstream, Header, ResourcePath, text::printable_short};

use super::{
    Devices,
    missing_statuses::DeviceRef,
    status::{self, Report},
};
use crate::{
    controllers::{api_status, deadline::within},
    delivery::Reply,
};

/// DeviceStatuses created at the same time.
const CONCURRENT_CREATES: usize = 8;
/// How often a write is tried when others write meanwhile.
const MAX_WRITE_ATTEMPTS: usize = 8;

impl Devices {
    /// Handles a report of `node`. Returns the confirmation or refusal; either ends the node's repetitions.
    pub async fn report(
        &self,
        node: &str,
        header: &Header,
        path: &ResourcePath,
        content: &Value,
    ) -> Reply {
        let taken = within(node, self.take(node, path, content)).await;
        let answer = match taken.flatten() {
            Ok(()) => Value::from("OK"),
            Err(status) => {
                let why = printable_short(&status);
                warn!(
                    node,
                    path = printable_short(path),
                    reason = why,
                    "device report rejected"
                );
                json!({"ErrStatus": status})
            }
        };
        let confirmation = Downstream::TwinConfirmed(answer).into_message(clock::unix_millis());
        Reply::Direct(confirmation.answering(&header.msg_id))
    }

    /// Handles a report; the error is a `metav1.Status`.
    async fn take(&self, node: &str, path: &ResourcePath, content: &Value) -> Result<(), Value> {
        let (namespace, name, report) = status::read(path, content)
            .map_err(|malformed| api_status::failure(400, "BadRequest", &malformed.to_string()))?;
        let mut attempts = MAX_WRITE_ATTEMPTS;
        loop {
            attempts -= 1;
            // between two attempts the device may have moved, or another one may have its name
            let own = self.index.read().on(node, &namespace, &name).cloned();
            let place = own.ok_or_else(|| {
                let message = format!("device {namespace}/{name} is not bound to node {node}");
                api_status::failure(404, "NotFound", &message)
            })?;
            let device = DeviceRef {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: place.uid,
            };
            match self.write(&device, &place.properties, &report).await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempts > 0 => {}
                written => return written.map_err(|error| api_status::of(&error)),
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
            let unknown = unknown.join(", ");
            debug!(
                device = device.name,
                unknown, "undeclared properties ignored"
            );
        }
        if current.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut patch =
            json!({"metadata": {"resourceVersion": current.resource_version()}, "status": status});
        // a status omits an empty list, which would keep the old one
        patch["status"]["twins"] = json!(status.twins);
        api.patch(&device.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
    }

    /// Returns the DeviceStatus of a device, created if it is missing. One of an earlier device of the same name is deleted.
    async fn ensure(
        &self,
        api: &Api<DeviceStatus>,
        device: &DeviceRef,
    ) -> Result<DeviceStatus, kube::Error> {
        if let Some(found) = api.get_opt(&device.name).await? {
            let owner = found
                .owner_references()
                .iter()
                .find(|owner| owner.kind == "Device");
            if owner.is_none_or(|owner| owner.uid == device.uid) {
                return Ok(found);
            }
            let preconditions = Preconditions {
                uid: found.uid(),
                resource_version: None,
            };
            let parameters = DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            };
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

    /// Creates missing DeviceStatuses, as CloudCore does before any report; the watches do not wait for it.
    pub(super) async fn statuses(&self) {
        loop {
            let missing = self.missing_statuses.take().await;
            stream::iter(missing)
                .for_each_concurrent(CONCURRENT_CREATES, |device| self.ensure_status(device))
                .await;
        }
    }

    async fn ensure_status(&self, device: DeviceRef) {
        if !self
            .index
            .read()
            .is_there(&device.namespace, &device.name, &device.uid)
        {
            // gone meanwhile
            return;
        }
        let api = Api::<DeviceStatus>::namespaced(self.client.clone(), &device.namespace);
        match self.ensure(&api, &device).await {
            // on a conflict, or if the namespace is terminating
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {}
            Err(error) => warn!(
                device = device.name,
                error = &error as &dyn std::error::Error,
                "failed to create DeviceStatus; the device's first report will create it"
            ),
            Ok(_) => {}
        }
    }
}
