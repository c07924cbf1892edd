//! Persistent volumes.

use serde_json::{Value, json};

use kubeapi::{
    cause::Cause,
    object::{names, quantity::Quantity},
    validate::{
        change::{Change, Kept, change, same},
        engine::{
            Member, Row,
            Rule::{
                Absent, Check, Format, FormatIfSet, Name, OneOf, Present, Required, Table,
                Union as OneMember,
            },
            Union, member, rename, row,
        },
        formats,
        place::Place,
    },
};

use kubeapi::validate::tables::claim;
use kubeapi::validate::tables::{affinity, volume};

/// A persistent volume.
pub(super) static VOLUME: &[Row] = &[row("spec", Table(SPEC))];

static SPEC: &[Row] = &[
    row("accessModes", Required("")),
    row("accessModes", Check(claim::access_modes)),
    row("capacity", Required("")),
    row("capacity", Check(capacity)),
    row(
        "persistentVolumeReclaimPolicy",
        OneOf(&["Delete", "Recycle", "Retain"]),
    ),
    row(
        "nodeAffinity?.required",
        Present("must specify required node constraints"),
    ),
    row("nodeAffinity?.required?", Table(affinity::NODE_SELECTOR)),
    row("", OneMember(&SOURCE)),
    row("", Check(recycled_root)),
    row("storageClassName", Format(names::dns_subdomain)),
    row("volumeMode", OneOf(&["Block", "Filesystem"])),
    row("volumeAttributesClassName", FormatIfSet(attributes_class)),
    row("", Check(attributes_need_driver)),
];

/// The volume of a `VolumeAttachment`.
pub(super) static INLINE: &[Row] = &[
    row("claimRef", Absent(INLINE_WHY)),
    row("capacity", Absent(INLINE_WHY)),
    row(
        "csi",
        Present("has to be specified in the context of inline volumes"),
    ),
    row("accessModes", Required("")),
    row("accessModes", Check(claim::access_modes)),
    row("nodeAffinity", Absent(INLINE_WHY)),
    row("", OneMember(&SOURCE)),
    row("storageClassName", Absent(INLINE_WHY)),
];
const INLINE_WHY: &str = "may not be specified in the context of inline volumes";

static SOURCE: Union = Union {
    members: MEMBERS,
    many: volume::MANY,
    none: volume::NONE,
};
static MEMBERS: &[Member] = &[
    member("hostPath", volume::HOST_PATH),
    rename(
        "gcePersistentDisk",
        ["gcePersistentDisk", "persistentDisk"],
        volume::GCE,
    ),
    member("awsElasticBlockStore", volume::AWS),
    member(
        "glusterfs",
        &[
            row("", Table(volume::GLUSTER)),
            row("endpointsNamespace", FormatIfSet(endpoints_namespace)),
        ],
    ),
    member("flocker", volume::FLOCKER),
    member("nfs", volume::NFS),
    member("rbd", volume::RBD),
    member("quobyte", volume::QUOBYTE),
    rename("cephfs", ["cephFS", "cephfs"], volume::CEPHFS),
    member(
        "iscsi",
        &[
            row("", Table(volume::ISCSI)),
            row("secretRef?.name", Required("")),
        ],
    ),
    member(
        "cinder",
        &[
            row("volumeID", Required("")),
            row("secretRef?.name", Required("")),
            row("secretRef?.namespace", Required("")),
        ],
    ),
    member("fc", volume::FC),
    member("flexVolume", volume::FLEX),
    member(
        "azureFile",
        &[
            row("", Table(volume::AZURE_FILE)),
            row("secretNamespace", FormatIfSet(not_empty)),
        ],
    ),
    member("vsphereVolume", volume::VSPHERE),
    member("photonPersistentDisk", volume::PHOTON),
    member("portworxVolume", volume::PORTWORX),
    member("azureDisk", volume::AZURE_DISK),
    member("scaleIO", volume::SCALE_IO),
    member(
        "local",
        &[
            row("path", Required("")),
            row("path", Format(formats::no_backsteps)),
            row("", Check(has_affinity)),
        ],
    ),
    member(
        "storageos",
        &[
            row("", Table(volume::STORAGE_OS)),
            row("secretRef?.name", Required("")),
            row("secretRef?.namespace", Required("")),
        ],
    ),
    member("csi", CSI),
];
static CSI: &[Row] = &[
    row("", Table(volume::DRIVER)),
    row("volumeHandle", Required("")),
    row("controllerPublishSecretRef?", Table(SECRET)),
    row("controllerExpandSecretRef?", Table(SECRET)),
    row("nodePublishSecretRef?", Table(SECRET)),
    row("nodeExpandSecretRef?", Table(SECRET)),
];
static SECRET: &[Row] = &[
    row("name", Name(names::dns_subdomain)),
    row("namespace", Name(names::dns_label)),
];

/// What of a volume may not change.
pub(super) static CHANGES: &[Change] = &[
    change("spec", Kept::Check(source_stays)),
    change("spec.volumeMode", Kept::Renamed("volumeMode")),
    change("spec.nodeAffinity", Kept::Check(affinity_stays)),
];

fn capacity(capacity: &Place<'_>, causes: &mut Vec<Cause>) {
    if !capacity.has("storage") || capacity.entries().count() > 1 {
        causes.push(Cause::unsupported(
            capacity.path(),
            capacity.value,
            &["storage"],
        ));
    }
    for (name, amount) in capacity.entries() {
        let parsed = amount.as_str().and_then(Quantity::parse);
        let field = format!("{}[{name}]", capacity.path());
        if parsed.is_some_and(Quantity::is_negative) {
            causes.push(Cause::invalid(
                field.as_str(),
                amount,
                "must be a valid resource quantity",
            ));
        }
        if parsed.is_some_and(|amount| !amount.is_positive()) {
            causes.push(Cause::invalid(field, amount, "must be greater than zero"));
        }
    }
}

fn recycled_root(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "persistentVolumeReclaimPolicy";
    let path = spec.pointer("/hostPath/path").as_str().unwrap_or_default();
    let is_root = path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "."));
    if is_root && spec.text(FIELD) == "Recycle" {
        causes.push(Cause::forbidden(
            spec.field(FIELD),
            "may not be 'recycle' for a hostPath mount of '/'",
        ));
    }
}

fn has_affinity(local: &Place<'_>, causes: &mut Vec<Cause>) {
    if local.sibling("nodeAffinity").is_null() {
        let field = local.path().replace("local", "nodeAffinity");
        causes.push(Cause::required(
            field,
            "Local volume requires node affinity",
        ));
    }
}

fn attributes_class(name: &str) -> Vec<String> {
    if name.is_empty() {
        vec!["an empty string is disallowed".to_owned()]
    } else {
        names::dns_subdomain(name)
    }
}

fn attributes_need_driver(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.has("volumeAttributesClassName") && !spec.has("csi") {
        causes.push(Cause::required(
            spec.field("csi"),
            "has to be specified when using volumeAttributesClassName",
        ));
    }
}

fn endpoints_namespace(name: &str) -> Vec<String> {
    if name.is_empty() {
        vec!["if the endpointnamespace is set, it must be a valid namespace name".to_owned()]
    } else {
        names::dns_label(name)
    }
}

fn not_empty(text: &str) -> Vec<String> {
    text.is_empty()
        .then(|| "must not be empty".to_owned())
        .into_iter()
        .collect()
}

/// Checks that the source of a volume stays; a driver may get a secret for growing it.
fn source_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const SECRET: &str = "controllerExpandSecretRef";
    let sources = |spec: &Value| {
        let of =
            |member: &Member| Some((member.name().to_owned(), spec.get(member.name())?.clone()));
        Value::Object(MEMBERS.iter().filter_map(of).collect())
    };
    let (before, mut after) = (sources(old), sources(new));
    if before
        .pointer("/csi")
        .is_some_and(|csi| csi.get(SECRET).is_none())
        && let Some(Value::Object(csi)) = after.get_mut("csi")
    {
        csi.shift_remove(SECRET);
    }
    if !same(&before, &after) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
}

fn affinity_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const RENAMED: [(&str, &str); 5] = [
        (
            "failure-domain.beta.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
        ),
        (
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        ),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        (
            "beta.kubernetes.io/instance-type",
            "node.kubernetes.io/instance-type",
        ),
    ];
    let newest = |affinity: &Value| {
        let mut text = affinity.to_string();
        for (old, new) in RENAMED {
            text = text.replace(&json!(old).to_string(), &json!(new).to_string());
        }
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    if !old.is_null() && !same(&newest(old), &newest(new)) {
        let why = "field is immutable, except for updating from beta label to GA";
        causes.push(Cause::invalid("nodeAffinity", new, why));
    }
}
