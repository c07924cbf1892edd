//! The way back to EdgeCore: `edge-agent db export` with the programs as they are run. EdgeCore is stood in for by whoever reads and
//! writes its database; that EdgeCore itself goes on from it is shown outside of this suite.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, Rig, binary, run, until};

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: edge-1\n  containers: [{{name: {name}, image: app}}]\n"
    )
}

fn database(rig: &Rig) -> PathBuf {
    rig.directory.path().join("node/edgecore.db")
}

fn export(rig: &Rig, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(AGENT)?);
    command
        .args(["db", "export", "--config"])
        .arg(&rig.node.config)
        .args(arguments);
    Ok(command)
}

/// What EdgeCore does on its database.
fn on_database(path: &Path, statement: &str) -> anyhow::Result<String> {
    let program = "import sqlite3, sys\n\
        base = sqlite3.connect(sys.argv[1])\n\
        for row in base.execute(sys.argv[2]): print(*row)\n\
        base.commit()\n";
    let mut python = Command::new("python3");
    python.args(["-c", program]).arg(path).arg(statement);
    Ok(run(&mut python)?.success()?.text())
}

/// The ids of the containers that run, by name, which is their pod's.
fn running(rig: &Rig) -> anyhow::Result<BTreeMap<String, String>> {
    let running = rig.runtime.cri.running()?.into_iter();
    Ok(running
        .map(|container| (container.name, container.id))
        .collect())
}

fn until_run(rig: &Rig, names: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    until("the pods", || {
        let found = running(rig)?;
        ensure!(found.keys().eq(names.iter().copied()), "{found:?}");
        Ok(found)
    })
}

#[test]
fn a_node_goes_to_edgecore_and_comes_back() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    rig.cloud
        .kubectl
        .apply(&[pod("a-stays"), pod("b-goes")].join("---\n"))?;
    until_run(&rig, &["a-stays", "b-goes"])?;
    rig.cloud.kubectl.run(&[
        "delete",
        "pod",
        "b-goes",
        "--grace-period=0",
        "--wait=false",
    ])?;
    rig.cloud.kubectl.apply(&pod("c-comes"))?;
    let ids = until_run(&rig, &["a-stays", "c-comes"])?;

    let refused = run(&mut export(&rig, &[])?)?.failure()?;
    let pid = rig.node.process.id().context("the agent runs")?;
    ensure!(refused.contains(&format!("process {pid} has")), "{refused}");
    ensure!(!database(&rig).exists(), "it was written all the same");
    rig.node.process.terminate()?;
    let said = run(&mut export(&rig, &[])?)?.success()?.text();
    ensure!(
        said.contains("edgecore.db: rows of ") && !said.contains("c-comes"),
        "{said}"
    );
    ensure!(fs::metadata(database(&rig))?.permissions().mode() & 0o777 == 0o600);
    let pods = on_database(
        &database(&rig),
        "SELECT key FROM meta WHERE type = 'pod' ORDER BY key",
    )?;
    ensure!(
        pods == "default/pod/a-stays\ndefault/pod/c-comes\n",
        "{pods}"
    );
    let refused = run(&mut export(&rig, &[])?)?.failure()?;
    ensure!(refused.contains("--overwrite"), "{refused}");
    run(&mut export(&rig, &["--overwrite"])?)?.success()?;

    // EdgeCore has not run: the agent goes on with its own
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    ensure!(
        !rig.node.process.log().contains("EdgeCore ran on this node"),
        "{}",
        rig.node.process.log()
    );
    ensure!(
        until_run(&rig, &["a-stays", "c-comes"])? == ids,
        "containers were restarted"
    );
    rig.node.process.terminate()?;
    run(&mut export(&rig, &["--overwrite"])?)?.success()?;

    // EdgeCore has run, and the cloud has deleted a pod meanwhile
    rig.cloud.kubectl.run(&[
        "delete",
        "pod",
        "a-stays",
        "--force",
        "--grace-period=0",
        "--wait=false",
    ])?;
    on_database(
        &database(&rig),
        "DELETE FROM meta WHERE key = 'default/pod/a-stays'",
    )?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("EdgeCore ran on this node")?;
    let aside = fs::read_dir(rig.directory.path().join("node"))?.flatten();
    ensure!(
        aside.into_iter().any(|entry| entry
            .file_name()
            .to_string_lossy()
            .starts_with("outrigger.db.before-edgecore-")),
        "what the agent had is gone"
    );
    // what EdgeCore had is what the agent has, and one that comes is run as ever
    rig.cloud.kubectl.apply(&pod("d-comes"))?;
    until("the pods", || {
        let found = running(&rig)?;
        ensure!(
            found.contains_key("d-comes") && found.get("c-comes") == ids.get("c-comes"),
            "{found:?} {ids:?}"
        );
        Ok(())
    })?;
    let mut dump = Command::new(binary(AGENT)?);
    dump.args(["db", "dump", "--config"]).arg(&rig.node.config);
    let dump = run(&mut dump)?.success()?.text();
    let pods: Vec<_> = dump
        .lines()
        .filter(|line| line.contains(r#""resource":"pods","#))
        .collect();
    let is_gone = !pods.iter().any(|pod| pod.contains(r#""name":"a-stays""#));
    ensure!(pods.len() == 2 && is_gone, "{dump}");
    Ok(())
}
