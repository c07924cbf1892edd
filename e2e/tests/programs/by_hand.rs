//! A person at a terminal: kubectl against the cloud, and the two programs' own words.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::{Context, ensure};
use e2e::{
    AGENT, ANY_PORTS, Api, CLOUDSIM, Cloud, NODE, Process, Rig, binary, ensure_says, run, until,
};
use serde_json::Value;

/// From the Kubernetes documentation, "Configure a Pod to Use a ConfigMap": a file of a chosen name from one key.
const LOG_CONFIG: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: log-config
data:
  log_level: INFO
---
apiVersion: v1
kind: Pod
metadata:
  name: configmap-pod
spec:
  containers:
    - name: test
      image: busybox:1.28
      command: ['sh', '-c', 'echo "The app is running!" && tail -f /dev/null']
      volumeMounts:
        - name: config-vol
          mountPath: /etc/config
  volumes:
    - name: config-vol
      configMap:
        name: log-config
        items:
          - key: log_level
            path: log_level.conf
"#;

/// From the Kubernetes documentation, "Pods".
const NGINX: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: nginx
spec:
  containers:
  - name: nginx
    image: nginx:1.14.2
    ports:
    - containerPort: 80
";

/// A pod that needs what is not there yet.
const WAITING: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: waiting
spec:
  containers:
  - name: main
    image: busybox:1.28
    envFrom:
    - configMapRef: {name: comes-later}
";

const LATER: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: comes-later
data:
  GREETING: hello
";

#[test]
fn a_pod_comes_is_seen_and_goes() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let kubectl = &rig.cloud.kubectl;
    let arguments = ["get", "pods", "--watch", "--output-watch-events", "-v=6"];
    let mut watch = kubectl.start(&arguments, rig.directory.path())?;
    // it says so when its request is answered: a watch that began later would not see how the pod comes
    watch.wait_for("watch=true")?;
    ensure_says(&kubectl.apply(NGINX)?, &["pod/nginx created"])?;
    ensure_says(&kubectl.apply(NGINX)?, &["pod/nginx unchanged"])?;
    watch.wait_for("Running")?;
    ensure_says(&watch.log(), &["ADDED", "Pending", "1/1"])?;
    kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/nginx",
        "--timeout=60s",
    ])?;

    let wide = kubectl.run(&["get", "pods", "-o", "wide"])?;
    let row = wide
        .lines()
        .find(|line| line.starts_with("nginx"))
        .context("no row for nginx")?;
    let uid = kubectl.run(&["get", "pod", "nginx", "-o", "jsonpath={.metadata.uid}"])?;
    let ip = kubectl.run(&["get", "pod", "nginx", "-o", "jsonpath={.status.podIP}"])?;
    ensure_says(row, &["1/1", "Running", NODE, &ip])?;
    let described = kubectl.run(&["describe", "pod", "nginx"])?;
    ensure_says(
        &described,
        &[
            "Status:           Running",
            "nginx:1.14.2",
            "outrigger-sim://",
            "ContainersReady",
            &ip,
        ],
    )?;
    let running = rig.runtime.cri.running()?;
    ensure!(
        running
            .iter()
            .map(|container| &container.pod_uid)
            .eq([&uid]),
        "{running:?} runs, not {uid}"
    );

    ensure_says(
        &kubectl.run(&["delete", "pod", "nginx"])?,
        &["\"nginx\" deleted"],
    )?;
    watch.wait_for("DELETED")?;
    ensure_says(&watch.log(), &["Terminating"])?;
    let gone = kubectl.output(&["get", "pod", "nginx"])?.failure()?;
    ensure_says(&gone, &["NotFound"])?;
    until("the end of the container", || {
        match rig.runtime.cri.containers() {
            Ok(containers) if containers.is_empty() => Ok(()),
            seen => Err(seen),
        }
    })?;
    until("the end of the volumes", || {
        match fs::read_dir(&rig.node.pods)?.next() {
            None => Ok(()),
            Some(entry) => Err(anyhow::anyhow!("{entry:?} is left")),
        }
    })
}

#[test]
fn a_changed_config_map_changes_the_file_in_the_pod() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let kubectl = &rig.cloud.kubectl;
    kubectl.apply(LOG_CONFIG)?;
    kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/configmap-pod",
        "--timeout=60s",
    ])?;
    let container = rig
        .runtime
        .cri
        .running()?
        .pop_first()
        .context("no container runs")?;
    let level = || {
        rig.runtime
            .cri
            .exec(&container.id, &["cat", "/etc/config/log_level.conf"])
    };
    ensure!(level()? == "INFO", "the file holds {:?}", level()?);

    let said = kubectl.apply(&LOG_CONFIG.replace("INFO", "DEBUG"))?;
    // kubectl takes the volume of the pod's token for a change, which is none to the API
    ensure_says(
        &said,
        &["configmap/log-config configured", "pod/configmap-pod "],
    )?;
    until("the changed file", || match level() {
        Ok(level) if level == "DEBUG" => Ok(()),
        seen => Err(seen),
    })?;
    let now = rig.runtime.cri.running()?.pop_first();
    ensure!(
        now.as_ref() == Some(&container),
        "{container:?} was replaced by {now:?}"
    );
    Ok(())
}

#[test]
fn a_pod_waits_for_its_config_map_and_says_so() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let kubectl = &rig.cloud.kubectl;
    kubectl.apply(WAITING)?;
    kubectl.apply(NGINX)?;
    kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/nginx",
        "--timeout=60s",
    ])?;
    until("the reason", || {
        let described = kubectl.run(&["describe", "pod", "waiting"])?;
        ensure_says(&described, &["CreateContainerConfigError", "comes-later"])
    })?;
    kubectl.apply(LATER)?;
    kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/waiting",
        "--timeout=60s",
    ])?;
    let uid = kubectl.run(&["get", "pod", "waiting", "-o", "jsonpath={.metadata.uid}"])?;
    let running = rig.runtime.cri.running()?;
    let container = running
        .iter()
        .find(|container| container.pod_uid == uid)
        .context("it does not run")?;
    ensure_says(
        &rig.runtime.cri.exec(&container.id, &["env"])?,
        &["GREETING=hello\n"],
    )
}

#[test]
fn a_node_is_seen_labelled_and_described_and_its_token_is_wiped() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let kubectl = &rig.cloud.kubectl;
    ensure_says(
        &kubectl.run(&["get", "nodes"])?,
        &[NODE, "Ready", "agent,edge"],
    )?;
    ensure_says(
        &kubectl.run(&["label", "node", NODE, "zone=harbour"])?,
        &["labeled"],
    )?;
    ensure_says(
        &kubectl.run(&["get", "nodes", "-l", "zone=harbour", "-o", "name"])?,
        &["node/edge-1"],
    )?;
    // the lease is not the node's status, and may come after it
    until("the node's description", || {
        let described = kubectl.run(&["describe", "node", NODE])?;
        ensure_says(
            &described,
            &[
                "zone=harbour",
                "KubeletHasSufficientMemory",
                "HolderIdentity:  edge-1",
                "outrigger-sim://",
            ],
        )
    })?;
    ensure!(
        kubectl.output(&["get", "events"])?.code == Some(0),
        "events cannot be listed"
    );
    until("a configuration without the token", || {
        let config = fs::read_to_string(&rig.node.config)?;
        ensure!(
            config.lines().any(|line| line.trim() == r#"token: """#),
            "the token is still there"
        );
        Ok::<_, anyhow::Error>(())
    })
}

/// A person who has exported the kubeconfig for kubectl needs not name it again, wherever they are.
#[test]
fn cloudsim_heeds_the_kubeconfig_that_kubectl_heeds() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    // no cloud of this user is recorded here
    let elsewhere = tempfile::tempdir()?;
    let token = |kubeconfig: &Path| {
        let mut command = Command::new(binary(CLOUDSIM)?);
        run(command
            .arg("token")
            .current_dir(&elsewhere)
            .env("XDG_RUNTIME_DIR", elsewhere.path())
            .env("KUBECONFIG", kubeconfig))
    };
    ensure!(token(&cloud.kubeconfig)?.success()?.text().trim() == cloud.token()?);
    let none = token(&elsewhere.path().join("none"))?.failure()?;
    ensure_says(&none, &["$KUBECONFIG", "--kubeconfig"])?;
    // without it, the file that `up` writes where it is started
    let mut command = Command::new(binary(CLOUDSIM)?);
    let none = run(command
        .arg("token")
        .current_dir(&elsewhere)
        .env("XDG_RUNTIME_DIR", elsewhere.path())
        .env_remove("KUBECONFIG"))?
    .failure()?;
    ensure_says(
        &none,
        &["file cloudsim.kubeconfig does not exist", "$KUBECONFIG"],
    )
}

/// What an administrator says of tokens and names.
#[test]
fn a_token_for_one_node_is_made_and_a_name_is_freed_by_command() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    let cloudsim = |line: &str| {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .args(line.split(' '))
            .arg("--kubeconfig")
            .arg(&rig.cloud.kubeconfig);
        run(&mut command)
    };
    let token = cloudsim("token --node edge-9 --ttl 10m")?.success()?.text();
    ensure!(
        token.trim().split('.').count() == 4 && token.trim() != rig.cloud.token()?,
        "{token}"
    );
    ensure_says(&cloudsim("token --ttl 90d")?.failure()?, &["30 days"])?;
    let held = cloudsim(&format!("token --node {NODE}"))?.success()?;
    ensure!(
        held.text().trim().split('.').count() == 4,
        "{}",
        held.text()
    );
    ensure_says(
        &held.stderr,
        &["warning", &format!("cloudsim node reset {NODE}")],
    )?;
    ensure_says(
        &cloudsim(&format!("node reset {NODE}"))?.success()?.text(),
        &[NODE, "certificates revoked"],
    )?;
    rig.node.process.wait_for("was revoked")?;
    ensure_says(
        &cloudsim("node reset nobody")?.failure()?,
        &["no node nobody", "cloudsim nodes"],
    )?;
    ensure_says(
        &cloudsim("node reset --lost")?.success()?.text(),
        &["nothing was changed"],
    )?;
    let told = cloudsim("token --node edge-9 --uses 2 -o json")?
        .success()?
        .text();
    ensure_says(
        &told,
        &["\"node\": \"edge-9\"", "\"uses\": 2", "\"expires\": "],
    )
}

#[test]
fn a_cloud_with_a_node_keeps_its_state_in_a_directory_named_from_here() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.current_dir(&directory).args([
        "up",
        "--nodes",
        "1",
        "--data-dir",
        "state",
        "--kubeconfig",
        "kubeconfig",
    ]);
    command.args(ANY_PORTS);
    let mut process = Process::start(CLOUDSIM, command, directory.path())?;
    process.wait_for("is ready")?;
    let api = Api::new(&directory.path().join("kubeconfig"))?;
    until("a Ready node", || {
        let node = api
            .get("/api/v1/nodes/edge-1")?
            .context("there is none yet")?;
        let conditions = node["status"]["conditions"]
            .as_array()
            .context("it has no status")?;
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        ensure!(conditions.iter().any(is_ready), "{node}");
        Ok(())
    })?;
    for file in ["state/cloudsim.db", "state/nodes/edge-1/edgecore.yaml"] {
        ensure!(directory.path().join(file).is_file(), "{file} is missing");
    }
    let config = directory.path().join("state/nodes/edge-1/edgecore.yaml");
    let mode = fs::metadata(&config)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");
    ensure!(
        fs::read_to_string(&config)?
            .lines()
            .any(|line| line.trim() == r#""token": "","#),
        "a token lies there"
    );
    Ok(())
}

#[test]
fn the_programs_tell_of_themselves() -> anyhow::Result<()> {
    for name in [CLOUDSIM, AGENT] {
        let says = |arguments: &[&str]| {
            Ok::<_, anyhow::Error>(
                run(Command::new(binary(name)?).args(arguments))?
                    .success()?
                    .text(),
            )
        };
        ensure_says(&says(&["--version"])?, &[name, env!("CARGO_PKG_VERSION")])?;
        ensure_says(&says(&["--help"])?, &["Examples:"])?;
        for shell in ["bash", "zsh", "fish"] {
            ensure_says(&says(&["completions", shell])?, &[name])?;
        }
    }
    let agent = |argument: &str| {
        Ok::<_, anyhow::Error>(
            run(Command::new(binary(AGENT)?).arg(argument))?
                .success()?
                .text(),
        )
    };
    let (short, long) = (agent("--minconfig")?, agent("--defaultconfig")?);
    ensure_says(
        &short,
        &["edgecore.config.kubeedge.io/v1alpha2", "kind: EdgeCore"],
    )?;
    ensure_says(
        &long,
        &["edgecore.config.kubeedge.io/v1alpha2", "kind: EdgeCore"],
    )?;
    ensure!(
        short.lines().count() < long.lines().count(),
        "the short configuration is the longer one"
    );
    Ok(())
}
