//! Finds pods that use more local storage than their limits. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#resource-emphemeralstorage-consumption>.

use k8s_openapi::{
    api::core::v1::{Container, Pod, Volume},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::object::quantity;

use super::rank::{DiskScope, PodUsage};
use crate::{
    admit, specs,
    volume_source::{VolumeSource, volumes},
};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

fn limit(container: &Container) -> Option<&Quantity> {
    let limit = container
        .resources
        .as_ref()?
        .limits
        .as_ref()?
        .get(EPHEMERAL_STORAGE)?;
    quantity::positive(limit).map(|_| limit)
}

/// Returns the containers that run as long as the pod: main containers and sidecars.
fn long_running(pod: &Pod) -> impl Iterator<Item = &Container> {
    let inits = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = inits.filter(|init| specs::is_sidecar(init));
    pod.spec
        .iter()
        .flat_map(|spec| spec.containers.iter())
        .chain(sidecars)
}

/// Returns the size limit of an `emptyDir` volume.
fn size_limit(volume: &Volume) -> Option<&Quantity> {
    VolumeSource::of(volume)?.empty_dir()?.size_limit.as_ref()
}

/// Reports whether the pod has any limit of local storage, so that its usage has to be measured.
pub(crate) fn has_storage_limits(pod: &Pod) -> bool {
    volumes(pod)
        .filter_map(size_limit)
        .any(|size| quantity::positive(size).is_some())
        || specs::containers_of(pod).any(|one| limit(one).is_some())
}

/// Returns which limit the pod exceeds, in the kubelet's words. `image_disk` says that containers' writable layers are on another
/// disk than logs; then they count only for the pod as a whole.
pub(crate) fn exceeded_limit(pod: &Pod, usage: &PodUsage, image_disk: bool) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let Some(size) = size_limit(volume) else {
            continue;
        };
        let used = usage.volumes.get(&volume.name).map(|disk| disk.bytes);
        if matches!((used, quantity::positive(size)), (Some(used), Some(most)) if used > most) {
            return Some(format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name, size.0
            ));
        }
    }
    let most = admit::limits_of(pod)
        .get(EPHEMERAL_STORAGE)
        .copied()
        .filter(|most| *most > 0);
    if let Some(most) = most.filter(|most| usage.disk(DiskScope::All).bytes > *most) {
        // a single limit is shown as it was written
        let limits: Vec<_> = specs::containers_of(pod).filter_map(limit).collect();
        let shown = if let [one] = limits[..] {
            one.0.clone()
        } else {
            quantity::binary(most)
        };
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
        ));
    }
    long_running(pod).find_map(|container| {
        let limit = limit(container)?;
        let used = usage.containers.get(&container.name)?;
        let used = if image_disk {
            used.logs
        } else {
            used.logs.plus(used.layer)
        };
        (used.bytes > quantity::whole(limit)?).then(|| {
            format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                container.name, limit.0
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pressure::rank::{ContainerUsage, StorageUsage};

    fn disk(bytes: i64) -> StorageUsage {
        StorageUsage { bytes, inodes: 1 }
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
        assert!(has_storage_limits(&pod));
        let check = |volume: i64, a: (i64, i64), b: i64, image_disk: bool| {
            let container = |(layer, logs)| ContainerUsage {
                memory: 0,
                layer: disk(layer),
                logs: disk(logs),
            };
            let usage = PodUsage {
                containers: [
                    ("a".to_owned(), container(a)),
                    ("b".to_owned(), container((b, 0))),
                ]
                .into(),
                volumes: [("scratch".to_owned(), disk(volume))].into(),
                ..PodUsage::default()
            };
            exceeded_limit(&pod, &usage, image_disk).unwrap_or_default()
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
    fn sidecar_limits_count() {
        let limited = |name: &str, most: &str, restart: Option<&str>| json!({"name": name, "restartPolicy": restart, "resources": {"limits": {"ephemeral-storage": most}}});
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [limited("setup", "1Ki", None), limited("proxy", "2Mi", Some("Always"))],
            "containers": [limited("main", "3Mi", None)],
        }}))
        .unwrap();
        let check = |setup: i64, proxy: i64, main: i64| {
            let used = [("setup", setup), ("proxy", proxy), ("main", main)].map(|(name, mib)| {
                (
                    name.to_owned(),
                    ContainerUsage {
                        memory: 0,
                        layer: disk(mib << 20),
                        logs: disk(0),
                    },
                )
            });
            let usage = PodUsage {
                containers: used.into(),
                ..PodUsage::default()
            };
            exceeded_limit(&pod, &usage, false).unwrap_or_default()
        };
        assert_eq!(check(0, 2, 3), "");
        assert_eq!(
            check(0, 3, 1),
            "Container proxy exceeded its local ephemeral storage limit \"2Mi\". "
        );
        assert_eq!(check(1, 2, 1), "", "what has set up has ended");
        assert_eq!(
            check(0, 2, 4),
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "
        );
    }

    #[test]
    fn pods_without_limits_are_not_measured() {
        for spec in [
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "0"}}]}),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert!(!has_storage_limits(&pod));
            assert_eq!(exceeded_limit(&pod, &PodUsage::default(), false), None);
        }
    }
}
