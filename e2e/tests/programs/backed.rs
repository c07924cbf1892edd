//! A cloud before the API server of a cluster, each a process of its own: a cloudsim with `--rbac` plays the cluster, another one stands
//! before it under a service account with the roles that `cloudsim roles` prints, and an agent joins that one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, CLOUDSIM, Cloud, NODE, Node, Ports, Process, Runtime, binary, run, until};
use serde_json::{Value, json};

/// All of it; what is dropped first stands first.
struct Backed {
    node: Process,
    runtime: Runtime,
    cloud: Process,
    cluster: Cloud,
    kubeconfig: PathBuf,
    ports: Ports,
    directory: tempfile::TempDir,
}

/// `cloudsim up` before a cluster.
fn up(kubeconfig: &Path, ports: Ports) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.args(["up", "--cluster-kubeconfig"]).arg(kubeconfig);
    command.args([
        "--https-port",
        &ports.https.to_string(),
        "--ws-port",
        &ports.ws.to_string(),
    ]);
    command.args([
        "--tunnel-port",
        &ports.tunnel.to_string(),
        "--health-port",
        &ports.api.to_string(),
    ]);
    Ok(command)
}

/// The kubeconfig of the service account that the roles are for.
fn kubeconfig(cluster: &Cloud, path: PathBuf) -> anyhow::Result<PathBuf> {
    let roles = run(Command::new(binary(CLOUDSIM)?).arg("roles"))?
        .success()?
        .text();
    cluster.kubectl.apply(&roles)?;
    let token = cluster
        .kubectl
        .run(&["create", "token", "cloudsim", "--namespace", "kubeedge"])?;
    let mut config = cluster.kubectl.json(&["config", "view", "--raw"])?;
    let user = config["users"][0]["name"].clone();
    config["users"] = json!([{"name": user, "user": {"token": token.trim()}}]);
    fs::write(&path, config.to_string())?;
    Ok(path)
}

impl Backed {
    fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let own = directory.path().join("cluster");
        fs::create_dir(&own)?;
        let controllers = "*,-serviceaccountaccess,-csrapproving";
        let cluster =
            Cloud::start_with(&own, &["--node-grace", "8", "--controllers", controllers])?;
        let kubeconfig = kubeconfig(&cluster, directory.path().join("kubeconfig"))?;
        let ports = Ports::free()?;
        let mut cloud = Process::start("backed", up(&kubeconfig, ports)?, directory.path())?;
        cloud.wait_for("is ready")?;
        let token = run(Command::new(binary(CLOUDSIM)?)
            .arg("token")
            .arg("--kubeconfig")
            .arg(&kubeconfig))?;
        let token = token.success()?.text().trim().to_owned();
        let runtime = Runtime::start(directory.path())?;
        let config = Node::configure(directory.path(), ports, &token)?;
        let text = fs::read_to_string(&config)?;
        let (lease, every) = (
            "nodeLeaseDurationSeconds: ",
            "      nodeLeaseDurationSeconds: 8",
        );
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains(lease)).collect();
        let at = lines
            .iter()
            .position(|line| line.trim() == "tailoredKubeletConfig:")
            .context("a kubelet's part")?;
        lines.insert(at + 1, every);
        fs::write(&config, lines.join("\n"))?;
        let mut node = Process::start(AGENT, Node::command(&config)?, directory.path())?;
        node.wait_for("edge-agent started")?;
        cluster.wait_node("Ready")?;
        Ok(Self {
            node,
            runtime,
            cloud,
            cluster,
            kubeconfig,
            ports,
            directory,
        })
    }

    /// `cloudsim` with these arguments and the cluster's kubeconfig.
    fn cloudsim(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.cluster.kubeconfig);
        Ok(run(&mut command)?.success()?.text())
    }

    fn until_pod(&self, name: &str) -> anyhow::Result<Value> {
        self.cluster.kubectl.run(&[
            "wait",
            "--for=condition=Ready",
            &format!("pod/{name}"),
            "--timeout=60s",
        ])?;
        self.cluster.kubectl.json(&["get", "pod", name])
    }

    /// A file in the pod's volumes on the node.
    fn until_file(&self, pod: &Value, path: &str, content: &str) -> anyhow::Result<()> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let file = self
            .directory
            .path()
            .join("node/kubelet/pods")
            .join(uid)
            .join("volumes")
            .join(path);
        until(path, || match fs::read_to_string(&file) {
            Ok(text) if text == content => Ok(()),
            other => Err(format!("{other:?}")),
        })
    }
}

fn manifests(mode: &str) -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": {
        "nodeName": NODE, "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "registry.example/app:1"}],
        "volumes": [
            {"name": "map", "configMap": {"name": "settings"}}, {"name": "secret", "secret": {"secretName": "password"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"mode": mode}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password", "namespace": "default"}, "stringData": {"p": "x"}});
    [map, secret, pod]
        .map(|object| object.to_string())
        .join("\n---\n")
}

#[test]
fn a_cloud_before_a_cluster_serves_nodes_with_the_rights_of_its_roles() -> anyhow::Result<()> {
    let mut backed = Backed::start()?;
    // pods with what they use
    backed.cluster.kubectl.apply(&manifests("fast"))?;
    let pod = backed.until_pod("web")?;
    backed.until_file(&pod, "kubernetes.io~configmap/map/mode", "fast")?;
    backed.until_file(&pod, "kubernetes.io~secret/secret/p", "x")?;
    let container = pod["status"]["containerStatuses"][0]["containerID"].clone();
    let lease =
        backed
            .cluster
            .kubectl
            .json(&["get", "lease", NODE, "--namespace", "kube-node-lease"])?;
    ensure!(lease["spec"]["holderIdentity"] == NODE, "{lease}");
    // devices
    let model = json!({"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel", "metadata": {"name": "m", "namespace": "default"},
        "spec": {"protocol": "virtual", "properties": [{"name": "t", "type": "INT", "accessMode": "ReadWrite"}]}});
    let device = json!({"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"deviceModelRef": {"name": "m"}, "nodeName": NODE, "protocol": {"protocolName": "virtual"},
            "properties": [{"name": "t", "desired": {"value": "5"}}]}});
    backed
        .cluster
        .kubectl
        .apply(&format!("{model}\n---\n{device}"))?;
    until("the device's status", || {
        backed.cluster.kubectl.json(&["get", "devicestatus", "d"])
    })?;
    // what is told of it
    until("the session", || {
        let told = backed.cloudsim(&["nodes", "-o", "wide"])?;
        ensure!(told.contains(NODE) && told.contains("WebSocket"), "{told}");
        Ok::<_, anyhow::Error>(())
    })?;
    let only = backed.cloudsim(&["token", "--node", "edge-7", "-o", "json"])?;
    ensure!(only.contains("\"edge-7\""), "{only}");

    // the API server goes away, and what was changed before its end comes after it
    backed.cluster.process.kill()?;
    backed.cluster.process.start_again()?;
    backed.cluster.process.wait_for("is ready")?;
    backed.cluster.kubectl.apply(&manifests("slow"))?;
    backed.until_file(&pod, "kubernetes.io~configmap/map/mode", "slow")?;
    // so does the cloud
    backed.cloud.kill()?;
    backed.cluster.kubectl.apply(&manifests("slower"))?;
    backed.cloud = Process::start(
        "backed-2",
        up(&backed.kubeconfig, backed.ports)?,
        backed.directory.path(),
    )?;
    backed.cloud.wait_for("is ready")?;
    backed.until_file(&pod, "kubernetes.io~configmap/map/mode", "slower")?;
    let after = backed.cluster.kubectl.json(&["get", "pod", "web"])?;
    ensure!(
        after["status"]["containerStatuses"][0]["containerID"] == container,
        "it was restarted: {after}"
    );

    // the node goes away and comes back
    backed.node.kill()?;
    backed.cluster.wait_node("Ready=Unknown")?;
    backed.node.start_again()?;
    backed.cluster.wait_node("Ready")?;
    let after = backed.cluster.kubectl.json(&["get", "pod", "web"])?;
    ensure!(
        after["status"]["containerStatuses"][0]["containerID"] == container,
        "it was restarted: {after}"
    );
    // its name is taken back, by whoever has the cluster's kubeconfig
    let told = backed.cloudsim(&["node", "reset", NODE])?;
    ensure!(told.contains("certificates revoked"), "{told}");
    backed.node.wait_for("was revoked")?;
    ensure!(backed.runtime.process.runs(), "the runtime runs");
    Ok(())
}
