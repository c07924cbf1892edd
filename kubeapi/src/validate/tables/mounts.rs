//! Mounts of volumes, and block devices, in containers.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, text_or_empty},
    validate::{formats, place::Place},
};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Checks `volumeMounts` of a container.
pub fn mounts(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let volumes = Volumes::around(list, causes);
    let devices = list.sibling("volumeDevices");
    let (device_names, device_paths) = (texts(devices, "/name"), texts(devices, "/devicePath"));
    let mut paths = HashSet::new();
    for (index, mount) in list.list().iter().enumerate() {
        let mount = list.item(index, mount);
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(mount.field("name"), ""));
        }
        let volume = volumes.find(name);
        if volume.is_none() {
            causes.push(Cause::not_found(mount.field("name"), name));
        }
        if path.is_empty() {
            causes.push(Cause::required(mount.field("mountPath"), ""));
        }
        if !paths.insert(path) {
            causes.push(mount.invalid("mountPath", &path.into(), "must be unique"));
        }
        if device_names.contains(name) {
            causes.push(mount.invalid(
                "name",
                &name.into(),
                "must not already exist in volumeDevices",
            ));
        }
        if device_paths.contains(path) {
            let why = "must not already exist as a path in volumeDevices";
            causes.push(mount.invalid("mountPath", &path.into(), why));
        }
        if volume
            .flatten()
            .is_some_and(|volume| volume.get("image").is_some_and(Value::is_object))
        {
            for part in ["subPath", "subPathExpr"] {
                if !mount.text(part).is_empty() {
                    let why = "not allowed in image volume sources";
                    causes.push(mount.invalid(part, &mount.text(part).into(), why));
                }
            }
        }
        inside(list, &mount, causes);
        propagation(list, &mount, causes);
    }
}

/// Checks the paths inside a volume; Kubernetes' messages are about the list.
fn inside(list: &Place<'_>, mount: &Place<'_>, causes: &mut Vec<Cause>) {
    if !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty() {
        let why = "subPathExpr and subPath are mutually exclusive";
        causes.push(mount.invalid("subPathExpr", &mount.text("subPathExpr").into(), why));
    }
    for part in ["subPath", "subPathExpr"] {
        let path = mount.text(part);
        let faults = formats::relative_path(path);
        causes.extend(
            faults
                .iter()
                .map(|why| list.invalid(part, &path.into(), why)),
        );
    }
}

/// Checks how mounts are shared; Kubernetes' messages are about the list.
fn propagation(list: &Place<'_>, mount: &Place<'_>, causes: &mut Vec<Cause>) {
    let how = mount.text("mountPropagation");
    if mount.has("mountPropagation") && !PROPAGATIONS.contains(&how) {
        causes.push(Cause::unsupported(
            list.field("mountPropagation"),
            &how.into(),
            PROPAGATIONS,
        ));
    }
    let privileged = list
        .sibling("securityContext")
        .get("privileged")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if how == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        causes.push(Cause::forbidden(list.field("mountPropagation"), why));
    }
    let field = || list.field("recursiveReadOnly");
    match mount.text("recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.is("readOnly") {
                causes.push(Cause::forbidden(
                    field(),
                    "may only be specified when readOnly is true",
                ));
            }
            if !matches!(how, "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                causes.push(Cause::forbidden(field(), why));
            }
        }
        other => causes.push(Cause::unsupported(field(), &other.into(), RECURSIVE)),
    }
}

/// Checks `volumeDevices` of a container.
pub fn devices(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let volumes = Volumes::around(list, causes);
    let mounts = list.sibling("volumeMounts");
    let (mount_names, mount_paths) = (texts(mounts, "/name"), texts(mounts, "/mountPath"));
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (index, device) in list.list().iter().enumerate() {
        let device = list.item(index, device);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let mut of_name = Vec::new();
        match volumes.find(name) {
            _ if name.is_empty() => causes.push(Cause::required(device.field("name"), "")),
            None => causes.push(Cause::not_found(device.field("name"), name)),
            Some(Some(volume))
                if volume.get("persistentVolumeClaim").is_none()
                    && volume.get("ephemeral").is_none() =>
            {
                of_name.push(
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(_) => {}
        }
        if !name.is_empty() && !names.insert(name) {
            of_name.push("must be unique");
        }
        if mount_names.contains(name) {
            of_name.push("must not already exist in volumeMounts");
        }
        causes.extend(
            of_name
                .iter()
                .map(|why| device.invalid("name", &name.into(), why)),
        );
        let mut of_path = Vec::new();
        if path.is_empty() {
            causes.push(Cause::required(device.field("devicePath"), ""));
        } else if !formats::no_backsteps(path).is_empty() {
            of_path.push("can not contain backsteps ('..')");
        }
        if !paths.insert(path) {
            of_path.push("must be unique");
        }
        if mount_paths.contains(path) {
            of_path.push("must not already exist as a path in volumeMounts");
        }
        causes.extend(
            of_path
                .iter()
                .map(|why| device.invalid("devicePath", &path.into(), why)),
        );
    }
}

/// The texts at `pointer` of the items of a list.
fn texts<'a>(list: &'a Value, pointer: &str) -> HashSet<&'a str> {
    items(list, "")
        .iter()
        .map(|item| text_or_empty(item, pointer))
        .collect()
}

/// The volumes that a container may use.
struct Volumes<'a>(HashMap<&'a str, Option<&'a Value>>);

impl<'a> Volumes<'a> {
    /// Finds them around a container: the valid volumes of the pod, and the claim templates of a stateful set, each of which becomes a
    /// volume. An invalid volume counts as missing, as in Kubernetes.
    fn around(place: &Place<'a>, causes: &[Cause]) -> Self {
        let invalid: HashSet<_> = causes
            .iter()
            .filter_map(|cause| volume_index(&cause.field))
            .collect();
        let volumes = items(place.nearest("spec"), "/volumes").iter().enumerate();
        let valid = volumes.filter(|(index, _)| !invalid.contains(index));
        let claims = items(place.object(), "/spec/volumeClaimTemplates").iter();
        let claims = claims.map(|claim| (text_or_empty(claim, "/metadata/name"), None));
        let of_pod = valid.map(|(_, volume)| (text_or_empty(volume, "/name"), Some(volume)));
        // of two with the same name, that of the pod counts, and of these the first
        Self(claims.chain(of_pod.rev()).collect())
    }

    /// Returns the volume; its inner value is absent for a claim template.
    fn find(&self, name: &str) -> Option<Option<&'a Value>> {
        self.0.get(name).copied()
    }
}

/// Returns the index of the volume that a field is in.
fn volume_index(field: &str) -> Option<usize> {
    field
        .split_once("volumes[")?
        .1
        .split_once(']')?
        .0
        .parse()
        .ok()
}
