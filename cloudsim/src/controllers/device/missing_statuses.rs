//! Devices without a DeviceStatus.

use std::{collections::BTreeSet, mem};

use crds::devices::Device;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The devices that are not known to have a DeviceStatus; bounded by the number of devices.
#[derive(Debug, Default)]
pub(super) struct MissingStatuses {
    devices: Mutex<BTreeSet<DeviceRef>>,
    more: Notify,
}

impl MissingStatuses {
    /// Adds a device.
    pub(super) fn add(&self, device: &Device) {
        self.devices.lock().insert(DeviceRef::of(device));
        self.more.notify_one();
    }

    /// Waits until there are some, and takes them. Cancel-safe: what is not taken is kept.
    pub(super) async fn take(&self) -> BTreeSet<DeviceRef> {
        loop {
            let devices = mem::take(&mut *self.devices.lock());
            if !devices.is_empty() {
                return devices;
            }
            self.more.notified().await;
        }
    }
}

/// Identifies a device, whose DeviceStatus has the same name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl DeviceRef {
    /// Returns the identity of a Device.
    fn of(device: &Device) -> Self {
        Self {
            namespace: device.namespace().unwrap_or_default(),
            name: device.name_any(),
            uid: device.uid().unwrap_or_default(),
        }
    }

    /// Returns the owner reference for the DeviceStatus.
    pub(super) fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: Device::api_version(&()).into_owned(),
            kind: Device::kind(&()).into_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}
