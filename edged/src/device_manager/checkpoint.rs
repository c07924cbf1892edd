//! The kubelet's checkpoint of devices, `kubelet_internal_checkpoint`: JSON with a checksum. A kubelet, EdgeCore and this agent read
//! each other's file. Pure.
//!
//! Source: Kubernetes 1.32, `pkg/kubelet/cm/devicemanager/checkpoint`. The checksum is FNV-1a with 32 bits of the data as go-spew's
//! `%#v` prints it, with sorted keys.

use std::{collections::BTreeMap, fmt::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// Name of the file, beside the sockets of plugins.
pub(super) const FILE_NAME: &str = "kubelet_internal_checkpoint";
/// Maximum size of the file, bytes.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The file is no checkpoint.
    #[error("no checkpoint of devices")]
    Json(#[from] serde_json::Error),
    /// The stored answer of a plugin is not base64.
    #[error("the answer of a plugin is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The file was changed or damaged.
    #[error("the checksum is {stored}, but that of the data is {computed}")]
    Checksum { stored: u64, computed: u64 },
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
    checksum: u64,
}

/// The data of a checkpoint. Go writes an empty list without content as `null`, which the checksum distinguishes from `[]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Data {
    /// The devices that containers use.
    pub(super) pod_device_entries: Option<Vec<Entry>>,
    /// The ids of healthy devices by resource.
    pub(super) registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// The devices of one resource that a container uses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Entry {
    /// The pod's uid.
    #[serde(rename = "PodUID")]
    pub(super) pod_uid: String,
    /// The container's name.
    pub(super) container_name: String,
    /// The resource: `vendor.example/name`.
    pub(super) resource_name: String,
    /// The devices' ids by NUMA node; -1 for devices without one.
    #[serde(rename = "DeviceIDs")]
    pub(super) device_ids: Option<BTreeMap<i64, Option<Vec<String>>>>,
    /// The plugin's answer, a message `ContainerAllocateResponse` in base64.
    pub(super) alloc_resp: Option<String>,
}

impl Data {
    /// Parses the file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let File { data, checksum } = serde_json::from_slice(bytes)?;
        let computed = data.checksum()?;
        if computed == checksum {
            Ok(data)
        } else {
            Err(Error::Checksum {
                stored: checksum,
                computed,
            })
        }
    }

    /// Returns the content of the file.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let file = File {
            data: self.clone(),
            checksum: self.checksum()?,
        };
        Ok(serde_json::to_vec(&file)?)
    }

    fn checksum(&self) -> Result<u64, Error> {
        let mut hash = Fnv::default();
        // writing to a hash never fails
        let _ = hash.write_str(
            "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)",
        );
        match &self.pod_device_entries {
            None => hash.text("<nil>"),
            Some(entries) => {
                hash.text("[");
                for (index, entry) in entries.iter().enumerate() {
                    hash.text(if index == 0 { "{" } else { " {" });
                    entry.hash(&mut hash)?;
                    hash.text("}");
                }
                hash.text("]");
            }
        }
        hash.text(" RegisteredDevices:(map[string][]string)");
        hash.map(self.registered_devices.as_ref());
        hash.text("}");
        Ok(u64::from(hash.0))
    }
}

impl Entry {
    fn hash(&self, hash: &mut Fnv) -> Result<(), Error> {
        let Self {
            pod_uid,
            container_name,
            resource_name,
            device_ids,
            alloc_resp,
        } = self;
        let _ = write!(
            hash,
            "PodUID:(string){pod_uid} ContainerName:(string){container_name} ResourceName:(string){resource_name} \
             DeviceIDs:(checkpoint.DevicesPerNUMA)"
        );
        hash.map(device_ids.as_ref());
        hash.text(" AllocResp:([]uint8)");
        match alloc_resp {
            None => hash.text("<nil>"),
            Some(text) => {
                let bytes = STANDARD.decode(text)?;
                hash.list(bytes.iter());
            }
        }
        Ok(())
    }
}

/// FNV-1a with 32 bits.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl std::fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        Ok(())
    }
}

impl Fnv {
    fn text(&mut self, text: &str) {
        let _ = self.write_str(text);
    }

    fn list<T: std::fmt::Display>(&mut self, items: impl Iterator<Item = T>) {
        self.text("[");
        for (index, item) in items.enumerate() {
            let _ = write!(self, "{}{item}", if index == 0 { "" } else { " " });
        }
        self.text("]");
    }

    fn map<K: std::fmt::Display>(&mut self, map: Option<&BTreeMap<K, Option<Vec<String>>>>) {
        let Some(map) = map else {
            return self.text("<nil>");
        };
        self.text("map[");
        for (index, (key, ids)) in map.iter().enumerate() {
            let _ = write!(self, "{}{key}:", if index == 0 { "" } else { " " });
            match ids {
                None => self.text("<nil>"),
                Some(ids) => self.list(ids.iter()),
            }
        }
        self.text("]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that kubelets wrote on machines with a GPU, and one of EdgeCore 1.23.1.
    const FROM_KUBELETS: [&str; 3] = [
        r#"{"Data":{"PodDeviceEntries":[{"PodUID":"ab66e582-582e-46f2-8367-d35f52167f4d","ContainerName":"main","ResourceName":"example.com/sim","DeviceIDs":{"-1":["b"]},"AllocResp":"ChAKC1NJTV9ERVZJQ0VTEgFiGhsKCi9kZXYvc2ltLWISCS9kZXYvemVybxoCcnc="}],"RegisteredDevices":{"example.com/sim":["a","b"]}},"Checksum":205754412}"#,
        r#"{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check","ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}"#,
        r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"nvidia.com/gpu":["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]}},"Checksum":3952659280}"#,
    ];

    #[test]
    fn checkpoint_of_a_kubelet_is_read_and_written_byte_for_byte() {
        for text in FROM_KUBELETS {
            let data = Data::parse(text.as_bytes()).unwrap();
            assert_eq!(
                String::from_utf8(data.to_bytes().unwrap()).unwrap(),
                text,
                "{data:?}"
            );
        }
    }

    #[test]
    fn changed_checkpoint_is_rejected() {
        for (from, to) in [
            ("\"tegra\"", "\"other\""),
            ("check", "chess"),
            ("null", "[]"),
            ("AllocResp\":\"C", "AllocResp\":\"D"),
            ("280}", "281}"),
            ("Ch8K", "Ch8"),
            ("\"Data\"", "\"Date\""),
        ] {
            for text in FROM_KUBELETS.iter().filter(|text| text.contains(from)) {
                Data::parse(text.replace(from, to).as_bytes()).unwrap_err();
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn damaged_checkpoint_is_answered(at in 0..2000_usize, byte: u8) {
            for text in FROM_KUBELETS {
                let mut bytes = text.as_bytes().to_vec();
                let at = at % bytes.len();
                bytes[at] = byte;
                let _ = Data::parse(&bytes);
                let _ = Data::parse(&bytes[..at]);
            }
        }
    }

    #[test]
    fn written_checkpoint_is_read_again() {
        let ids = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        let data = Data {
            pod_device_entries: Some(vec![Entry {
                pod_uid: "uid".into(),
                container_name: "main".into(),
                resource_name: "example.com/sensor".into(),
                device_ids: Some([(1, ids(&["b"])), (-1, ids(&["a", "c"])), (10, None)].into()),
                alloc_resp: Some(String::new()),
            }]),
            registered_devices: Some([("example.com/sensor".to_owned(), ids(&[]))].into()),
        };
        assert_eq!(Data::parse(&data.to_bytes().unwrap()).unwrap(), data);
        let none = Data::default();
        assert_eq!(Data::parse(&none.to_bytes().unwrap()).unwrap(), none);
    }
}
