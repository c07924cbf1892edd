//! Pods that use more local storage than they may. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#resource-emphemeralstorage-consumption>.

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};

use super::rank::{Counted, Usage};
use crate::edged::quantity;

const STORAGE: &str = "ephemeral-storage";

fn limit(container: &Container) -> Option<&Quantity> {
    let limit = container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?;
    quantity::whole(limit).filter(|bytes| *bytes > 0).map(|_| limit)
}

/// Whether the pod's use of local storage has to be measured at all.
pub(crate) fn has_any(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let sized = |size: &Quantity| quantity::whole(size).is_some_and(|bytes| bytes > 0);
    let volumes = spec.volumes.iter().flatten();
    let mut dirs = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.size_limit.as_ref());
    dirs.any(sized) || spec.containers.iter().any(|container| limit(container).is_some())
}

/// What the pod uses too much of, in the kubelet's words; `None` while it keeps to its limits. `image_disk`: whether containers'
/// layers are on another disk than logs, and so count for the whole pod only.
pub(crate) fn exceeded(pod: &Pod, usage: &Usage, image_disk: bool) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let Some(size) = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref()) else {
            continue;
        };
        let most = quantity::whole(size).filter(|bytes| *bytes > 0);
        let used = usage.volumes.get(&volume.name).map(|disk| disk.bytes);
        if matches!((used, most), (Some(used), Some(most)) if used > most) {
            return Some(format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name, size.0
            ));
        }
    }
    let limits: Vec<_> = spec.containers.iter().filter_map(limit).collect();
    if !limits.is_empty() {
        let most = limits.iter().filter_map(|limit| quantity::whole(limit)).fold(0_i64, i64::saturating_add);
        if usage.disk(Counted::All).bytes > most {
            // one limit is told as it was written
            let told = if let [one] = limits[..] { one.0.clone() } else { quantity::binary(most) };
            return Some(format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {told}. "
            ));
        }
    }
    spec.containers.iter().find_map(|container| {
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
