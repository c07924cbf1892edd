//! The socket, its clients, and the screen.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
};

use componentbase::Link;
use testkit::{eventually, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::{report::*, *};
use crate::{
    check::tests::node_config, config::StatusSocket, edgehub::Traffic, log::recent::RecentLine,
};

/// A source without modules, and the state of its connection.
fn source(directory: &tempfile::TempDir) -> (StatusSource, watch::Sender<Link>) {
    let config = node_config(directory, "192.0.2.10");
    let (link, state) = watch::channel(Link::Down);
    let modules = Modules {
        objects: None,
        traffic: Traffic::default(),
        devices: None,
        dmi: None,
        kubelet: None,
        diagnostics: edged::Diagnostics::default(),
    };
    (StatusSource::new(&config, state, modules), link)
}

fn socket_in(directory: &tempfile::TempDir) -> StatusSocket {
    StatusSocket {
        socket: directory.path().join("edge-agent.sock"),
        group: None,
    }
}

/// Serves a source until the token is cancelled, and waits until it answers.
async fn start(
    directory: &tempfile::TempDir,
    socket: &StatusSocket,
) -> (CancellationToken, watch::Sender<Link>) {
    let (source, link) = source(directory);
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(socket.clone(), source, shutdown.clone()));
    eventually("the socket answers", async || {
        request_status(&socket.socket).await.map(drop)
    })
    .await;
    (shutdown, link)
}

async fn exchange(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    answer
}

#[tokio::test]
async fn state_is_served_to_owner_and_group_and_the_connection_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let mut socket = socket_in(&directory);
    // the socket of an agent that was killed
    drop(UnixListener::bind(&socket.socket).unwrap());
    socket.group = Some(nix::unistd::Gid::effective().to_string());
    let (shutdown, link) = start(&directory, &socket).await;
    let mode = fs::metadata(&socket.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let first = request_status(&socket.socket).await.unwrap();
    assert_eq!(
        (first.node.as_str(), first.process),
        ("edge-1", std::process::id())
    );
    assert_eq!(first.cloud.servers, ["192.0.2.10:10000"]);
    assert!(!first.cloud.connected && first.cloud.connections == 0);
    link.send_replace(Link::Up(1));
    eventually("the connection is recorded", async || {
        let status = request_status(&socket.socket).await.unwrap();
        match status.cloud.connected {
            true => Ok(()),
            false => Err(status),
        }
    })
    .await;
    for (request, status) in [
        ("POST /status HTTP/1.1\r\nhost: x\r\n\r\n", "405"),
        ("GET /other HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", "503"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = exchange(&socket.socket, request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {answer}"
        );
    }
    shutdown.cancel();
    testkit::until("the socket is removed", || !socket.socket.exists()).await;
}

#[tokio::test]
async fn silent_clients_do_not_lock_others_out_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let socket = socket_in(&directory);
    let (shutdown, _link) = start(&directory, &socket).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(UnixStream::connect(&socket.socket).await.unwrap());
    }
    drop(silent);
    eventually("the socket answers", async || {
        request_status(&socket.socket).await.map(drop)
    })
    .await;
    shutdown.cancel();
}

#[tokio::test]
async fn without_an_agent_the_error_names_the_next_command() {
    let directory = tempfile::tempdir().unwrap();
    let socket = socket_in(&directory);
    let missing = request_status(&socket.socket)
        .await
        .unwrap_err()
        .to_string();
    drop(UnixListener::bind(&socket.socket).unwrap());
    let stale = request_status(&socket.socket)
        .await
        .unwrap_err()
        .to_string();
    for error in [missing, stale] {
        let has = |part: &str| error.contains(part);
        assert!(
            has("does not run") && has("`edge-agent check`") && has("edge-agent.sock"),
            "{error}"
        );
    }
}

#[test]
fn screen_shows_waiting_pods_first_and_few_errors() {
    let pod = |number: usize, waiting: bool| PodState {
        namespace: "default".into(),
        name: format!("web-{number}"),
        state: if waiting {
            "ImagePullBackOff"
        } else {
            "Running"
        }
        .into(),
        containers: 1,
        waiting,
        message: if waiting { "web: no such image" } else { "" }.into(),
        ..PodState::default()
    };
    let error = |number: usize| RecentLine {
        time: "2026-01-01T00:00:00.000000Z".into(),
        level: "WARN".into(),
        target: "agent".into(),
        text: format!("failed {number}"),
        count: 2,
    };
    let status = StatusReport {
        node: "edge-1".into(),
        version: "0.1.0".into(),
        cloud: CloudState {
            servers: vec!["192.0.2.10:10000".into()],
            transport: "websocket".into(),
            connected: true,
            since: "2026-01-01T00:00:00Z".into(),
            seconds: 7500,
            connections: 1,
        },
        queued_messages: 3,
        queues: vec![QueueState {
            name: "outbox/events".into(),
            waiting: 3,
        }],
        pods: (0..30).map(|number| pod(number, number == 29)).collect(),
        errors: (0..9).map(error).collect(),
        ..StatusReport::default()
    };
    let text = status.to_string();
    let lines: Vec<&str> = text.lines().collect();
    for line in [
        "Cloud      192.0.2.10:10000 (websocket): connected, since 2026-01-01T00:00:00Z (2 h)",
        "Queued     3 messages for the cloud (outbox/events 3)",
        "Pods       30, 1 waiting",
        "  and 10 more; -o json prints all",
        "Devices    0, mappers 0",
        "  2026-01-01T00:00:00 WARN  failed 8 (2 times)",
    ] {
        assert!(lines.contains(&line), "{line}\n{text}");
    }
    let pods = lines
        .iter()
        .position(|line| line.starts_with("Pods"))
        .unwrap();
    assert!(
        lines[pods + 1].contains("web-29") && lines[pods + 1].ends_with("web: no such image"),
        "{text}"
    );
    assert!(!text.contains("failed 3"), "{text}");
    let read: StatusReport =
        serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
    assert_eq!(read, status);
}
