//! What the programs print for other programs: JSON, YAML, a log of JSON lines; and their man pages.

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use e2e::{AGENT, ANY_PORTS, CLOUDSIM, Cloud, NODE, Node, Process, Rig, binary, run, until};
use serde_json::Value;

/// `cloudsim` with these arguments, on this cloud.
fn cloudsim(cloud: &Cloud, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&cloud.kubeconfig);
    Ok(run(&mut command)?.success()?.text())
}

#[test]
fn tables_are_json_and_yaml_for_programs() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let json = |arguments: &[&str]| -> anyhow::Result<Value> {
        let text = cloudsim(&rig.cloud, &[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&text)
            .with_context(|| format!("{arguments:?} printed no JSON: {text}"))
    };
    let nodes = json(&["nodes"])?;
    let node = &nodes["nodes"][0];
    ensure!(node["name"] == NODE && node["status"] == "Ready", "{nodes}");
    ensure!(node["session"]["transport"] == "WebSocket", "{nodes}");
    let yaml = cloudsim(&rig.cloud, &["nodes", "--output", "yaml"])?;
    ensure!(
        yaml.starts_with("nodes:\n") && yaml.contains("name: edge-1"),
        "{yaml}"
    );

    rig.cloud.kubectl.run(&[
        "apply",
        "-f",
        &e2e::examples()
            .join("thermometer-model.yaml")
            .display()
            .to_string(),
    ])?;
    rig.cloud.kubectl.run(&[
        "apply",
        "-f",
        &e2e::examples()
            .join("thermometer.yaml")
            .display()
            .to_string(),
    ])?;
    let devices = json(&["devices"])?;
    let device = &devices["devices"][0];
    ensure!(
        device["name"] == "thermometer" && device["node"] == NODE,
        "{devices}"
    );
    let target = device["properties"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == "target"));
    ensure!(
        target.is_some_and(|target| target["desired"] == "21"),
        "{devices}"
    );

    ensure!(json(&["faults", "cut", NODE])?["faults"][0]["link"] == "cut");
    ensure!(json(&["faults", "list"])?["certificate"] == "genuine");
    ensure!(json(&["faults", "restore"])?["faults"] == serde_json::json!([]));
    let names = |of: &str| -> anyhow::Result<usize> {
        let told = json(&["faults", of])?;
        let all = told[of].as_array().with_context(|| format!("{told}"))?;
        Ok(all.iter().filter(|one| one["name"].is_string()).count())
    };
    ensure!(names("profiles")? > 3 && names("messages")? > 3);

    let mut check = Command::new(binary(AGENT)?);
    let told = run(check
        .args(["db", "check", "-o", "json", "--config"])
        .arg(&rig.node.config))?
    .success()?;
    let told: Value = serde_json::from_str(&told.text())?;
    ensure!(
        told["whole"] == true && told["objects"].as_u64() > Some(0),
        "{told}"
    );
    Ok(())
}

/// Every line of a log is an object with all five parts.
fn ensure_json_lines(log: &str) -> anyhow::Result<Vec<Value>> {
    let line = |line: &str| {
        let read: Value =
            serde_json::from_str(line).with_context(|| format!("no JSON: {line:?}"))?;
        let is_text = |key: &str| read[key].is_string();
        let is_whole = ["timestamp", "level", "target", "message"]
            .into_iter()
            .all(is_text);
        ensure!(is_whole && read["fields"].is_object(), "{line}");
        Ok(read)
    };
    log.lines().map(line).collect()
}

#[test]
fn a_log_is_a_json_object_a_line_from_the_first_to_the_last() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let config = Node::configure(directory.path(), cloud.ports, &cloud.token()?)?;
    let mut command = Node::command(&config)?;
    command.args(["--log-format", "json"]);
    let mut agent = Process::start(AGENT, command, directory.path())?;
    agent.wait_for("edge-agent started")?;
    agent.terminate()?;
    let lines = ensure_json_lines(&agent.log())?;
    ensure!(
        lines.iter().any(|line| line["level"] == "INFO"),
        "{lines:?}"
    );

    // why a program does not start is a line of the log, too
    for (name, arguments) in [
        (AGENT, vec!["--config", "/nowhere.yaml"]),
        (CLOUDSIM, vec!["token", "--kubeconfig", "/nowhere"]),
    ] {
        let mut command = Command::new(binary(name)?);
        let said = run(command.args(arguments).args(["--log-format", "json"]))?.failure()?;
        let lines = ensure_json_lines(&said)?;
        let last = lines.last().context("it said nothing")?;
        ensure!(last["level"] == "ERROR" && last["target"] == name, "{last}");
        ensure!(
            last["message"]
                .as_str()
                .is_some_and(|message| message.contains("/nowhere")),
            "{last}"
        );
    }

    // what people read is on stdout, and the log apart from it
    let mut up = Command::new(binary(CLOUDSIM)?);
    up.args(["up", "--nodes", "1"])
        .args(ANY_PORTS)
        .arg("--kubeconfig");
    up.arg(directory.path().join("second"))
        .env("CLOUDSIM_LOG_FORMAT", "json")
        .env("CLOUDSIM_LOG", "info");
    let mut up = Process::start("second", up, directory.path())?;
    let lines = until("a line of the log", || {
        let log = up.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let json: Vec<&str> = whole.lines().filter(|line| line.starts_with('{')).collect();
        if json.len() < 3 {
            Err(log)
        } else {
            Ok(json.join("\n"))
        }
    })?;
    ensure_json_lines(&lines)?;
    up.terminate()?;
    Ok(())
}

#[test]
fn every_command_has_a_man_page() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    run(Command::new(binary("examples/man")?).arg(folder.path()))?.success()?;
    let mut pages = 0;
    for entry in fs::read_dir(folder.path())? {
        let path = entry?.path();
        // completions are beside the pages
        if path.extension() != Some("1".as_ref()) {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        ensure!(
            text.contains(".TH ") && text.contains(".SH NAME"),
            "{}",
            path.display()
        );
        pages += 1;
    }
    let page =
        |name: &str| fs::read_to_string(folder.path().join(name)).with_context(|| name.to_owned());
    for (name, word) in [
        ("cloudsim.1", "\\-\\-log\\-format"),
        ("cloudsim-up.1", "\\-\\-renewal\\-grace"),
        ("cloudsim-nodes.1", "\\-\\-output"),
        ("cloudsim-nodes-reset.1", "revoke its certificates"),
        ("cloudsim-status.1", "\\-\\-watch"),
        ("cloudsim-faults-half-open.1", "deliver nothing"),
        ("cloudsim-devices-set.1", "PROPERTY=VALUE"),
        ("edge-agent.1", "\\-\\-defaultconfig"),
        ("edge-agent-join.1", "\\-\\-token"),
        ("edge-agent-db-export.1", "\\-\\-overwrite"),
    ] {
        let text = page(name)?;
        ensure!(text.contains(word), "{word} is not in {name}:\n{text}");
    }
    ensure!(pages > 25, "{pages} pages");
    Ok(())
}
