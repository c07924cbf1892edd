//! The live page in a browser: a pod becomes a bar, hostile texts stay texts, RBAC decides what a visitor sees, and no rule of
//! accessibility is violated.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Cloud, binary, node_modules, run};
use serde_json::{Value, json};

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
        "chromium": "/usr/bin/chromium",
        "scenario": directory.path().join("scenario.yaml"),
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/page.cjs");
    let mut command = Command::new("node");
    command
        .arg(script)
        .arg(options.to_string())
        .env("NODE_PATH", node_modules()?);
    let output = run(&mut command)?;
    let text = output
        .success()
        .context("`make needs` installs chromium and what the script requires")?
        .text();
    let seen: Value = serde_json::from_str(&text).context(text)?;
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
    // the saved scenario leads to the same end
    let mut replay = Command::new(binary(CLOUDSIM)?);
    let replayed = run(replay
        .arg("run")
        .arg(directory.path().join("scenario.yaml")))?;
    replayed.success().with_context(|| {
        fs::read_to_string(directory.path().join("scenario.yaml")).unwrap_or_default()
    })?;
    let again = seen["again"]["text"].as_str().unwrap_or_default();
    ensure!(again.contains("cloudsim ui"), "{again}");
    Ok(())
}

#[test]
fn pure_modules_of_the_page_pass_their_tests() -> anyhow::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("node");
    command
        .arg(crates.join("node/modules.mjs"))
        .arg(crates.with_file_name("ui").join("page"));
    run(&mut command)?.success()?;
    Ok(())
}
