//! What people get wrong: each mistake has an answer that names it, and the program goes on where it can.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context, ensure};
use e2e::{
    AGENT, ANY_PORTS, CLOUDSIM, Cloud, NODE, Node, Ports, Process, Runtime, binary, ensure_says,
    run, until,
};
use wire::enroll::{Ca, Token};

#[test]
fn tokens_that_do_not_fit_end_the_agent_with_the_cause() -> anyhow::Result<()> {
    let (directory, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (cloud, stranger) = (Cloud::start(directory.path())?, Cloud::start(other.path())?);
    let (good, strange) = (cloud.token()?, stranger.token()?);
    let (hash, _) = good.split_once('.').context("the token has no dots")?;
    let (_, strange_claims) = strange.split_once('.').context("the token has no dots")?;
    let forged = format!("{hash}.{strange_claims}");
    let cases = [
        ("abc", vec!["modules.edgeHub.token", "which has 4 parts"]),
        ("", vec!["nor a join token", "modules.edgeHub.token"]),
        (
            &strange,
            vec![
                "the token is of another cloud",
                "use the token of this cloud",
            ],
        ),
        (
            &forged,
            vec!["refused: 401", "the token is of another cloud"],
        ),
        (&expired_token(&cloud)?, vec!["refused: 401", "expired"]),
    ];
    for (token, words) in cases {
        let config = Node::configure(directory.path(), cloud.ports, token)?;
        let said = run(&mut Node::command(&config)?)?.failure()?;
        ensure_says(&said, &words)?;
        ensure!(
            !said.contains(&good) && (token.is_empty() || token == "abc" || !said.contains(token)),
            "a token in: {said}"
        );
    }
    Ok(())
}

/// A token of this cloud whose day is over: made with the cloud's own key, which whoever may read its secrets has.
fn expired_token(cloud: &Cloud) -> anyhow::Result<String> {
    let field = |name: &str| {
        let template = format!("go-template={{{{index .data {name:?} | base64decode}}}}");
        let get = [
            "--namespace",
            "kubeedge",
            "get",
            "secret",
            "casecret",
            "-o",
            &template,
        ];
        Ok::<_, anyhow::Error>(cloud.kubectl.output(&get)?.success()?.stdout)
    };
    let ca = Ca::from_der(&field("cadata")?, &field("cakeydata")?)?;
    let day = Duration::from_secs(24 * 60 * 60);
    Ok(Token::mint(&ca, SystemTime::now() - 2 * day, day)?)
}

#[test]
fn a_node_renamed_after_it_has_joined_needs_a_new_token() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let _runtime = Runtime::start(directory.path())?;
    let mut node = Node::start(directory.path(), &cloud, &cloud.token()?)?;
    cloud.wait_node("Ready")?;
    node.process.terminate()?;
    let config = fs::read_to_string(&node.config)?;
    fs::write(&node.config, config.replace(NODE, "edge-2"))?;
    let said = run(&mut Node::command(&node.config)?)?.failure()?;
    ensure_says(
        &said,
        &[
            "cannot use the certificate of another node",
            "modules.edgeHub.token",
        ],
    )
}

#[test]
fn a_typo_is_named_and_the_agent_starts() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    // nobody listens there: the agent starts without its cloud, too
    let config = Node::configure(
        directory.path(),
        Ports::free()?,
        &format!("{}.a.b.c", "0".repeat(64)),
    )?;
    let text = fs::read_to_string(&config)?;
    fs::write(
        &config,
        text.replace("    heartbeat: 15\n", "    hartbeat: 15\n"),
    )?;
    let mut agent = Process::start(AGENT, Node::command(&config)?, directory.path())?;
    agent.wait_for("edge-agent started")?;
    agent.wait_for("cannot reach")?;
    ensure_says(
        &agent.log(),
        &[
            "modules.edgeHub.hartbeat: unknown key",
            "did you mean heartbeat?",
        ],
    )?;
    let status = agent.terminate()?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

#[test]
fn a_configuration_that_cannot_be_used_ends_the_agent() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let token = format!("{:064}.a.b.c", 0);
    let config = Node::configure(directory.path(), Ports::free()?, &token)?;
    let text = fs::read_to_string(&config)?;
    let file = directory.path().join("file");
    fs::write(&file, "")?;
    let database = format!("{:?}", directory.path().join("node/edgecore.db"));
    let cases = [
        (
            text.replace("heartbeat: 15", "heartbeat: soon"),
            vec!["modules.edgeHub.heartbeat"],
        ),
        (
            text.replace("handshakeTimeout: 30", "handshakeTimeout: []"),
            vec!["modules.edgeHub.websocket.handshakeTimeout"],
        ),
        ("modules: [".to_owned(), vec!["is not YAML"]),
        (String::new(), vec!["has no settings", "--minconfig"]),
        (
            text.replace(&database, &format!("{:?}", file.join("edgecore.db"))),
            vec![file.to_str().unwrap_or_default()],
        ),
        (
            text.replace("unix://", "tcp://"),
            vec!["containerRuntimeEndpoint", "unix://"],
        ),
    ];
    for (text, words) in cases {
        fs::write(&config, text)?;
        ensure_says(&run(&mut Node::command(&config)?)?.failure()?, &words)?;
    }
    let missing = directory.path().join("nowhere.yaml");
    ensure_says(
        &run(&mut Node::command(&missing)?)?.failure()?,
        &["nowhere.yaml", "--minconfig"],
    )
}

fn up(directory: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command
        .arg("up")
        .arg("--kubeconfig")
        .arg(directory.join("kubeconfig"));
    Ok(command)
}

#[test]
fn busy_ports_are_named_with_the_option_that_changes_them() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port().to_string();
    let options = ["--api-port", "--https-port", "--ws-port", "--tunnel-port"];
    for busy in options {
        let ports = options
            .iter()
            .flat_map(|option| [*option, if *option == busy { &port } else { "0" }]);
        let said = run(up(directory.path())?.args(ports))?.failure()?;
        ensure_says(&said, &[busy, &format!("127.0.0.1:{port}")])?;
    }
    Ok(())
}

#[test]
fn places_that_cannot_be_written_are_named() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    fs::write(&file, "")?;
    let inside = file.join("inside");
    let shown = inside.display().to_string();
    let said = run(up(directory.path())?
        .args(ANY_PORTS)
        .arg("--data-dir")
        .arg(&inside))?
    .failure()?;
    ensure_says(&said, &["--data-dir", &shown])?;
    let mut command = Command::new(binary(CLOUDSIM)?);
    let said = run(command
        .arg("up")
        .args(ANY_PORTS)
        .arg("--kubeconfig")
        .arg(&inside))?
    .failure()?;
    ensure_says(&said, &["--kubeconfig", &shown])
}

#[test]
fn a_token_needs_a_cloud_that_runs() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cloud = Cloud::start(directory.path())?;
    cloud.process.terminate()?;
    let token = |kubeconfig: &Path| {
        let mut command = Command::new(binary(CLOUDSIM)?);
        run(command.arg("token").arg("--kubeconfig").arg(kubeconfig))?.failure()
    };
    ensure_says(
        &token(&cloud.kubeconfig)?,
        &[
            "cannot reach",
            "context cloudsim",
            "`cloudsim up`",
            "--context",
        ],
    )?;
    ensure_says(
        &token(&directory.path().join("nowhere"))?,
        &["nowhere", "--kubeconfig"],
    )
}

#[test]
fn a_node_without_its_runtime_says_so_and_heals_when_it_appears() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let mut node = Node::start(directory.path(), &cloud, &cloud.token()?)?;
    cloud.wait_node("Ready=False")?;
    let ready = until("the node's reason", || {
        let node = cloud.kubectl.json(&["get", "node", NODE])?;
        let conditions = node["status"]["conditions"]
            .as_array()
            .context("no conditions")?
            .clone();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == "Ready")
            .context("no condition Ready")
    })?;
    let message = ready["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("runtime"),
        "the node is not Ready because: {ready}"
    );
    cloud
        .kubectl
        .run(&["run", "patient", "--image=busybox:1.36"])?;
    let _runtime = Runtime::start(directory.path())?;
    cloud.wait_node("Ready")?;
    cloud.kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        "pod/patient",
        "--timeout=60s",
    ])?;
    ensure!(node.process.runs(), "the agent has ended");
    Ok(())
}
