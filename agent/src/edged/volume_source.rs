//! The types of volumes that this node has. Every question about volumes is one exhaustive `match` over them, so that the
//! compiler names all of them to whoever adds a type.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    PersistentVolumeClaimVolumeSource, Pod, ProjectedVolumeSource, SecretVolumeSource, Volume,
};

/// Where the content of a volume comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VolumeSource<'a> {
    /// A path of the node.
    HostPath(&'a HostPathVolumeSource),
    /// The volume behind a claim.
    PersistentVolumeClaim(&'a PersistentVolumeClaimVolumeSource),
    /// A directory that begins empty and ends with the pod.
    EmptyDir(&'a EmptyDirVolumeSource),
    /// The keys of a ConfigMap, as files.
    ConfigMap(&'a ConfigMapVolumeSource),
    /// The keys of a Secret, as files.
    Secret(&'a SecretVolumeSource),
    /// Fields of the pod, as files.
    DownwardApi(&'a DownwardAPIVolumeSource),
    /// Several of these in one directory, and tokens.
    Projected(&'a ProjectedVolumeSource),
}

impl<'a> VolumeSource<'a> {
    /// The volume's source; `None` where it is of a type that this node does not have. The fields of those are refused by name
    /// (see [`super::fields`]), and are all written down here, so that a newer API's are not forgotten.
    pub(crate) fn of(volume: &'a Volume) -> Option<Self> {
        let Volume {
            name: _,
            host_path,
            persistent_volume_claim,
            empty_dir,
            config_map,
            secret,
            downward_api,
            projected,
            aws_elastic_block_store: _,
            azure_disk: _,
            azure_file: _,
            cephfs: _,
            cinder: _,
            csi: _,
            ephemeral: _,
            fc: _,
            flex_volume: _,
            flocker: _,
            gce_persistent_disk: _,
            git_repo: _,
            glusterfs: _,
            image: _,
            iscsi: _,
            nfs: _,
            photon_persistent_disk: _,
            portworx_volume: _,
            quobyte: _,
            rbd: _,
            scale_io: _,
            storageos: _,
            vsphere_volume: _,
        } = volume;
        None.or(host_path.as_ref().map(Self::HostPath))
            .or(persistent_volume_claim.as_ref().map(Self::PersistentVolumeClaim))
            .or(empty_dir.as_ref().map(Self::EmptyDir))
            .or(config_map.as_ref().map(Self::ConfigMap))
            .or(secret.as_ref().map(Self::Secret))
            .or(downward_api.as_ref().map(Self::DownwardApi))
            .or(projected.as_ref().map(Self::Projected))
    }

    /// The name of the directory in which a pod keeps its volumes of this type, after the plugin of the kubelet that makes them.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            // Nothing is kept of a path of the node.
            Self::HostPath(_) => "host-path",
            Self::PersistentVolumeClaim(_) => "local-volume",
            Self::EmptyDir(_) => "empty-dir",
            Self::ConfigMap(_) => "configmap",
            Self::Secret(_) => "secret",
            Self::DownwardApi(_) => "downward-api",
            Self::Projected(_) => "projected",
        }
    }

    /// The claim that has to be looked up before the volume can be set up.
    pub(crate) fn claim(self) -> Option<&'a PersistentVolumeClaimVolumeSource> {
        match self {
            Self::PersistentVolumeClaim(source) => Some(source),
            Self::HostPath(_)
            | Self::EmptyDir(_)
            | Self::ConfigMap(_)
            | Self::Secret(_)
            | Self::DownwardApi(_)
            | Self::Projected(_) => None,
        }
    }

    /// The projection that may ask for tokens.
    pub(crate) fn projection(self) -> Option<&'a ProjectedVolumeSource> {
        match self {
            Self::Projected(source) => Some(source),
            Self::HostPath(_)
            | Self::PersistentVolumeClaim(_)
            | Self::EmptyDir(_)
            | Self::ConfigMap(_)
            | Self::Secret(_)
            | Self::DownwardApi(_) => None,
        }
    }

    /// The directory whose size is limited by the pod, and which counts towards its local storage.
    pub(crate) fn scratch(self) -> Option<&'a EmptyDirVolumeSource> {
        match self {
            Self::EmptyDir(source) => Some(source),
            Self::HostPath(_)
            | Self::PersistentVolumeClaim(_)
            | Self::ConfigMap(_)
            | Self::Secret(_)
            | Self::DownwardApi(_)
            | Self::Projected(_) => None,
        }
    }

    /// Whether the volume is on the node's disk and is gone with the pod, so that it is ephemeral storage.
    pub(crate) fn is_ephemeral(self) -> bool {
        match self {
            Self::EmptyDir(source) => !is_in_memory(source),
            Self::ConfigMap(_) => true,
            Self::HostPath(_)
            | Self::PersistentVolumeClaim(_)
            | Self::Secret(_)
            | Self::DownwardApi(_)
            | Self::Projected(_) => false,
        }
    }

    /// How containers mount a volume of this type, whatever else they say.
    pub(crate) fn mount_options(self) -> MountOptions {
        match self {
            // The node's own paths keep the label that they have.
            Self::HostPath(_) => MountOptions { read_only: false, relabel: false },
            Self::PersistentVolumeClaim(source) => {
                MountOptions { read_only: source.read_only == Some(true), relabel: false }
            }
            Self::EmptyDir(_) => MountOptions { read_only: false, relabel: true },
            // What is made from objects belongs to the cloud; a container that writes there would only lose it.
            Self::ConfigMap(_) | Self::Secret(_) | Self::DownwardApi(_) | Self::Projected(_) => {
                MountOptions { read_only: true, relabel: true }
            }
        }
    }
}

/// How containers mount a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountOptions {
    /// Whether no container may write there.
    pub(crate) read_only: bool,
    /// Whether the runtime gives it the SELinux label of the pod.
    pub(crate) relabel: bool,
}

/// Whether an `emptyDir` is in memory, on any medium that is not the node's disk.
pub(crate) fn is_in_memory(source: &EmptyDirVolumeSource) -> bool {
    source.medium.as_deref().is_some_and(|medium| !medium.is_empty())
}

/// The volumes of the pod.
pub(crate) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}
