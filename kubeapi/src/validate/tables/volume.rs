//! The sources of volumes, which pods and persistent volumes have in common.

use serde_json::Value;

use crate::{
    cause::Cause,
    object::names,
    validate::{
        engine::{
            Member, Row,
            Rule::{
                self, Always, Check, Choice, Format, Limited, MaxBytes, Name, OneOf, Present,
                Required, Table, Union as OneMember,
            },
            Union, member, rename, row,
        },
        formats,
        place::Place,
    },
};

use super::{
    claim, env,
    files::{KEY_TO_PATH, MODE},
    projected,
};

const PARTITION: Rule = Limited(0, 255, "must be between 1 and 255, inclusive");
const LUN: Rule = Limited(0, 255, "must be between 0 and 255, inclusive");
/// The fault of a volume with several sources.
pub const MANY: &str = "may not specify more than 1 volume type";
/// The fault of a volume without a source.
pub const NONE: &str = "must specify a volume type";

/// `volumes[*]` of a pod.
pub static VOLUME: &[Row] = &[
    row("", OneMember(&SOURCE)),
    row("", Check(iscsi_name)),
    row("name", Name(names::dns_label)),
];

static SOURCE: Union = Union {
    members: MEMBERS,
    many: MANY,
    none: NONE,
};
static MEMBERS: &[Member] = &[
    member("emptyDir", &[row("sizeLimit", Check(size_limit))]),
    member("hostPath", HOST_PATH),
    member(
        "gitRepo",
        &[
            row("repository", Required("")),
            row("directory", Format(formats::relative_path)),
        ],
    ),
    rename(
        "gcePersistentDisk",
        ["gcePersistentDisk", "persistentDisk"],
        GCE,
    ),
    member("awsElasticBlockStore", AWS),
    member(
        "secret",
        &[
            row("secretName", Required("")),
            row("defaultMode", MODE),
            row("items[*]", Table(KEY_TO_PATH)),
        ],
    ),
    member("nfs", NFS),
    member("iscsi", ISCSI),
    member("glusterfs", GLUSTER),
    member("flocker", FLOCKER),
    member("persistentVolumeClaim", &[row("claimName", Required(""))]),
    member("rbd", RBD),
    member(
        "cinder",
        &[
            row("volumeID", Required("")),
            row("secretRef?.name", Required("")),
        ],
    ),
    rename("cephfs", ["cephFS", "cephfs"], CEPHFS),
    member("quobyte", QUOBYTE),
    rename(
        "downwardAPI",
        ["downwarAPI", "downwardAPI"],
        &[row("defaultMode", MODE), row("items>[-]", Table(env::FILE))],
    ),
    member("fc", FC),
    member("flexVolume", FLEX),
    member(
        "configMap",
        &[
            row("name", Required("")),
            row("defaultMode", MODE),
            row("items[*]", Table(KEY_TO_PATH)),
        ],
    ),
    member("azureFile", AZURE_FILE),
    member("vsphereVolume", VSPHERE),
    member("photonPersistentDisk", PHOTON),
    member("portworxVolume", PORTWORX),
    member("azureDisk", AZURE_DISK),
    member(
        "storageos",
        &[
            row("", Table(STORAGE_OS)),
            row("secretRef?.name", Required("")),
        ],
    ),
    member("projected", projected::PROJECTED),
    member("scaleIO", SCALE_IO),
    member(
        "csi",
        &[
            row("", Table(DRIVER)),
            row("nodePublishSecretRef?.name", Name(names::dns_subdomain)),
        ],
    ),
    member(
        "ephemeral",
        &[
            row("volumeClaimTemplate", Present("")),
            row(
                "volumeClaimTemplate?.metadata.annotations",
                Check(crate::validate::metadata::annotations),
            ),
            row("volumeClaimTemplate?.metadata.labels", Rule::Labels),
            row("volumeClaimTemplate?.metadata", Check(only_labels)),
            row("volumeClaimTemplate?.spec", Table(claim::SPEC)),
        ],
    ),
    member(
        "image",
        &[
            row("reference", Check(image_reference)),
            row("pullPolicy", Check(pull_policy)),
        ],
    ),
];

/// `hostPath`.
pub static HOST_PATH: &[Row] = &[
    row("path", Required("")),
    row("path", Format(formats::no_backsteps)),
    row(
        "type",
        OneOf(&[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ]),
    ),
];
/// The source of a volume: a persistent disk of Google.
pub static GCE: &[Row] = &[row("pdName", Required("")), row("partition", PARTITION)];
/// The source of a volume: an EBS volume of AWS.
pub static AWS: &[Row] = &[row("volumeID", Required("")), row("partition", PARTITION)];
/// The source of a volume: NFS.
pub static NFS: &[Row] = &[
    row("server", Required("")),
    row("path", Required("")),
    row("path", Always(absolute_path)),
];
/// The source of a volume: GlusterFS.
pub static GLUSTER: &[Row] = &[row("endpoints", Required("")), row("path", Required(""))];
/// The source of a volume: Flocker.
pub static FLOCKER: &[Row] = &[row("", Check(flocker))];
/// The source of a volume: RBD.
pub static RBD: &[Row] = &[row("monitors", Required("")), row("image", Required(""))];
/// The source of a volume: CephFS.
pub static CEPHFS: &[Row] = &[row("monitors", Required(""))];
/// The source of a volume: Fibre Channel.
pub static FC: &[Row] = &[row("", Check(fibre_channel))];
/// The source of a volume: FlexVolume.
pub static FLEX: &[Row] = &[
    row("driver", Required("")),
    row("options", Check(reserved_options)),
];
/// The source of a volume: vSphere.
pub static VSPHERE: &[Row] = &[row("volumePath", Required(""))];
/// The source of a volume: Photon.
pub static PHOTON: &[Row] = &[row("pdID", Required(""))];
/// The source of a volume: Portworx.
pub static PORTWORX: &[Row] = &[row("volumeID", Required(""))];
/// The source of a volume: Azure Files.
pub static AZURE_FILE: &[Row] = &[
    row("secretName", Required("")),
    row("shareName", Required("")),
];
/// The source of a volume: Azure disks.
pub static AZURE_DISK: &[Row] = &[
    row("diskName", Required("")),
    row("diskURI", Required("")),
    row("cachingMode", OneOf(&["None", "ReadOnly", "ReadWrite"])),
    row("kind", OneOf(&["Dedicated", "Managed", "Shared"])),
    row("", Check(disk_uri)),
];
/// The source of a volume: ScaleIO.
pub static SCALE_IO: &[Row] = &[
    row("gateway", Required("")),
    row("system", Required("")),
    row("volumeName", Required("")),
];
/// The source of a volume: StorageOS.
pub static STORAGE_OS: &[Row] = &[
    row("volumeName", Name(names::dns_label)),
    row("volumeNamespace", Format(names::dns_label)),
];
/// The source of a volume: Quobyte.
pub static QUOBYTE: &[Row] = &[row("", Check(quobyte)), row("volume", Required(""))];
/// The source of a volume: iSCSI.
pub static ISCSI: &[Row] = &[
    row("targetPortal", Required("")),
    row("iqn", Name(iqn)),
    row("lun", LUN),
    row("", Check(chap_secret)),
    row("initiatorName>initiatorname", Check(initiator)),
];
/// The name of a CSI driver.
pub static DRIVER: &[Row] = &[
    row("driver", Name(formats::driver)),
    row("driver", MaxBytes(63)),
];

fn size_limit(limit: &Place<'_>, causes: &mut Vec<Cause>) {
    let amount = limit
        .value
        .as_str()
        .and_then(crate::object::quantity::Quantity::parse);
    if amount.is_some_and(crate::object::quantity::Quantity::is_negative) {
        causes.push(Cause::forbidden(
            limit.path(),
            "SizeLimit field must be a valid resource quantity",
        ));
    }
}

fn absolute_path(path: &str) -> Vec<String> {
    let is_relative = !path.starts_with('/');
    is_relative
        .then(|| "must be an absolute path".to_owned())
        .into_iter()
        .collect()
}

fn flocker(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        causes.push(Cause::required(
            source.path(),
            "one of datasetName and datasetUUID is required",
        ));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let why = "datasetName and datasetUUID can not be specified simultaneously";
        causes.push(Cause::invalid(source.path(), &"resource".into(), why));
    }
    if name.contains('/') {
        causes.push(source.invalid("datasetName", &name.into(), "must not contain '/'"));
    }
}

fn fibre_channel(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let (targets, ids) = (source.items("targetWWNs"), source.items("wwids"));
    if targets.is_empty() && ids.is_empty() {
        let why = "must specify either targetWWNs or wwids, but not both";
        causes.push(Cause::required(source.field("targetWWNs"), why));
    }
    if !targets.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        causes.push(source.invalid("targetWWNs", source.get("targetWWNs"), why));
    }
    match source.number("lun") {
        _ if targets.is_empty() => {}
        None => causes.push(Cause::required(
            source.field("lun"),
            "lun is required if targetWWNs is specified",
        )),
        Some(lun) if !(0..=255).contains(&lun) => {
            causes.push(source.invalid("lun", &lun.into(), "must be between 0 and 255, inclusive"));
        }
        Some(_) => {}
    }
}

fn reserved_options(options: &Place<'_>, causes: &mut Vec<Cause>) {
    for (key, _) in options.entries() {
        let domain = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let field = format!("{}[{key}]", options.path());
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            causes.push(Cause::invalid(field, &key.into(), why));
        }
    }
}

fn disk_uri(disk: &Place<'_>, causes: &mut Vec<Cause>) {
    let uri = disk.text("diskURI");
    let (start, form) = match disk.text("kind") {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        ),
    };
    if !uri.starts_with(start) {
        causes.push(Cause::unsupported(
            disk.field("diskURI"),
            &uri.into(),
            &[form],
        ));
    }
}

fn quobyte(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let why = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        return causes.push(Cause::required(source.field("registry"), why));
    }
    if source.text("tenant").len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        return causes.push(Cause::required(source.field("tenant"), why));
    }
    let wrong = registry
        .split(',')
        .filter(|pair| pair.rsplit_once(':').is_none());
    causes.extend(wrong.map(|_| source.invalid("registry", &registry.into(), why)));
}

/// The faults of the name of an iSCSI target or initiator.
fn iqn(name: &str) -> Vec<String> {
    let why = match name.get(..3) {
        Some("iqn") if is_iqn(name) => return Vec::new(),
        Some("eui") if is_hexadecimal(name, "eui.", 16) => return Vec::new(),
        Some("naa") if is_hexadecimal(name, "naa.", 32) => return Vec::new(),
        Some("iqn" | "eui" | "naa") => "must be valid format",
        _ => "must be valid format starting with iqn, eui, or naa",
    };
    vec![why.to_owned()]
}

fn is_hexadecimal(name: &str, prefix: &str, length: usize) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == length && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether the name is such as `iqn.2001-04.com.example:storage`.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name
        .strip_prefix("iqn.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let is_date = date.len() == 7
        && date.bytes().enumerate().all(|(at, byte)| {
            if at == 4 {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    let (host, unit) = rest.split_once(':').unwrap_or((rest, ""));
    is_date
        && !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !unit.contains(|char: char| char.is_whitespace() || ",;*&$|^".contains(char))
        && rest.contains(':')
        && !unit.is_empty()
}

fn chap_secret(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let needs_secret = source.is("chapAuthDiscovery") || source.is("chapAuthSession");
    if needs_secret && !source.has("secretRef") {
        causes.push(Cause::required(source.field("secretRef"), ""));
    }
}

fn initiator(name: &Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(text) = name.value.as_str() {
        causes.extend(iqn(text).iter().map(|why| name.refusal(why)));
    }
}

fn iscsi_name(volume: &Place<'_>, causes: &mut Vec<Cause>) {
    let source = volume.child("iscsi", "iscsi");
    let name = volume.text("name");
    if source.has("initiatorName") && name.len() + 1 + source.text("targetPortal").len() > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        causes.push(volume.invalid("name", &name.into(), why));
    }
}

/// Checks the metadata of a claim's template.
fn only_labels(metadata: &Place<'_>, causes: &mut Vec<Cause>) {
    let others = metadata.entries().filter(|(key, value)| {
        !matches!(*key, "labels" | "annotations") && !matches!(value, Value::Null)
    });
    causes.extend(others.map(|(key, _)| Cause::forbidden(metadata.field(key), "cannot be set")));
}

fn image_reference(reference: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_pod = reference.nearest("template").is_null();
    if is_pod && reference.value.as_str().is_none_or(str::is_empty) {
        causes.push(Cause::required(reference.path(), ""));
    }
}

fn pull_policy(policy: &Place<'_>, causes: &mut Vec<Cause>) {
    if !policy.value.is_null() {
        crate::validate::engine::check(
            &[row("", Choice(&["Always", "IfNotPresent", "Never"]))],
            policy,
            causes,
        );
    }
}
