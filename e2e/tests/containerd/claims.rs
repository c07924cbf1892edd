//! Persistent volume claims: volumes of the node, seen from inside, and the words for those that cannot be had.

use std::{fs, path::Path};

use anyhow::ensure;
use e2e::containerd::RealRig;
use serde_json::{Value, json};

use crate::{
    case::{Case, apply, check, leaves_nothing, pod},
    confinement::waits_with,
    probes::wait_event,
};

fn claim(name: &str, change: &Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": name});
    spec.as_object_mut()
        .into_iter()
        .for_each(|spec| spec.extend(change.as_object().cloned().unwrap_or_default()));
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
}

/// A volume for the claim of the same name, on nodes with this operating system.
fn volume(name: &str, system: &str, source: &Value) -> Value {
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": [system]}]}]});
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": name,
        "nodeAffinity": {"required": required}});
    spec.as_object_mut()
        .into_iter()
        .for_each(|spec| spec.extend(source.as_object().cloned().unwrap_or_default()));
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")}, "spec": spec})
}

fn local(path: &Path) -> Value {
    json!({"local": {"path": path}})
}

fn user(name: &str, claim: &str) -> Value {
    pod(
        name,
        &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
    )
}

fn check_bound(rig: &RealRig, claims: &[&str]) -> anyhow::Result<()> {
    for claim in claims {
        let of = format!("pvc/{claim}");
        rig.cloud.kubectl.run(&[
            "wait",
            "--for=jsonpath={.status.phase}=Bound",
            &of,
            "--timeout=60s",
        ])?;
    }
    Ok(())
}

#[test]
fn claims_are_mounted() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let disk = rig.directory.path().join("disk");
    fs::create_dir(&disk)?;
    fs::write(disk.join("old"), "of before")?;
    let made = rig.directory.path().join("made");
    let host = json!({"hostPath": {"path": made, "type": "DirectoryOrCreate"}});
    apply(
        &rig,
        &[
            volume("data", "linux", &local(&disk)),
            volume("host", "linux", &host),
            claim("data", &json!({})),
            claim("host", &json!({})),
        ],
    )?;
    check_bound(&rig, &["data", "host"])?;
    let claimed = |claim: &str, read_only: bool| json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}]);
    check(
        &rig,
        &[
            Case {
                name: "writer",
                spec: json!({
                    "securityContext": {"fsGroup": 4242},
                    "volumes": claimed("data", false),
                    "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/part", "subPath": "a/b"}]}],
                }),
                inside: vec![
                    ("cat /v/old", "of before"),
                    ("stat -c %g /v /v/old", "4242\n4242"),
                    ("echo new > /part/file; cat /v/a/b/file", "new"),
                ],
            },
            Case {
                name: "host",
                spec: json!({"volumes": claimed("host", false), "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
                inside: vec![("echo x > /v/file; cat /v/file", "x")],
            },
        ],
    )?;
    check(
        &rig,
        &[Case {
            name: "reader",
            spec: json!({"volumes": claimed("data", true), "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
            inside: vec![
                ("cat /v/old /v/a/b/file", "of beforenew"),
                ("echo x 2>/dev/null > /v/more || echo refused", "refused"),
            ],
        }],
    )?;
    leaves_nothing(&rig)?;
    ensure!(
        fs::read_to_string(disk.join("a/b/file"))? == "new\n",
        "a volume went with its pod"
    );
    ensure!(
        fs::read_to_string(made.join("file"))? == "x\n",
        "a hostPath went with its pod"
    );
    Ok(())
}

#[test]
fn claims_that_give_nothing_say_why() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let disk = rig.directory.path().join("disk");
    let block = json!({"volumeMode": "Block"});
    let mut raw = local(&disk);
    raw["volumeMode"] = "Block".into();
    apply(
        &rig,
        &[
            volume("elsewhere", "plan9", &local(&disk)),
            volume("raw", "linux", &raw),
            volume(
                "remote",
                "linux",
                &json!({"nfs": {"server": "s", "path": "/p"}}),
            ),
            volume("empty", "linux", &local(&disk)),
            claim("elsewhere", &json!({})),
            claim("raw", &block),
            claim("remote", &json!({})),
            claim("empty", &json!({})),
            claim("unbound", &json!({})),
        ],
    )?;
    check_bound(&rig, &["elsewhere", "raw", "remote", "empty"])?;
    let names = ["elsewhere", "raw", "remote", "empty", "unbound", "missing"];
    let pods: Vec<Value> = names.iter().map(|name| user(name, name)).collect();
    apply(&rig, &pods)?;
    for (name, text) in [
        (
            "elsewhere",
            "MountVolume.NodeAffinity check failed for PV \"pv-elsewhere\": no matching NodeSelectorTerms",
        ),
        (
            "raw",
            "volumeMode Block, which is not supported on this node",
        ),
        (
            "remote",
            "of a kind that is not supported on this node: use local or hostPath",
        ),
        ("empty", "is not a directory"),
        (
            "unbound",
            "error processing PVC default/unbound: PVC is not bound",
        ),
        ("missing", "persistentvolumeclaims \"missing\" not found"),
    ] {
        waits_with(&rig, name, "ContainerCreating", text)?;
        wait_event(&rig, name, "FailedMount", text)?;
    }
    // what was missing comes
    fs::create_dir(&disk)?;
    apply(&rig, &[volume("unbound", "linux", &local(&disk))])?;
    rig.wait_ready("unbound")?;
    rig.wait_ready("empty")?;
    leaves_nothing(&rig)
}
