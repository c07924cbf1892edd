//! The chart `charts/cloudsim` through its whole life with the real Helm: a standalone cloud with roles in force plays the cluster,
//! and its one node, an agent on real containerd, runs the pods of the chart. Pods find no Service there, so they are told addresses.

use std::{net::UdpSocket, path::Path, process::Command, time::Instant};

use anyhow::{Context, ensure};
use e2e::{Cloud, Helm, cloudsim_image, containerd::RealRig, ensure_says, run, until};
use serde_json::{Value, json};

const IMAGE: &str = "docker.io/outrigger/cloudsim:0.1.0";
const NAMESPACE: &str = "kubeedge";
const RELEASE: &str = "cloudsim";
/// The kinds of which the chart has objects.
const KINDS: &str = "deployments,replicasets,statefulsets,pods,services,endpointslices,serviceaccounts,roles,rolebindings,clusterroles,\
                     clusterrolebindings,poddisruptionbudgets,networkpolicies,persistentvolumeclaims";

/// An address of this machine that pods reach, too. Nothing is sent.
fn own_address() -> anyhow::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket
        .connect("192.0.2.1:9")
        .context("this machine has no address but its loopback's")?;
    Ok(socket.local_addr()?.ip().to_string())
}

/// What the chart is told of this cluster: where the API server is, and that its only node is an edge node.
fn values(cloud: &Cloud, address: &str) -> Value {
    let on_node = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["edge-1"]});
    let terms = json!([{"matchExpressions": [on_node]}]);
    json!({
        "apiServer": {"host": address, "port": cloud.ports.api},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "hollow": {"prefix": "hollow", "persistence": {"enabled": false}},
        "ui": {"enabled": true},
    })
}

/// The addresses of the cloud's pods that run.
fn addresses(cloud: &Cloud) -> anyhow::Result<Vec<String>> {
    let label = format!("app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=cloud");
    let pods = cloud
        .kubectl
        .json(&["get", "pods", "-n", NAMESPACE, "-l", &label])?;
    let pods = pods["items"].as_array().into_iter().flatten();
    let alive = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(alive
        .filter_map(|pod| Some(pod["status"]["podIP"].as_str()?.to_owned()))
        .collect())
}

fn authority(cloud: &Cloud) -> anyhow::Result<String> {
    cloud.kubectl.run(&[
        "get",
        "secret",
        "casecret",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.data.cadata}",
    ])
}

/// Waits until these nodes are Ready.
fn wait_nodes(cloud: &Cloud, names: &[&str]) -> anyhow::Result<()> {
    let nodes: Vec<_> = names.iter().map(|name| format!("node/{name}")).collect();
    for node in &nodes {
        until(node, || cloud.kubectl.run(&["get", node, "-o", "name"]))?;
    }
    let mut wait = vec!["wait", "--for=condition=Ready", "--timeout=100s"];
    wait.extend(nodes.iter().map(String::as_str));
    cloud.kubectl.run(&wait).map(drop)
}

/// Checks that the cloud in this pod serves its page, with the files that the page loads.
fn shows_page(pod: &str) -> anyhow::Result<()> {
    let read = |path: &str| {
        let address = format!("https://{pod}:10007/ui/{path}");
        let mut command = Command::new("curl");
        let read = run(command.args(["-sSk", "--fail", "--compressed", &address]))?;
        anyhow::Ok(read.success()?.text())
    };
    ensure_says(&read("")?, &["app.js"])?;
    ensure_says(&read("app.js")?, &["import"])
}

/// A workload for edge nodes, as users write it.
fn workload() -> String {
    let labels = json!({"app": "sensor"});
    let toleration = json!({"key": "node-role.kubernetes.io/edge", "operator": "Exists", "effect": "NoSchedule"});
    let not_here =
        json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["edge-1"]});
    let terms = json!([{"matchExpressions": [not_here]}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sensor"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "nodeSelector": {"node-role.kubernetes.io/edge": ""}, "tolerations": [toleration],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
            "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}],
        }}},
    })
    .to_string()
}

#[test]
fn the_chart_is_installed_tested_upgraded_and_uninstalled() -> anyhow::Result<()> {
    let address = own_address()?;
    let rig = RealRig::start_with(&["--address", "0.0.0.0", "--name", &address])?;
    let (cloud, directory) = (&rig.cloud, rig.directory.path());
    rig.containerd
        .import(&cloudsim_image(directory, IMAGE)?, IMAGE)?;
    // all that the chart makes keeps to the strictest level
    let level = "pod-security.kubernetes.io/enforce=restricted";
    cloud
        .kubectl
        .run(&["label", "namespace", NAMESPACE, level])?;
    let chart = Chart::new(cloud, directory, &address)?;

    chart.refuses_bad_values()?;
    let begun = Instant::now();
    let said = chart.helm(
        "install",
        &json!({"replicas": 2}),
        &["--wait", "--timeout", "110s"],
    )?;
    ensure_says(
        &said,
        &[
            "STATUS: deployed",
            "2 cloudsim replica(s) serve edge nodes",
            "Open the live page at https://localhost:8443/ui/",
            "edge-agent join --cloud cloudsim.kubeedge.svc:10000",
        ],
    )?;
    println!("installed after {:?}", begun.elapsed());
    let (before, own) = (addresses(cloud)?, authority(cloud)?);
    ensure!(before.len() == 2 && !own.is_empty(), "{before:?}");
    for pod in &before {
        shows_page(pod)?;
    }

    // the same pods serve nodes from another one
    let aliases = aliases(&before);
    let hollow = json!({"replicas": 2, "hollow": {"nodes": 3, "hostAliases": aliases}, "test": {"hostAliases": aliases}});
    let begun = Instant::now();
    let said = chart.helm("upgrade", &hollow, &["--wait", "--timeout", "110s"])?;
    ensure_says(
        &said,
        &["REVISION: 2", "3 simulated edge node(s) will join"],
    )?;
    let names = ["hollow-1", "hollow-2", "hollow-3"];
    wait_nodes(cloud, &names)?;
    println!("three hollow nodes are Ready after {:?}", begun.elapsed());
    ensure!(
        addresses(cloud)? == before && authority(cloud)? == own,
        "the upgrade has made the cloud anew"
    );
    cloud.kubectl.apply(&workload())?;
    cloud
        .kubectl
        .run(&["rollout", "status", "deployment/sensor", "--timeout=100s"])?;

    let said = chart.run(&["test", RELEASE, "--logs", "--timeout", "110s"])?;
    ensure_says(&said, &["Phase:          Succeeded", "self-test passed"])?;
    let left = cloud.kubectl.run(&[
        "get",
        "nodes,configmaps,secrets,devices,devicemodels",
        "-A",
        "-o",
        "name",
    ])?;
    // by its record the certificate of the node that was there is refused
    let is_left =
        |line: &str| line.contains("selftest") && !line.starts_with("configmap/nodecertificates-");
    ensure!(!left.lines().any(is_left), "the test leaves {left}");

    // whichever replica a node has, another one takes it
    let label = format!("app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=cloud");
    let pods = cloud
        .kubectl
        .run(&["get", "pods", "-n", NAMESPACE, "-l", &label, "-o", "name"])?;
    let first = pods.lines().next().context("no pod")?;
    cloud
        .kubectl
        .run(&["delete", "-n", NAMESPACE, first, "--timeout=60s"])?;
    wait_nodes(cloud, &names)?;
    cloud
        .kubectl
        .run(&["rollout", "status", "deployment/sensor", "--timeout=100s"])?;
    cloud
        .kubectl
        .run(&["delete", "deployment", "sensor", "--timeout=60s"])?;

    ensure_says(
        &chart.run(&["uninstall", RELEASE, "--wait", "--timeout", "110s"])?,
        &["uninstalled"],
    )?;
    let label = format!("app.kubernetes.io/instance={RELEASE}");
    until("the end of the release's objects", || {
        let left = cloud
            .kubectl
            .run(&["get", KINDS, "-A", "-l", &label, "-o", "name"])?;
        let left: Vec<_> = left
            .lines()
            .filter(|name| *name != "pod/cloudsim-selftest")
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })?;
    // what it says it leaves
    ensure!(authority(cloud)? == own);
    Ok(())
}

/// The names of the Service at these addresses, for pods that cannot ask for them.
fn aliases(addresses: &[String]) -> Value {
    let alias = |address: &String| json!({"ip": address, "hostnames": [format!("{RELEASE}.{NAMESPACE}.svc")]});
    addresses.iter().map(alias).collect::<Vec<_>>().into()
}

/// The chart on one cluster.
struct Chart<'a> {
    cloud: &'a Cloud,
    helm: Helm,
    directory: &'a Path,
    address: &'a str,
    path: String,
}

impl<'a> Chart<'a> {
    fn new(cloud: &'a Cloud, directory: &'a Path, address: &'a str) -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .with_file_name("charts")
            .join("cloudsim");
        let path = path.to_str().context("a path that is no text")?.to_owned();
        Ok(Self {
            cloud,
            helm: Helm::new(cloud, directory),
            directory,
            address,
            path,
        })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.helm
            .run(&[arguments, &["--namespace", NAMESPACE]].concat())
    }

    /// `install` or `upgrade`, with the values of this cluster and more of them.
    fn helm(&self, verb: &str, more: &Value, options: &[&str]) -> anyhow::Result<String> {
        let (of_cluster, further) = (
            self.directory.join("values.yaml"),
            self.directory.join("more.yaml"),
        );
        std::fs::write(&of_cluster, values(self.cloud, self.address).to_string())?;
        std::fs::write(&further, more.to_string())?;
        let files = [&of_cluster, &further].map(|file| file.display().to_string());
        let named = [
            verb, RELEASE, &self.path, "--values", &files[0], "--values", &files[1],
        ];
        self.run(&[&named[..], options].concat())
    }

    fn refuses_bad_values(&self) -> anyhow::Result<()> {
        ensure_says(&self.run(&["lint", &self.path])?, &["0 chart(s) failed"])?;
        for (value, says) in [
            ("replicas=0", "/replicas"),
            ("service.type=HostPort", "/service/type"),
            ("hollow.nodes=many", "/hollow/nodes"),
            ("hollow.prefix=Edge", "/hollow/prefix"),
            ("replica=2", "replica"),
            ("serviceMonitor.interval=often", "/serviceMonitor/interval"),
        ] {
            let refused = self.helm.refusal(&[
                "template",
                RELEASE,
                &self.path,
                "--namespace",
                NAMESPACE,
                "--set",
                value,
            ])?;
            ensure_says(&refused, &[says])?;
        }
        let elsewhere =
            self.helm
                .refusal(&["template", RELEASE, &self.path, "--namespace", "default"])?;
        ensure_says(&elsewhere, &["install with --namespace kubeedge"])
    }
}
