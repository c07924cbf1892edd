//! What a container gets to use its devices: the answers of its plugins, merged. Pure.
//!
//! Source: the kubelet, `deviceRunContainerOptions`.

use std::collections::BTreeMap;

use wire::{
    cri::{CdiDevice, Device, Mount},
    device_plugin::ContainerAllocateResponse,
};

/// What a container gets to use its devices. Has no `Debug`, as environment variables may be secret.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ContainerDevices {
    /// Environment variables, which the container's own override.
    pub(crate) envs: BTreeMap<String, String>,
    /// Mounts.
    pub(crate) mounts: Vec<Mount>,
    /// Device files.
    pub(crate) devices: Vec<Device>,
    /// Annotations for the container runtime.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Devices that the container runtime sets up by the Container Device Interface.
    pub(crate) cdi_devices: Vec<CdiDevice>,
}

impl ContainerDevices {
    /// Merges the answers of all plugins. Of two settings for the same name or path, the first is used.
    pub(super) fn merge<'a>(
        answers: impl IntoIterator<Item = &'a ContainerAllocateResponse>,
    ) -> Self {
        let mut all = Self::default();
        for answer in answers {
            for (name, value) in &answer.envs {
                all.envs.entry(name.clone()).or_insert(value.clone());
            }
            for (name, value) in &answer.annotations {
                all.annotations.entry(name.clone()).or_insert(value.clone());
            }
            for mount in &answer.mounts {
                let is_new = |known: &Mount| known.container_path != mount.container_path;
                if all.mounts.iter().all(is_new) {
                    all.mounts.push(Mount {
                        container_path: mount.container_path.clone(),
                        host_path: mount.host_path.clone(),
                        readonly: mount.read_only,
                        ..Mount::default()
                    });
                }
            }
            for device in &answer.devices {
                let is_new = |known: &Device| known.container_path != device.container_path;
                if all.devices.iter().all(is_new) {
                    all.devices.push(Device {
                        container_path: device.container_path.clone(),
                        host_path: device.host_path.clone(),
                        permissions: device.permissions.clone(),
                    });
                }
            }
            for device in &answer.cdi_devices {
                if all
                    .cdi_devices
                    .iter()
                    .all(|known| known.name != device.name)
                {
                    all.cdi_devices.push(CdiDevice {
                        name: device.name.clone(),
                    });
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use wire::device_plugin as api;

    use super::*;

    fn answer(value: &str) -> ContainerAllocateResponse {
        let path = || "/same".to_owned();
        ContainerAllocateResponse {
            envs: [
                ("SAME".into(), value.into()),
                (value.to_uppercase(), "1".into()),
            ]
            .into(),
            annotations: [("same".into(), value.into())].into(),
            mounts: vec![api::Mount {
                container_path: path(),
                host_path: format!("/{value}"),
                read_only: true,
            }],
            devices: vec![api::DeviceSpec {
                container_path: path(),
                host_path: format!("/dev/{value}"),
                permissions: "rw".into(),
            }],
            cdi_devices: ["example.com/a=0", &format!("example.com/a={value}")]
                .map(|name| api::CdiDevice { name: name.into() })
                .into(),
        }
    }

    #[test]
    fn first_of_two_answers_for_the_same_name_or_path_is_used() {
        let merged = ContainerDevices::merge([&answer("a"), &answer("b")]);
        assert_eq!(
            merged.envs.into_iter().collect::<Vec<_>>(),
            [("A", "1"), ("B", "1"), ("SAME", "a")].map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        assert_eq!(merged.annotations["same"], "a");
        assert_eq!(merged.mounts.len(), 1);
        assert!(merged.mounts[0].readonly && merged.mounts[0].host_path == "/a");
        assert_eq!(merged.devices.len(), 1);
        assert_eq!(merged.devices[0].host_path, "/dev/a");
        let cdi = ["0", "a", "b"].map(|id| format!("example.com/a={id}"));
        assert_eq!(
            merged
                .cdi_devices
                .into_iter()
                .map(|one| one.name)
                .collect::<Vec<_>>(),
            cdi
        );
    }
}
