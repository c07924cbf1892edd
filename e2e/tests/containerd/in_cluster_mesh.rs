//! A program with the official Python client, unmodified, in a pod: it finds the API by the Service `default/kubernetes` at the node's
//! MetaServer, by name and by address, with the cloud and without.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, installed_program, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, pod},
    in_cluster::{reader, with_token},
    informer::map,
    own_network::in_network_namespace,
};

/// Where the machine keeps the libraries of its programs; each is mounted where there is one.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/local/lib"];
/// How a program may look for the API: by the variables that it has, or by these names of the Service.
const HOSTS: [&str; 4] = [
    "",
    "10.96.0.1",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A pod with the machine's Python, the official client and the programs of `e2e/python`; the interpreter's path.
fn python() -> anyhow::Result<(Value, PathBuf)> {
    let linked = installed_program("python")?;
    let program = fs::canonicalize(&linked)?;
    let home = linked
        .parent()
        .and_then(Path::parent)
        .context("it is in no directory")?
        .join("lib");
    let home = fs::canonicalize(home)?;
    let version = fs::read_dir(&home)?
        .next()
        .context("no library")??
        .path()
        .join("site-packages");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    // the interpreter looks for its own library where it was installed
    let prefix = program
        .parent()
        .and_then(Path::parent)
        .context("it is in no directory")?
        .to_owned();
    let mut mounted: Vec<(PathBuf, PathBuf)> = vec![
        (prefix.clone(), prefix.clone()),
        (version, "/python/packages".into()),
        (programs, "/python/programs".into()),
    ];
    let libraries = LIBRARIES.map(PathBuf::from).into_iter();
    let libraries = libraries.filter(|path| path.exists() && !path.starts_with(&prefix));
    mounted.extend(libraries.map(|path| (path.clone(), path)));
    let name = |number: usize| format!("part-{number}");
    let volumes: Vec<Value> = (mounted.iter().enumerate())
        .map(|(number, (path, _))| json!({"name": name(number), "hostPath": {"path": path}}))
        .collect();
    let mounts: Vec<Value> = (mounted.iter().enumerate())
        .map(|(number, (_, at))| json!({"name": name(number), "mountPath": at, "readOnly": true}))
        .collect();
    let env = json!([{"name": "PYTHONPATH", "value": "/python/packages"}]);
    let containers = json!([{"env": env, "volumeMounts": mounts}]);
    let pod = with_token(pod(
        "python",
        &json!({"volumes": volumes, "containers": containers}),
    ));
    Ok((pod, program))
}

/// What the program sees that looks for the API at `host`.
fn run_program(
    rig: &RealRig,
    container: &str,
    program: &Path,
    host: &str,
) -> anyhow::Result<Value> {
    let words = format!(
        "{} /python/programs/in_cluster.py {host} 2>&1",
        program.display()
    );
    // the runtime itself, since the cloud may be away
    let said = rig.containerd.cri.exec(container, &["sh", "-c", &words])?;
    serde_json::from_str(said.trim()).with_context(|| format!("at {host:?}: {said}"))
}

#[test]
fn pythons_client_finds_the_api_by_the_name_of_its_service() -> anyhow::Result<()> {
    in_network_namespace(on_a_node_of_its_own)
}

/// Addresses of services are the same on every node: this one has a network of its own, in which all is that this thread starts.
fn on_a_node_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with_lines(&[
        (
            "kind: EdgeCore",
            "featureGates: {requireAuthorization: true}",
        ),
        ("modules:", "  metaManager: {metaServer: {enable: true}}"),
        ("modules:", "  edgeMesh: {enable: true}"),
    ])?;
    let (python, program) = python()?;
    apply(&rig, &reader())?;
    apply(&rig, &[map("settings", "1"), python])?;
    let container = RealRig::container_id(&rig.wait_ready("python")?, "main")?;
    let all_see = |rig: &RealRig, maps: &[&str]| {
        let wanted = json!({"maps": maps, "secrets": 403});
        for host in HOSTS {
            until(&format!("{wanted} at {host:?}"), || {
                let seen = run_program(rig, &container, &program, host)?;
                ensure!(seen == wanted, "{seen}");
                Ok(())
            })?;
        }
        Ok::<_, anyhow::Error>(())
    };
    all_see(&rig, &["kube-root-ca.crt", "settings"])?;

    // neither the cloud's end nor the agent's changes what a pod that goes on has of the API
    rig.cloud.process.kill()?;
    all_see(&rig, &["kube-root-ca.crt", "settings"])?;
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    all_see(&rig, &["kube-root-ca.crt", "settings"])?;

    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    apply(&rig, &[map("late", "1")])?;
    all_see(&rig, &["kube-root-ca.crt", "late", "settings"])
}
