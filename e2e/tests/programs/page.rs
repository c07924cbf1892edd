//! The live page in a browser: a pod becomes a bar, hostile texts stay texts, RBAC decides what a visitor sees, faults are saved as a
//! scenario, a device follows its desired value, and no rule of accessibility is violated.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Cloud, Ports, Process, Rig, binary, node_modules, run};
use serde_json::{Value, json};

use crate::devices::{THERMOMETERS, thermometer};

/// An account that may read nodes and pods, and only the sessions of nodes of cloudsim's own API.
const VIEWER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
- {apiGroups: [''], resources: [nodes, pods], verbs: [get, list, watch]}
- {nonResourceURLs: [/cloudsim/v1/nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
";

/// Lets the account of [`VIEWER`] read the messages too.
const MESSAGES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: messages}
rules:
- {nonResourceURLs: [/cloudsim/v1/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: messages}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: messages}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
";

const CHROMIUM: &str = "/usr/bin/chromium";

fn login_link(kubeconfig: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    let output = run(command.args(["ui", "--kubeconfig"]).arg(kubeconfig))?;
    Ok(output.success()?.text().trim().to_owned())
}

/// Returns a kubeconfig with the token of [`VIEWER`].
fn viewers_kubeconfig(cloud: &Cloud, directory: &Path) -> anyhow::Result<std::path::PathBuf> {
    cloud.kubectl.apply(VIEWER)?;
    let token = cloud.kubectl.run(&["create", "token", "viewer"])?;
    let raw = cloud
        .kubectl
        .json(&["config", "view", "--raw", "--flatten"])?;
    let mut config: Value = raw;
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = directory.join("viewer.kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}

/// Runs a script that opens the page in a browser; returns what it has seen.
fn browse(script: &str, options: &Value) -> anyhow::Result<Value> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
    let mut command = Command::new("node");
    command
        .arg(scripts.join(script))
        .arg(options.to_string())
        .env("NODE_PATH", node_modules()?);
    let output = run(&mut command)?;
    let text = output
        .success()
        .context("`make needs` installs chromium and what the script requires")?
        .text();
    serde_json::from_str(&text).context(text)
}

/// Starts a cloud in cluster mode with its page; returns the page's address.
fn start_in_cluster(
    cluster: &Cloud,
    directory: &Path,
    ports: Ports,
) -> anyhow::Result<(Process, String)> {
    let mut up = Command::new(binary(CLOUDSIM)?);
    up.args(["up", "--ui-port", "0", "--cluster-kubeconfig"])
        .arg(&cluster.kubeconfig);
    for (option, port) in [
        ("--https-port", ports.https),
        ("--ws-port", ports.ws),
        ("--tunnel-port", ports.tunnel),
        ("--health-port", ports.api),
    ] {
        up.args([option, &port.to_string()]);
    }
    let mut cloud = Process::start("in-cluster", up, directory)?;
    cloud.wait_for("Stop it with")?;
    let log = cloud.log();
    let address = log
        .lines()
        .find_map(|line| line.trim().strip_prefix("Page "));
    let address = address.context("the address of the page")?.trim();
    Ok((cloud, address.to_owned()))
}

#[test]
fn page_in_cluster_mode_takes_tokens_until_they_are_revoked() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let own = directory.path().join("cluster");
    fs::create_dir(&own)?;
    let cluster = Cloud::start(&own)?;
    let (ports, kubectl) = (Ports::free()?, &cluster.kubectl);
    let (_cloud, address) = start_in_cluster(&cluster, directory.path(), ports)?;
    let token = directory.path().join("token");
    let mut printed = Command::new(binary(CLOUDSIM)?);
    printed
        .args(["token", "--kubeconfig"])
        .arg(&cluster.kubeconfig);
    fs::write(&token, run(&mut printed)?.success()?.text())?;
    let mut nodes = Command::new(binary(CLOUDSIM)?);
    nodes.args(["hollow", "--cloud", "127.0.0.1", "--token-file"]);
    nodes.arg(&token);
    for (option, port) in [
        ("--https-port", ports.https),
        ("--ws-port", ports.ws),
        ("--tunnel-port", ports.tunnel),
    ] {
        nodes.args([option, &port.to_string()]);
    }
    let _nodes = Process::start("hollow", nodes, directory.path())?;
    cluster.wait_node("Ready")?;
    kubectl.apply(VIEWER)?;
    kubectl.apply(MESSAGES)?;
    kubectl.run(&["create", "serviceaccount", "admin"])?;
    let binding = [
        "create",
        "clusterrolebinding",
        "admin",
        "--clusterrole=cluster-admin",
    ];
    kubectl.run(&[&binding[..], &["--serviceaccount=default:admin"]].concat())?;
    kubectl.run(&["create", "secret", "generic", "bound"])?;
    let bound = ["--bound-object-kind=Secret", "--bound-object-name=bound"];
    let viewer = kubectl.run(&[&["create", "token", "viewer"], &bound[..]].concat())?;
    let admin = kubectl.run(&["create", "token", "admin"])?;
    let options = json!({
        "address": address,
        "tokens": {"admin": admin.trim(), "viewer": viewer.trim()},
        "kubectl": testkit::kubectl(),
        "kubeconfig": cluster.kubeconfig,
        "chromium": CHROMIUM,
    });
    let seen = browse("cluster.cjs", &options)?;
    let status = json!({"secrets": 403, "messages": 200, "cut": 403});
    let expected = json!({
        "admin": {"outcome": "Running", "isInBrowser": false, "problems": []},
        "viewer": {"buttons": 0, "status": status, "problems": []},
    });
    ensure!(seen == expected, "{seen:#}");
    Ok(())
}

#[test]
fn page_shows_a_pod_from_the_cloud_to_its_node_and_back() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "1"])?;
    let viewer = viewers_kubeconfig(&cloud, directory.path())?;
    let options = json!({
        "admin": login_link(&cloud.kubeconfig)?,
        "viewer": login_link(&viewer)?,
        "kubectl": testkit::kubectl(),
        "kubeconfig": cloud.kubeconfig,
        "chromium": CHROMIUM,
    });
    let seen = browse("page.cjs", &options)?;
    let (admin, visitor) = (&seen["admin"], &seen["viewer"]);
    ensure!(admin["outcome"] == "Running", "{admin}");
    ensure!(admin["axe"] == json!([]), "{:#}", admin["axe"]);
    let is_safe =
        admin["isText"] == true && admin["images"] == 0 && admin["title"] == "cloudsim: Timeline";
    ensure!(is_safe && admin["isCookieHidden"] == true, "{admin}");
    for visit in [admin, visitor] {
        ensure!(visit["problems"] == json!([]), "{visit}");
    }
    let status = json!({"nodes": 200, "sessions": 200, "why": 403, "withoutHeader": 401, "secrets": 403, "messages": 403, "cut": 403});
    ensure!(visitor["status"] == status, "{visitor}");
    ensure!(visitor["buttons"] == 0, "{visitor}");
    let notice = visitor["notice"].as_str().unwrap_or_default();
    ensure!(notice.contains("messages"), "{visitor}");
    let again = seen["again"]["text"].as_str().unwrap_or_default();
    ensure!(again.contains("cloudsim ui"), "{again}");
    Ok(())
}

#[test]
fn faults_of_the_page_are_saved_as_a_scenario_with_the_same_end() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "1"])?;
    let scenario = directory.path().join("scenario.yaml");
    let options = json!({
        "address": login_link(&cloud.kubeconfig)?,
        "kubectl": testkit::kubectl(),
        "kubeconfig": cloud.kubeconfig,
        "chromium": CHROMIUM,
        "scenario": scenario,
    });
    let seen = browse("faults.cjs", &options)?;
    let outcome = seen["outcome"].as_str().unwrap_or_default();
    let is_marked = outcome.starts_with("Running") && outcome.ends_with("fault");
    let is_clean = seen["axe"] == json!([]) && seen["problems"] == json!([]);
    ensure!(is_marked && is_clean, "{seen:#}");
    let text = fs::read_to_string(&scenario)?;
    for part in [
        "link: \"cut\"",
        "drop: 0.1",
        "diskFull: true",
        "\"late\"",
        "key: \"not saved\"",
    ] {
        ensure!(text.contains(part), "no {part} in\n{text}");
    }
    ensure!(!text.contains("hidden"), "{text}");
    let replayed = run(Command::new(binary(CLOUDSIM)?).arg("run").arg(&scenario))?;
    replayed.success().with_context(|| text).map(drop)
}

#[test]
fn device_of_the_page_follows_its_desired_value() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let _mapper = rig.mapper("thermometer")?;
    let oven = format!("{THERMOMETERS}{}", thermometer("oven", "20"));
    rig.cloud.kubectl.apply(&oven)?;
    rig.cloud.kubectl.until_reported("oven", "target", "20")?;
    let options = json!({"address": login_link(&rig.cloud.kubeconfig)?, "chromium": CHROMIUM});
    let seen = browse("devices.cjs", &options)?;
    ensure!(seen == json!({"axe": [], "problems": []}), "{seen:#}");
    rig.cloud.kubectl.until_reported("oven", "target", "22")
}

#[test]
fn parts_of_the_page_are_where_they_were() -> anyhow::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = json!({
        "page": crates.with_file_name("ui").join("page"),
        "layout": crates.join("node/layout.json"),
        "chromium": CHROMIUM,
        "update": std::env::var_os("OUTRIGGER_UPDATE_LAYOUT").is_some(),
    });
    let seen = browse("layout.cjs", &options)?;
    let advice = "if the change is intended, run this test with OUTRIGGER_UPDATE_LAYOUT=1";
    ensure!(
        seen["problems"] == json!([]),
        "{advice}: {:#}",
        seen["problems"]
    );
    Ok(())
}

#[test]
fn pure_modules_of_the_page_pass_their_tests() -> anyhow::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("node");
    command
        .arg(crates.join("node/modules.mjs"))
        .arg(crates.with_file_name("ui").join("page"))
        .arg(crates.with_file_name("cloudsim").join("src/why"));
    run(&mut command)?.success()?;
    Ok(())
}
