//! The types of volumes that this node supports. Every decision by type is an exhaustive `match`, so that the compiler lists all
//! of them to whoever adds a type.

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
    /// A directory that is empty at first and is removed with the pod.
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
    /// Returns the volume's source, or `None` if this node does not support its type. Fields of unsupported types are refused by
    /// name (see [`super::fields`]); all of them are listed here, so that new ones of a newer API are not forgotten.
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
            .or(persistent_volume_claim
                .as_ref()
                .map(Self::PersistentVolumeClaim))
            .or(empty_dir.as_ref().map(Self::EmptyDir))
            .or(config_map.as_ref().map(Self::ConfigMap))
            .or(secret.as_ref().map(Self::Secret))
            .or(downward_api.as_ref().map(Self::DownwardApi))
            .or(projected.as_ref().map(Self::Projected))
    }

    /// Returns the name of the directory in which a pod keeps its volumes of this type, after the kubelet's plugin.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            // Nothing is stored for a path of the node.
            Self::HostPath(_) => "host-path",
            Self::PersistentVolumeClaim(_) => "local-volume",
            Self::EmptyDir(_) => "empty-dir",
            Self::ConfigMap(_) => "configmap",
            Self::Secret(_) => "secret",
            Self::DownwardApi(_) => "downward-api",
            Self::Projected(_) => "projected",
        }
    }

    /// Returns the claim that has to be looked up before the volume can be set up.
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

    /// Returns the projection, which may ask for tokens.
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

    /// Returns the source if the volume is an `emptyDir`, which may have a size limit and counts towards the pod's local storage.
    pub(crate) fn empty_dir(self) -> Option<&'a EmptyDirVolumeSource> {
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

    /// Reports whether the volume is ephemeral storage: on the node's disk and removed with the pod.
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

    /// Returns how containers mount a volume of this type, whatever else they specify.
    pub(crate) fn mount_options(self) -> MountOptions {
        match self {
            // The node's own paths keep the label that they have.
            Self::HostPath(_) => MountOptions {
                read_only: false,
                relabel: false,
            },
            Self::PersistentVolumeClaim(source) => MountOptions {
                read_only: source.read_only == Some(true),
                relabel: false,
            },
            Self::EmptyDir(_) => MountOptions {
                read_only: false,
                relabel: true,
            },
            // Content of API objects is written by the agent only; a container's changes would be lost.
            Self::ConfigMap(_) | Self::Secret(_) | Self::DownwardApi(_) | Self::Projected(_) => {
                MountOptions {
                    read_only: true,
                    relabel: true,
                }
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

/// Reports whether an `emptyDir` is in memory, or on any medium other than the node's disk.
pub(crate) fn is_in_memory(source: &EmptyDirVolumeSource) -> bool {
    source
        .medium
        .as_deref()
        .is_some_and(|medium| !medium.is_empty())
}

/// Returns the volumes of the pod.
pub(crate) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
}
