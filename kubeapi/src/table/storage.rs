//! Rows of volumes, claims, classes and drivers.

use serde_json::{Map, Value};

use super::{
    cells::{name, since_creation, text_or},
    printer::{AGE, NAME, Printer, boolean, default_column, integer, wide},
};
use crate::object::{is_deleting, items, text_or_empty};

pub(super) const VOLUME: Printer = Printer {
    columns: &[
        NAME,
        default_column("Capacity"),
        default_column("Access Modes"),
        default_column("Reclaim Policy"),
        default_column("Status"),
        default_column("Claim"),
        default_column("StorageClass"),
        default_column("VolumeAttributesClass"),
        default_column("Reason"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: |object, now| {
        let of = |field| text_or_empty(object, field);
        let claim = match of("/spec/claimRef/name") {
            "" => String::new(),
            name => format!("{}/{name}", of("/spec/claimRef/namespace")),
        };
        vec![
            name(object),
            of("/spec/capacity/storage").into(),
            modes(items(object, "/spec/accessModes")).into(),
            of("/spec/persistentVolumeReclaimPolicy").into(),
            phase(object).into(),
            claim.into(),
            of("/spec/storageClassName").into(),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
            of("/status/reason").into(),
            since_creation(object, now),
            text_or(object, "/spec/volumeMode", "<unset>").into(),
        ]
    },
};

pub(super) const CLAIM: Printer = Printer {
    columns: &[
        NAME,
        default_column("Status"),
        default_column("Volume"),
        default_column("Capacity"),
        default_column("Access Modes"),
        default_column("StorageClass"),
        default_column("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: |object, now| {
        let of = |field| text_or_empty(object, field);
        let volume = of("/spec/volumeName");
        let (capacity, granted) = match volume {
            "" => ("", String::new()),
            _ => (
                of("/status/capacity/storage"),
                modes(items(object, "/status/accessModes")),
            ),
        };
        vec![
            name(object),
            phase(object).into(),
            volume.into(),
            capacity.into(),
            granted.into(),
            of("/spec/storageClassName").into(),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
            since_creation(object, now),
            text_or(object, "/spec/volumeMode", "<unset>").into(),
        ]
    },
};

pub(super) const CLASS: Printer = Printer {
    columns: &[
        NAME,
        default_column("Provisioner"),
        default_column("ReclaimPolicy"),
        default_column("VolumeBindingMode"),
        default_column("AllowVolumeExpansion"),
        AGE,
    ],
    cells: |object, now| {
        let default = text_or_empty(
            object,
            "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
        );
        let name = text_or_empty(object, "/metadata/name");
        vec![
            if default == "true" {
                format!("{name} (default)")
            } else {
                name.to_owned()
            }
            .into(),
            text_or_empty(object, "/provisioner").into(),
            text_or_empty(object, "/reclaimPolicy").into(),
            text_or_empty(object, "/volumeBindingMode").into(),
            flag(object, "/allowVolumeExpansion"),
            since_creation(object, now),
        ]
    },
};

pub(super) const ATTRIBUTES_CLASS: Printer = Printer {
    columns: &[NAME, default_column("DriverName"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            text_or_empty(object, "/driverName").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        default_column("Attacher"),
        default_column("PV"),
        default_column("Node"),
        boolean("Attached"),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            text_or_empty(object, "/spec/attacher").into(),
            text_or_empty(object, "/spec/source/persistentVolumeName").into(),
            text_or_empty(object, "/spec/nodeName").into(),
            flag(object, "/status/attached"),
            since_creation(object, now),
        ]
    },
};

pub(super) const DRIVER: Printer = Printer {
    columns: &[
        NAME,
        boolean("AttachRequired"),
        boolean("PodInfoOnMount"),
        boolean("StorageCapacity"),
        default_column("TokenRequests"),
        boolean("RequiresRepublish"),
        default_column("Modes"),
        AGE,
    ],
    cells: |object, now| {
        let list = |texts: Vec<&str>, none: &str| {
            if texts.is_empty() {
                none.to_owned()
            } else {
                texts.join(",")
            }
        };
        let requests = items(object, "/spec/tokenRequests").iter();
        let audiences = requests
            .map(|request| text_or_empty(request, "/audience"))
            .collect();
        let modes = items(object, "/spec/volumeLifecycleModes")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        vec![
            name(object),
            flag(object, "/spec/attachRequired"),
            flag(object, "/spec/podInfoOnMount"),
            flag(object, "/spec/storageCapacity"),
            list(audiences, "<unset>").into(),
            flag(object, "/spec/requiresRepublish"),
            list(modes, "<none>").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const NODE: Printer = Printer {
    columns: &[NAME, integer("Drivers"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            items(object, "/spec/drivers").len().into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const QUOTA: Printer = Printer {
    columns: &[
        NAME,
        default_column("Request"),
        default_column("Limit"),
        AGE,
    ],
    cells: |object, now| {
        let hard = object.pointer("/status/hard").and_then(Value::as_object);
        let used = |resource: &str| {
            let used = object
                .pointer("/status/used")
                .and_then(|used| used.get(resource));
            used.and_then(Value::as_str).unwrap_or("0").to_owned()
        };
        let mut columns = [Vec::new(), Vec::new()];
        let mut resources: Vec<_> = hard.into_iter().flat_map(Map::iter).collect();
        resources.sort_by_key(|(resource, _)| *resource);
        for (resource, amount) in resources {
            let text = format!(
                "{resource}: {}/{}",
                used(resource),
                amount.as_str().unwrap_or_default()
            );
            let column = usize::from(resource.starts_with("limits."));
            if let Some(column) = columns.get_mut(column) {
                column.push(text);
            }
        }
        let [requests, limits] = columns.map(|texts| texts.join(", "));
        vec![
            name(object),
            requests.into(),
            limits.into(),
            since_creation(object, now),
        ]
    },
};

fn phase(object: &Value) -> &str {
    if is_deleting(object) {
        "Terminating"
    } else {
        text_or_empty(object, "/status/phase")
    }
}

fn modes(modes: &[Value]) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => Some("RWO"),
        Some("ReadOnlyMany") => Some("ROX"),
        Some("ReadWriteMany") => Some("RWX"),
        Some("ReadWriteOncePod") => Some("RWOP"),
        _ => None,
    };
    let short: Vec<_> = modes.iter().filter_map(short).collect();
    short.join(",")
}

fn flag(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or(false)
        .into()
}
