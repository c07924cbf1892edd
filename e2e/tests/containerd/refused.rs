//! What this node does not do is said, with the cure, by the pod that asks for it; `docs/pod-fields.md` has the words.

use std::fs;

use anyhow::{Context, ensure};
use e2e::containerd::IMAGE;
use serde_json::{Value, json};

use crate::{
    case::{apply, pod},
    confinement::waits_with,
    probes::wait_event,
    subject::{Subject, for_both},
};

/// The words of the page for a field of a type.
fn words(page: &str, kind: &str, field: &str) -> anyhow::Result<String> {
    let section = page
        .split(&format!("## {kind}\n"))
        .nth(1)
        .context("no such type")?;
    let row = section
        .lines()
        .find(|line| line.starts_with(&format!("| `{field}` | refused | ")));
    let row = row.with_context(|| format!("{kind}.{field} is not refused"))?;
    Ok(row
        .splitn(4, '|')
        .nth(3)
        .unwrap_or_default()
        .trim_matches(['|', ' '])
        .to_owned())
}

/// Each volume of a kind that is not supported, as small as the API takes it.
fn volumes() -> Vec<(&'static str, Value)> {
    let portable = json!({"fsType": "ext4", "volumeID": "v"});
    vec![
        ("awsElasticBlockStore", portable.clone()),
        (
            "azureDisk",
            json!({"diskName": "d", "diskURI": "https://blob/d", "kind": "Shared", "cachingMode": "None"}),
        ),
        ("azureFile", json!({"secretName": "s", "shareName": "n"})),
        ("cephfs", json!({"monitors": ["m"]})),
        ("cinder", portable.clone()),
        ("csi", json!({"driver": "example.com"})),
        (
            "ephemeral",
            json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}),
        ),
        ("fc", json!({"targetWWNs": ["w"], "lun": 1})),
        ("flexVolume", json!({"driver": "example.com/d"})),
        ("flocker", json!({"datasetName": "d"})),
        ("gcePersistentDisk", json!({"pdName": "d"})),
        ("gitRepo", json!({"repository": "https://example.com"})),
        ("glusterfs", json!({"endpoints": "e", "path": "p"})),
        ("image", json!({"reference": IMAGE})),
        (
            "iscsi",
            json!({"targetPortal": "p", "iqn": "iqn.2015-02.example.com:test", "lun": 0}),
        ),
        ("nfs", json!({"server": "s", "path": "/p"})),
        ("photonPersistentDisk", json!({"pdID": "d"})),
        ("portworxVolume", portable),
        ("quobyte", json!({"registry": "r:1", "volume": "v"})),
        ("rbd", json!({"monitors": ["m"], "image": "i"})),
        (
            "scaleIO",
            json!({"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "n"}}),
        ),
        ("storageos", json!({"volumeName": "v"})),
        ("vsphereVolume", json!({"volumePath": "p"})),
    ]
}

for_both!(what_is_refused_says_so);

fn what_is_refused_says_so(rig: Subject) -> anyhow::Result<()> {
    let page = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/pod-fields.md"
    ))?;
    let mut cases = Vec::new();
    for (kind, source) in volumes() {
        let spec = json!({"volumes": [{"name": "v", kind: source}], "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]});
        cases.push((
            kind.to_lowercase(),
            spec,
            "ContainerCreating",
            "FailedMount",
            words(&page, "Volume", kind)?,
        ));
    }
    let trust = json!({"projected": {"sources": [{"clusterTrustBundle": {"name": "n", "path": "p"}}]}, "name": "v"});
    let device = json!({"volumes": [{"name": "v", "hostPath": {"path": "/dev/null"}}], "containers": [{"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}]});
    let only = json!({"volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Enabled"}]}]});
    let sandbox = ("ContainerCreating", "FailedCreatePodSandBox");
    let container = ("CreateContainerConfigError", "Failed");
    let more = [
        ("users", json!({"hostUsers": false, "containers": [{}]}), sandbox, words(&page, "PodSpec", "hostUsers")?),
        ("whole", json!({"resources": {"limits": {"cpu": "1"}}, "containers": [{}]}), sandbox, words(&page, "PodSpec", "resources")?),
        ("trust", json!({"volumes": [trust], "containers": [{}]}), ("ContainerCreating", "FailedMount"), words(&page, "VolumeProjection", "clusterTrustBundle")?),
        ("huge", json!({"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}], "containers": [{}]}), ("ContainerCreating", "FailedMount"), "emptyDir.medium: HugePages is not supported on this node: use Memory, or remove the field".into()),
        ("device", device, container, words(&page, "Container", "volumeDevices")?),
        ("only", only, container, "volumeMounts[].recursiveReadOnly: Enabled is not supported on this node: the container runtime does not support it; use IfPossible, or a newer runtime".into()),
    ];
    for (name, spec, (reason, event), text) in more {
        cases.push((name.to_owned(), spec, reason, event, text));
    }
    let mut pods: Vec<Value> = cases
        .iter()
        .map(|(name, spec, ..)| pod(name, spec))
        .collect();
    pods.push(pod("fine", &json!({})));
    let refused = apply(&rig, &pods).map_or_else(|error| format!("{error:#}"), |()| String::new());
    rig.as_ref().wait_ready("fine")?;
    let taken = rig.as_ref().pods()?;
    ensure!(
        taken.len() > pods.len() - 5,
        "only {} of {} pods came to the node",
        taken.len(),
        pods.len()
    );
    for (name, _, reason, event, text) in &cases {
        if taken.contains_key(name) {
            waits_with(&rig, name, reason, text)?;
            wait_event(&rig, name, event, text)?;
        } else {
            // what this API refuses itself never gets to a node
            ensure!(
                refused.contains(&format!("Pod \"{name}\" is invalid")),
                "{name}: {refused}"
            );
        }
    }
    rig.leaves_nothing()
}
