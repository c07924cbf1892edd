//! Pods that use more local storage than they may. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#resource-emphemeralstorage-consumption>.

use k8s_openapi::{
    api::core::v1::{Container, Pod, Volume},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::quantity;

use super::rank::{Counted, Usage};
use crate::edged::{
    admit, specs,
    volume_source::{VolumeSource, volumes},
};

const STORAGE: &str = "ephemeral-storage";

fn limit(container: &Container) -> Option<&Quantity> {
    let limit = container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?;
    quantity::positive(limit).map(|_| limit)
}

/// The containers that run for as long as the pod does.
fn lasting(pod: &Pod) -> impl Iterator<Item = &Container> {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = inits.filter(|init| specs::is_sidecar(init));
    pod.spec.iter().flat_map(|spec| spec.containers.iter()).chain(sidecars)
}

/// How much the volume may hold, if it has a limit.
fn size_limit(volume: &Volume) -> Option<&Quantity> {
    VolumeSource::of(volume)?.scratch()?.size_limit.as_ref()
}

/// Whether the pod's use of local storage has to be measured at all.
pub(crate) fn has_any(pod: &Pod) -> bool {
    volumes(pod).filter_map(size_limit).any(|size| quantity::positive(size).is_some())
        || specs::containers_of(pod).any(|one| limit(one).is_some())
}

/// What the pod uses too much of, in the kubelet's words; `None` while it keeps to its limits. `image_disk`: whether containers'
/// layers are on another disk than logs, and so count for the whole pod only.
pub(crate) fn exceeded(pod: &Pod, usage: &Usage, image_disk: bool) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let Some(size) = size_limit(volume) else { continue };
        let used = usage.volumes.get(&volume.name).map(|disk| disk.bytes);
        if matches!((used, quantity::positive(size)), (Some(used), Some(most)) if used > most) {
            return Some(format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name, size.0
            ));
        }
    }
    let most = admit::limits_of(pod).get(STORAGE).copied().filter(|most| *most > 0);
    if let Some(most) = most.filter(|most| usage.disk(Counted::All).bytes > *most) {
        // one limit is told as it was written
        let limits: Vec<_> = specs::containers_of(pod).filter_map(limit).collect();
        let told = if let [one] = limits[..] { one.0.clone() } else { quantity::binary(most) };
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {told}. "
        ));
    }
    lasting(pod).find_map(|container| {
        let limit = limit(container)?;
        let used = usage.containers.get(&container.name)?;
        let used = if image_disk { used.logs } else { used.logs.and(used.layer) };
        (used.bytes > quantity::whole(limit)?).then(|| {
            format!("Container {} exceeded its local ephemeral storage limit {:?}. ", container.name, limit.0)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::edged::pressure::rank::{ContainerUsage, Disk};

    fn disk(bytes: i64) -> Disk {
        Disk { bytes, inodes: 1 }
    }

    #[test]
    fn limits_of_volumes_pods_and_containers() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "free", "emptyDir": {}}],
        "containers": [
            {"name": "a", "resources": {"limits": {"ephemeral-storage": "1Mi"}}},
            {"name": "b", "resources": {"limits": {"ephemeral-storage": "3Mi"}}},
        ]}}))
        .unwrap();
        assert!(has_any(&pod));
        let check = |volume: i64, a: (i64, i64), b: i64, image_disk: bool| {
            let container =
                |(layer, logs)| ContainerUsage { memory: 0, layer: disk(layer), logs: disk(logs) };
            let usage = Usage {
                containers: [("a".to_owned(), container(a)), ("b".to_owned(), container((b, 0)))].into(),
                volumes: [("scratch".to_owned(), disk(volume))].into(),
                ..Usage::default()
            };
            exceeded(&pod, &usage, image_disk).unwrap_or_default()
        };
        let mib = 1 << 20;
        assert_eq!(check(mib, (0, mib), 0, false), "");
        assert_eq!(
            check(mib + 1, (0, 0), 0, false),
            "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". "
        );
        assert_eq!(
            check(mib, (0, mib), 2 * mib + 1, false),
            "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
        );
        let text = "Container a exceeded its local ephemeral storage limit \"1Mi\". ";
        assert_eq!(check(0, (1, mib), 0, false), text);
        assert_eq!(check(0, (1, mib), 0, true), "", "layers are elsewhere");
        assert_eq!(check(0, (0, mib + 1), 0, true), text);
    }

    #[test]
    fn sidecars_are_limited_and_make_room() {
        let limited = |name: &str, most: &str, restart: Option<&str>| json!({"name": name, "restartPolicy": restart, "resources": {"limits": {"ephemeral-storage": most}}});
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [limited("setup", "1Ki", None), limited("proxy", "2Mi", Some("Always"))],
            "containers": [limited("main", "3Mi", None)],
        }}))
        .unwrap();
        let check = |setup: i64, proxy: i64, main: i64| {
            let used = [("setup", setup), ("proxy", proxy), ("main", main)].map(|(name, mib)| {
                (name.to_owned(), ContainerUsage { memory: 0, layer: disk(mib << 20), logs: disk(0) })
            });
            let usage = Usage { containers: used.into(), ..Usage::default() };
            exceeded(&pod, &usage, false).unwrap_or_default()
        };
        assert_eq!(check(0, 2, 3), "");
        assert_eq!(check(0, 3, 1), "Container proxy exceeded its local ephemeral storage limit \"2Mi\". ");
        assert_eq!(check(1, 2, 1), "", "what has set up has ended");
        assert_eq!(
            check(0, 2, 4),
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "
        );
    }

    #[test]
    fn most_pods_have_none() {
        for spec in [
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "0"}}]}),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert!(!has_any(&pod));
            assert_eq!(exceeded(&pod, &Usage::default(), false), None);
        }
    }
}
