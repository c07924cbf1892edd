//! Which fields are refused, with the cure of each.

use super::{Ability, Scope};

/// A field that is refused.
pub(super) struct Rule {
    /// Where the path begins.
    pub(super) scope: Scope,
    /// Names of fields, separated by dots; `[]` after that of a list.
    pub(super) path: &'static str,
    /// Which values.
    pub(super) when: When,
    /// What to do instead.
    pub(super) cure: &'static str,
    /// What the runtime would have to be able to do.
    pub(super) unless: Option<Ability>,
}

/// Which values are refused.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// All.
    Set,
    /// One.
    Is(&'static str),
    /// All but these.
    OtherThan(&'static [&'static str]),
}

const fn rule(scope: Scope, path: &'static str, when: When, cure: &'static str) -> Rule {
    Rule { scope, path, when, cure, unless: None }
}

const fn unless(ability: Ability, rule: Rule) -> Rule {
    Rule { unless: Some(ability), ..rule }
}

const fn volume(path: &'static str, cure: &'static str) -> Rule {
    rule(Scope::Volume, path, When::Set, cure)
}

const MOUNTED: &str = "mount it on the node and use a hostPath volume";
const DRIVER: &str = "there are no storage drivers; use a hostPath volume";
const CLAIM: &str =
    "there is no device plugin; use a hostPath volume of the device file in a privileged container";

/// All rules. The kinds of volumes that are not here and not refused are in [`crate::edged::volumes`].
pub(super) const RULES: &[Rule] = &[
    rule(Scope::Pod, "hostUsers", When::Is("false"), "leave it out; users of pods are users of the node"),
    rule(Scope::Pod, "resourceClaims", When::Set, CLAIM),
    rule(Scope::Pod, "resources", When::Set, "set requests and limits of the containers"),
    unless(
        Ability::StrictGroups,
        rule(
            Scope::Pod,
            "securityContext.supplementalGroupsPolicy",
            When::Is("Strict"),
            "the container runtime cannot do it; use Merge, or a newer runtime",
        ),
    ),
    rule(Scope::Container, "resources.claims", When::Set, CLAIM),
    rule(Scope::Container, "lifecycle.stopSignal", When::Set, "set STOPSIGNAL in the image"),
    rule(
        Scope::Container,
        "volumeDevices",
        When::Set,
        "use a hostPath volume of type BlockDevice in a privileged container",
    ),
    unless(
        Ability::RecursiveReadOnly,
        rule(
            Scope::Container,
            "volumeMounts[].recursiveReadOnly",
            When::Is("Enabled"),
            "the container runtime cannot do it; use IfPossible, or a newer runtime",
        ),
    ),
    volume("awsElasticBlockStore", DRIVER),
    volume("azureDisk", DRIVER),
    volume("azureFile", DRIVER),
    volume("cephfs", MOUNTED),
    volume("cinder", DRIVER),
    volume("csi", DRIVER),
    volume("ephemeral", "there is nobody who makes volumes on demand; use emptyDir"),
    volume("fc", MOUNTED),
    volume("flexVolume", DRIVER),
    volume("flocker", DRIVER),
    volume("gcePersistentDisk", DRIVER),
    volume("gitRepo", "clone in an init container into an emptyDir volume"),
    volume("glusterfs", MOUNTED),
    volume("image", "copy the files in an init container of that image into an emptyDir volume"),
    volume("iscsi", MOUNTED),
    volume("nfs", MOUNTED),
    volume("photonPersistentDisk", DRIVER),
    volume("portworxVolume", DRIVER),
    volume("quobyte", MOUNTED),
    volume("rbd", MOUNTED),
    volume("scaleIO", DRIVER),
    volume("storageos", DRIVER),
    volume("vsphereVolume", DRIVER),
    rule(Scope::Volume, "emptyDir.medium", When::OtherThan(&["", "Memory"]), "use Memory, or leave it out"),
    rule(
        Scope::Volume,
        "projected.sources[].clusterTrustBundle",
        When::Set,
        "put the certificates into a ConfigMap",
    ),
];
