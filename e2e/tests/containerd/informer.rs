//! A kube-rs informer in a pod, and kubectl on the node, against MetaServer: while the cloud is there, while it is away, and
//! when it is back.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use e2e::{Kubectl, Ports, containerd::RealRig, run_with_input, until};
use serde_json::{Value, json};

use crate::case::{apply, pod};

/// Where the machine keeps the libraries of its programs; each is mounted where there is one.
const LIBRARIES: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];
/// The informer's file, in its container.
const FILE: &str = "/seen/seen.json";
/// Where the node's kubeconfig is, in its container.
const KUBECONFIG: &str = "/kubeconfig";

/// The informer in a pod, its file on the node below `directory`. `kubeconfig`: the node's file that says where the API is for pods in
/// the node's own network; without, the pod is in one of its own, and in-cluster configuration says it.
pub(crate) fn informer(directory: &Path, kubeconfig: Option<&Path>) -> anyhow::Result<Value> {
    let program = Path::new(env!("CARGO_BIN_EXE_informer"));
    let home = program.parent().context("the program is in no directory")?;
    let seen = directory.join("seen");
    fs::create_dir_all(&seen)?;
    let mut mounted = vec![
        ("informer", home, Path::new("/informer"), true),
        ("seen", &seen, Path::new("/seen"), false),
    ];
    if let Some(kubeconfig) = kubeconfig {
        mounted.push(("kubeconfig", kubeconfig, Path::new(KUBECONFIG), true));
    }
    for (name, library) in ["library-0", "library-1", "library-2"]
        .into_iter()
        .zip(LIBRARIES.map(Path::new))
    {
        if library.exists() {
            mounted.push((name, library, library, true));
        }
    }
    let volumes: Vec<Value> = mounted
        .iter()
        .map(|(name, path, ..)| json!({"name": name, "hostPath": {"path": path}}))
        .collect();
    let mounts: Vec<Value> = (mounted.iter())
        .map(|(name, _, at, read_only)| json!({"name": name, "mountPath": at, "readOnly": read_only}))
        .collect();
    let command: Vec<&str> = ["/informer/informer", FILE]
        .into_iter()
        .chain(kubeconfig.map(|_| KUBECONFIG))
        .collect();
    Ok(pod(
        "informer",
        &json!({"hostNetwork": kubeconfig.is_some(), "volumes": volumes, "containers": [{"command": command, "volumeMounts": mounts}]}),
    ))
}

/// What lets all nodes read and write ConfigMaps.
fn granted_to_nodes() -> [Value; 2] {
    let api = "rbac.authorization.k8s.io";
    [
        json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": "edge-apps"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "edge-apps"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edge-apps"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:nodes"}]}),
    ]
}

pub(crate) fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
}

/// What the informer has written last.
fn read_last(directory: &Path) -> Result<Value, String> {
    let text =
        fs::read_to_string(directory.join("seen/seen.json")).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Waits until the informer has both listed and watched `wanted`; how many lists it has made.
pub(crate) fn until_seen(directory: &Path, wanted: &Value) -> anyhow::Result<u64> {
    until_seen_after(directory, wanted, 0)
}

/// The same, after so many lists.
fn until_seen_after(directory: &Path, wanted: &Value, lists: u64) -> anyhow::Result<u64> {
    until(&format!("an informer that sees {wanted}"), || {
        let seen = read_last(directory)?;
        let is_right = seen["listed"] == *wanted && seen["watched"] == *wanted;
        match seen["lists"].as_u64() {
            Some(count) if is_right && count > lists => Ok(count),
            _ => Err(seen.to_string()),
        }
    })
}

/// What kubectl on the node has of a pod there, whose container has another root than the node: a log, commands with their output, exit
/// codes and input to its end.
fn logs_and_sessions(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.run(&["logs", "informer"])?;
    let wrong = kubectl
        .output(&["logs", "informer", "-c", "none"])?
        .failure()?;
    ensure!(
        wrong.contains("container none is not valid for pod informer"),
        "{wrong}"
    );
    let exec = ["exec", "informer", "--", "sh", "-c"];
    let ran =
        kubectl.output(&[&exec[..], &["cat /seen/seen.json >&2; echo said; exit 7"]].concat())?;
    ensure!(
        ran.code == Some(7) && ran.text() == "said\n" && ran.stderr.contains("listed"),
        "{ran:?}"
    );
    let lines: String = (0..10_000)
        .map(|number| format!("line {number}\n"))
        .collect();
    let cat = run_with_input(
        &mut kubectl.command(&["exec", "-i", "informer", "--", "cat"]),
        &lines,
    )?;
    ensure!(
        cat.success()?.text() == lines,
        "what cat gives back is not what it was given"
    );
    Ok(())
}

#[test]
fn an_informer_in_a_pod_is_right_with_the_cloud_and_without() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let directory = rig.directory.path().to_owned();
    let address = format!("127.0.0.1:{}", Ports::free()?.api);
    let server = format!("  metaManager: {{metaServer: {{enable: true, server: '{address}'}}}}");
    rig.restart_with_lines(&[("modules:", &server)])?;
    let kubeconfig = rig.node.kubeconfig();
    until("MetaServer's kubeconfig", || {
        if kubeconfig.exists() {
            Ok(())
        } else {
            Err(kubeconfig.display().to_string())
        }
    })?;
    apply(&rig, &granted_to_nodes())?;
    apply(
        &rig,
        &[
            map("stays", "1"),
            map("goes", "1"),
            informer(&directory, Some(&kubeconfig))?,
        ],
    )?;
    rig.wait_ready("informer")?;
    until_seen(&directory, &json!({"stays": "1", "goes": "1"}))?;
    apply(&rig, &[map("stays", "2"), map("comes", "1")])?;
    until_seen(
        &directory,
        &json!({"stays": "2", "goes": "1", "comes": "1"}),
    )?;
    let cloud = rig.cloud.kubectl.clone();
    cloud.run(&["delete", "configmap", "comes"])?;
    let known = json!({"stays": "2", "goes": "1"});
    until_seen(&directory, &known)?;
    let kubectl = Kubectl::new(&kubeconfig, &directory);
    let value = ["get", "configmap", "stays", "-o", "jsonpath={.data.v}"];
    ensure!(kubectl.run(&value)? == "2");

    rig.cloud.process.kill()?;
    until("a node that knows that the cloud is away", || {
        let output = kubectl
            .output(&["get", "configmaps"])
            .map_err(|error| format!("{error:#}"))?;
        if output
            .stderr
            .contains("these are the objects stored on this node")
        {
            Ok(())
        } else {
            Err(output.stderr)
        }
    })?;
    let before = read_last(&directory).map_err(anyhow::Error::msg)?["lists"]
        .as_u64()
        .unwrap_or_default();
    until_seen_after(&directory, &known, before + 5)?;
    ensure!(kubectl.run(&value)? == "2");
    let pods = kubectl.run(&["get", "pods"])?;
    ensure!(
        pods.contains("informer") && pods.contains("Running"),
        "{pods}"
    );
    let refused = kubectl.output(&["create", "configmap", "new"])?.failure()?;
    ensure!(refused.contains("the cloud is not connected"), "{refused}");
    logs_and_sessions(&kubectl)?;

    // one that begins now learns all from this node
    fs::remove_file(directory.join("seen/seen.json"))?;
    let own = kubectl.json(&["get", "pod", "informer"])?;
    rig.containerd
        .raw_cri
        .stop(&RealRig::container_id(&own, "main")?, 0)?;
    until_seen(&directory, &known)?;
    until("the restart in the pod's status", || {
        let own = kubectl
            .json(&["get", "pod", "informer"])
            .map_err(|error| format!("{error:#}"))?;
        if own["status"]["containerStatuses"][0]["restartCount"] == 1 {
            Ok(())
        } else {
            Err(own["status"].to_string())
        }
    })?;

    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    cloud.run(&["delete", "configmap", "goes"])?;
    apply(&rig, &[map("stays", "3"), map("late", "1")])?;
    until_seen(&directory, &json!({"stays": "3", "late": "1"}))?;
    ensure!(kubectl.run(&value)? == "3");
    Ok(())
}
