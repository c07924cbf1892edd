//! `cloudsim demo --once`: success with a table of what was seen, failure with the reason.

use std::{fs, path::Path, process::Command};

use anyhow::ensure;
use e2e::{CLOUDSIM, Output, binary, ensure_says, run};

/// Runs the demo in `directory`, with these manifests or those in the program.
fn demo(manifests: Option<&Path>, directory: &Path) -> anyhow::Result<Output> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.args(["demo", "--once"]).current_dir(directory);
    if let Some(manifests) = manifests {
        command.arg("--manifests").arg(manifests);
    }
    run(&mut command)
}

#[test]
fn demo_runs_in_an_empty_directory_and_ends_with_the_next_command() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let text = demo(None, directory.path())?.success()?.text();
    ensure!(text.trim_end().ends_with("cloudsim up --nodes 1"), "{text}");
    let left = fs::read_dir(directory.path())?.count();
    ensure!(left == 0, "{left} files stay in the directory");
    for row in [
        "node Ready",
        "pod Running",
        "config as environment",
        "config as files",
        "kubectl exec",
        "kubectl logs ",
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
        (&missing, "cannot read"),
        (&empty, "contains no pod"),
        (&broken, "pod.yaml is not a manifest"),
    ] {
        let output = demo(Some(folder), directory.path())?;
        ensure!(output.stdout.is_empty(), "it has begun: {}", output.text());
        ensure_says(&output.failure()?, &[reason])?;
    }
    let output = demo(Some(&refused), directory.path())?;
    let text = output.text();
    output.failure()?;
    ensure_says(&text, &["demo failed", "Not_A_Name was refused"])
}
