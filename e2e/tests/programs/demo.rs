//! `cloudsim demo --once`: success with a table of what was seen, failure with the reason.

use std::{fs, process::Command};

use anyhow::ensure;
use e2e::{CLOUDSIM, Output, binary, ensure_says, examples, run};

fn demo(manifests: &std::path::Path, directory: &std::path::Path) -> anyhow::Result<Output> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command
        .args(["demo", "--once", "--manifests"])
        .arg(manifests);
    run(command
        .arg("--kubeconfig")
        .arg(directory.join("kubeconfig")))
}

#[test]
fn the_examples_run_and_the_table_says_what_was_seen() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let text = demo(&examples(), directory.path())?.success()?.text();
    for row in [
        "node Ready",
        "pod Running",
        "config as environment",
        "config as files",
        "kubectl exec",
        "kubectl logs                 ",
        "device reports",
        "twin follows",
    ] {
        ensure!(
            text.lines().any(|line| line.starts_with(row)),
            "no row {row:?} in:\n{text}"
        );
    }
    Ok(())
}

#[test]
fn manifests_that_cannot_be_used_end_it_with_the_reason() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let missing = directory.path().join("nowhere");
    let empty = directory.path().join("empty");
    let broken = directory.path().join("broken");
    let refused = directory.path().join("refused");
    for folder in [&empty, &broken, &refused] {
        fs::create_dir(folder)?;
    }
    fs::write(broken.join("pod.yaml"), "kind: Pod\n  metadata: [")?;
    fs::write(
        refused.join("pod.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: Not_A_Name}\nspec: {containers: []}\n",
    )?;
    for (folder, reason) in [
        (&missing, "cannot be read"),
        (&empty, "holds no pod"),
        (&broken, "pod.yaml is not a manifest"),
    ] {
        let output = demo(folder, directory.path())?;
        ensure!(output.stdout.is_empty(), "it has begun: {}", output.text());
        ensure_says(&output.failure()?, &[reason])?;
    }
    let output = demo(&refused, directory.path())?;
    let text = output.text();
    output.failure()?;
    ensure_says(
        &text,
        &["not everything was seen", "Not_A_Name was not taken"],
    )
}
