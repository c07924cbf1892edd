//! The refused fields of a pod, each with its cure.

use super::{RuntimeFeature, Scope};

/// A field that is refused.
pub(super) struct Rule {
    /// The specification in which the path begins.
    pub(super) scope: Scope,
    /// Field names, separated by dots; `[]` follows the name of a list.
    pub(super) path: &'static str,
    /// The values that are refused.
    pub(super) when: RefusedValues,
    /// What the user can do instead.
    pub(super) cure: &'static str,
    /// The runtime's feature that permits the field.
    pub(super) required_feature: Option<RuntimeFeature>,
}

/// Which values are refused.
#[derive(Clone, Copy)]
pub(super) enum RefusedValues {
    /// Any value.
    Any,
    /// Only this value.
    Exactly(&'static str),
    /// All values except these.
    AllExcept(&'static [&'static str]),
}

const fn rule(scope: Scope, path: &'static str, when: RefusedValues, cure: &'static str) -> Rule {
    Rule {
        scope,
        path,
        when,
        cure,
        required_feature: None,
    }
}

const fn requires(ability: RuntimeFeature, rule: Rule) -> Rule {
    Rule {
        required_feature: Some(ability),
        ..rule
    }
}

const fn volume(path: &'static str, cure: &'static str) -> Rule {
    rule(Scope::Volume, path, RefusedValues::Any, cure)
}

const CURE_HOST_PATH: &str = "mount it on the node and use a hostPath volume";
const CURE_NO_DRIVER: &str = "there are no storage drivers; use a hostPath volume";
const CURE_NO_DYNAMIC_ALLOCATION: &str = "dynamic resource allocation is not supported; request a device of a device plugin in the limits of the container";

/// All rules.
pub(super) const RULES: &[Rule] = &[
    rule(
        Scope::Pod,
        "hostUsers",
        RefusedValues::Exactly("false"),
        "remove it; the users of a pod are those of the node",
    ),
    rule(
        Scope::Pod,
        "resourceClaims",
        RefusedValues::Any,
        CURE_NO_DYNAMIC_ALLOCATION,
    ),
    rule(
        Scope::Pod,
        "resources",
        RefusedValues::Any,
        "set requests and limits of the containers",
    ),
    requires(
        RuntimeFeature::StrictGroups,
        rule(
            Scope::Pod,
            "securityContext.supplementalGroupsPolicy",
            RefusedValues::Exactly("Strict"),
            "the container runtime does not support it; use Merge, or a newer runtime",
        ),
    ),
    rule(
        Scope::Container,
        "resources.claims",
        RefusedValues::Any,
        CURE_NO_DYNAMIC_ALLOCATION,
    ),
    rule(
        Scope::Container,
        "lifecycle.stopSignal",
        RefusedValues::Any,
        "set STOPSIGNAL in the image",
    ),
    rule(
        Scope::Container,
        "volumeDevices",
        RefusedValues::Any,
        "use a hostPath volume of type BlockDevice in a privileged container",
    ),
    requires(
        RuntimeFeature::RecursiveReadOnly,
        rule(
            Scope::Container,
            "volumeMounts[].recursiveReadOnly",
            RefusedValues::Exactly("Enabled"),
            "the container runtime does not support it; use IfPossible, or a newer runtime",
        ),
    ),
    volume("awsElasticBlockStore", CURE_NO_DRIVER),
    volume("azureDisk", CURE_NO_DRIVER),
    volume("azureFile", CURE_NO_DRIVER),
    volume("cephfs", CURE_HOST_PATH),
    volume("cinder", CURE_NO_DRIVER),
    volume("csi", CURE_NO_DRIVER),
    volume(
        "ephemeral",
        "dynamic volumes are not supported; use emptyDir",
    ),
    volume("fc", CURE_HOST_PATH),
    volume("flexVolume", CURE_NO_DRIVER),
    volume("flocker", CURE_NO_DRIVER),
    volume("gcePersistentDisk", CURE_NO_DRIVER),
    volume(
        "gitRepo",
        "clone in an init container into an emptyDir volume",
    ),
    volume("glusterfs", CURE_HOST_PATH),
    volume(
        "image",
        "copy the files in an init container of that image into an emptyDir volume",
    ),
    volume("iscsi", CURE_HOST_PATH),
    volume("nfs", CURE_HOST_PATH),
    volume("photonPersistentDisk", CURE_NO_DRIVER),
    volume("portworxVolume", CURE_NO_DRIVER),
    volume("quobyte", CURE_HOST_PATH),
    volume("rbd", CURE_HOST_PATH),
    volume("scaleIO", CURE_NO_DRIVER),
    volume("storageos", CURE_NO_DRIVER),
    volume("vsphereVolume", CURE_NO_DRIVER),
    rule(
        Scope::Volume,
        "emptyDir.medium",
        RefusedValues::AllExcept(&["", "Memory"]),
        "use Memory, or remove the field",
    ),
    rule(
        Scope::Volume,
        "projected.sources[].clusterTrustBundle",
        RefusedValues::Any,
        "put the certificates into a ConfigMap",
    ),
];
