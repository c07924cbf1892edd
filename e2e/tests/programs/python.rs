//! The official Python client: an informer with it, and custom objects, against a cloud that runs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{Cloud, binary, run};
use serde_json::{Value, json};

/// Where `make needs` puts Python's packages: `target/python`, two floors above the built programs' own directory.
fn python() -> anyhow::Result<PathBuf> {
    let program = binary(e2e::CLOUDSIM)?;
    let built = program.parent().and_then(Path::parent).context("the programs are in no target directory")?;
    let path = built.join("python/bin/python");
    ensure!(path.exists(), "{} is not there: run `make needs` first", path.display());
    Ok(path)
}

fn informer(cloud: &Cloud, version: &str) -> anyhow::Result<Value> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/informer.py");
    let mut command = Command::new(python()?);
    command.arg("-B").arg(program).arg(version).env("KUBECONFIG", &cloud.kubeconfig);
    let output = run(&mut command)?;
    let told = output.success().context("`make needs` installs what the informer imports")?.text();
    serde_json::from_str(&told).with_context(|| format!("the informer printed no JSON: {told}"))
}

#[test]
fn an_informer_of_the_official_python_client_follows_and_recovers() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cloud = Cloud::start(directory.path())?;
    let namespace = cloud.kubectl.json(&["get", "namespace", "default"])?;
    let version = namespace["metadata"]["resourceVersion"].as_str().context("no version")?.to_owned();
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
