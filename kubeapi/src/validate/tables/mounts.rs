//! Mounts of volumes, and block devices, in containers.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, text_or_empty},
    validate::{formats, place::Place},
};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Checks `volumeMounts` of a container.
pub(super) fn mounts(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let volumes = Volumes::around(list, causes);
    let devices = list.sibling("volumeDevices").as_array().map_or(&[][..], Vec::as_slice);
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
        for device in devices {
            if text_or_empty(device, "/name") == name {
                causes.push(mount.invalid("name", &name.into(), "must not already exist in volumeDevices"));
            }
            if text_or_empty(device, "/devicePath") == path {
                let why = "must not already exist as a path in volumeDevices";
                causes.push(mount.invalid("mountPath", &path.into(), why));
            }
        }
        if volume.flatten().is_some_and(|volume| volume.get("image").is_some_and(Value::is_object)) {
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
        causes.extend(faults.iter().map(|why| list.invalid(part, &path.into(), why)));
    }
}

/// Checks how mounts are shared; Kubernetes' messages are about the list.
fn propagation(list: &Place<'_>, mount: &Place<'_>, causes: &mut Vec<Cause>) {
    let how = mount.text("mountPropagation");
    if mount.has("mountPropagation") && !PROPAGATIONS.contains(&how) {
        causes.push(Cause::unsupported(list.field("mountPropagation"), &how.into(), PROPAGATIONS));
    }
    let privileged =
        list.sibling("securityContext").get("privileged").and_then(Value::as_bool).unwrap_or(false);
    if how == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        causes.push(Cause::forbidden(list.field("mountPropagation"), why));
    }
    let field = || list.field("recursiveReadOnly");
    match mount.text("recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.is("readOnly") {
                causes.push(Cause::forbidden(field(), "may only be specified when readOnly is true"));
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
pub(super) fn devices(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let volumes = Volumes::around(list, causes);
    let mounts = list.sibling("volumeMounts").as_array().map_or(&[][..], Vec::as_slice);
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (index, device) in list.list().iter().enumerate() {
        let device = list.item(index, device);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let mut of_name = Vec::new();
        match volumes.find(name) {
            _ if name.is_empty() => causes.push(Cause::required(device.field("name"), "")),
            None => causes.push(Cause::not_found(device.field("name"), name)),
            Some(Some(volume))
                if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() =>
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
        if mounts.iter().any(|mount| text_or_empty(mount, "/name") == name) {
            of_name.push("must not already exist in volumeMounts");
        }
        causes.extend(of_name.iter().map(|why| device.invalid("name", &name.into(), why)));
        let mut of_path = Vec::new();
        if path.is_empty() {
            causes.push(Cause::required(device.field("devicePath"), ""));
        } else if !formats::no_backsteps(path).is_empty() {
            of_path.push("can not contain backsteps ('..')");
        }
        if !paths.insert(path) {
            of_path.push("must be unique");
        }
        if mounts.iter().any(|mount| text_or_empty(mount, "/mountPath") == path) {
            of_path.push("must not already exist as a path in volumeMounts");
        }
        causes.extend(of_path.iter().map(|why| device.invalid("devicePath", &path.into(), why)));
    }
}

/// The volumes that a container may use.
struct Volumes<'a> {
    /// The valid volumes of the pod.
    of_pod: Vec<&'a Value>,
    /// The claim templates of a stateful set, each of which becomes a volume.
    claims: &'a [Value],
}

impl<'a> Volumes<'a> {
    /// Finds them around a container. An invalid volume counts as missing, as in Kubernetes.
    fn around(place: &Place<'a>, causes: &[Cause]) -> Self {
        let spec = place.nearest("spec");
        let is_valid = |index: usize| {
            let part = format!("volumes[{index}]");
            !causes.iter().any(|cause| cause.field.contains(&part))
        };
        let of_pod = items(spec, "/volumes").iter().enumerate().filter(|(index, _)| is_valid(*index));
        Self {
            of_pod: of_pod.map(|(_, volume)| volume).collect(),
            claims: items(place.object(), "/spec/volumeClaimTemplates"),
        }
    }

    /// Returns the volume; its inner value is absent for a claim template.
    fn find(&self, name: &str) -> Option<Option<&'a Value>> {
        let of_pod = self.of_pod.iter().find(|volume| text_or_empty(volume, "/name") == name);
        let is_claim = |claim: &&Value| text_or_empty(claim, "/metadata/name") == name;
        of_pod.map(|volume| Some(*volume)).or_else(|| self.claims.iter().find(is_claim).map(|_| None))
    }
}
