//! Programs in Python: an informer and custom objects with the official client, against a cloud that runs, and gRPC with its own
//! library, against the sockets of agent and runtime.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{Cloud, Rig, run};
use serde_json::{Value, json};

/// A program of `python/`, with these arguments, which tells of itself in JSON.
fn run_program(
    program: &str,
    arrange: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<Value> {
    let mut command = e2e::python(program)?;
    arrange(&mut command);
    let output = run(&mut command)?;
    let told = output
        .success()
        .context("`make needs` installs what the programs import")?
        .text();
    serde_json::from_str(&told).with_context(|| format!("{program} printed no JSON: {told}"))
}

fn informer(cloud: &Cloud, version: &str) -> anyhow::Result<Value> {
    run_program("informer.py", |command| {
        command.arg(version).env("KUBECONFIG", &cloud.kubeconfig)
    })
}

#[test]
fn an_informer_of_the_official_python_client_follows_and_recovers() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cloud = Cloud::start(directory.path())?;
    let namespace = cloud.kubectl.json(&["get", "namespace", "default"])?;
    let version = namespace["metadata"]["resourceVersion"]
        .as_str()
        .context("no version")?
        .to_owned();
    cloud.kubectl.run(&["create", "namespace", "later"])?;
    // a cloud that starts again has forgotten the changes of its former life: to follow from there is answered with 410
    cloud.process.start_again()?;
    cloud.process.wait_for("is ready")?;
    let told = informer(&cloud, &version)?;
    let refused = ["AlreadyExists", "NotFound", "Invalid", "Conflict"];
    ensure!(
        told == json!({"lists": 1, "pages": 3, "refused": refused, "generation": 2, "gone": 1}),
        "the informer saw {told}"
    );
    Ok(())
}

/// gRPC's C core, which C++, Ruby and PHP have too, calls a unix socket by its path.
#[test]
fn pythons_grpc_calls_the_sockets_of_agent_and_runtime() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let (agent, runtime) = (
        rig.directory.path().join("node/dmi.sock"),
        rig.directory.path().join("runtime.sock"),
    );
    let told = run_program("grpc_calls.py", |command| command.arg(agent).arg(runtime))?;
    ensure!(
        told == json!({
            "Version": {"calls": 3, "has": "outrigger-sim"},
            "RunPodSandbox": {"refused": "INVALID_ARGUMENT"},
            "MapperRegister": {"calls": 3},
            "ReportDeviceStatus": {"refused": "INVALID_ARGUMENT"},
        }),
        "{told}"
    );
    Ok(())
}
