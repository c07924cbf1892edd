//! Mosquitto: the broker and its two client programs, as processes.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::{Stdio, id},
    sync::atomic::{AtomicU16, Ordering},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{eventually, within};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::{super::External, brokers::RestartableBroker};
use crate::config::HostPort;

/// The first port of tests and their number, below the kernel's ephemeral ports.
const PORTS: (u16, u16) = (10_000, 9_000);
/// The number of ports that this process has used.
static USED: AtomicU16 = AtomicU16::new(0);

fn port() -> u16 {
    let first = u16::try_from(id() % u32::from(PORTS.1)).unwrap();
    let mut ports = std::iter::repeat_with(|| {
        PORTS.0 + (first + USED.fetch_add(1, Ordering::Relaxed)) % PORTS.1
    });
    ports
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .unwrap()
}

/// A mosquitto broker, which keeps sessions, and ends on drop.
pub(super) struct Mosquitto {
    pub(super) address: SocketAddr,
    config: PathBuf,
    running: Option<Child>,
    _directory: TempDir,
}

impl Mosquitto {
    pub(super) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (config, kept) = (
            directory.path().join("mosquitto.conf"),
            directory.path().join("kept"),
        );
        fs::create_dir(&kept).unwrap();
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .unwrap()
            .unwrap()
            .name;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port()));
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\nuser {user}\npersistence true\npersistence_location {}/\nmax_queued_messages 10000\n",
            address.port(),
            kept.display(),
        );
        fs::write(&config, text).unwrap();
        let mut mosquitto = Self {
            address,
            config,
            running: None,
            _directory: directory,
        };
        mosquitto.start_again().await;
        mosquitto
    }

    async fn start_again(&mut self) {
        let mut command = Command::new("mosquitto");
        command
            .arg("-c")
            .arg(&self.config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        self.running = Some(
            command
                .spawn()
                .expect("mosquitto: `make needs` installs it"),
        );
        let address = self.address;
        eventually("mosquitto", async || {
            tokio::net::TcpStream::connect(address).await.map(drop)
        })
        .await;
    }
}

impl RestartableBroker for Mosquitto {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn external(&self) -> External {
        External {
            server: HostPort {
                host: "127.0.0.1".into(),
                port: self.address.port(),
            },
            tls: None,
            client_id: "edge-agent-edge-1".into(),
            username: None,
            password: None,
            qos: 1,
        }
    }

    /// Restarts as a service manager does: the broker writes its sessions before it ends.
    async fn restart(&mut self) {
        let mut child = self.running.take().unwrap();
        kill(
            Pid::from_raw(child.id().unwrap().try_into().unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
        within("mosquitto's end", child.wait()).await.unwrap();
        self.start_again().await;
    }
}

/// A `mosquitto_sub` that subscribes to everything.
pub(super) struct Subscriber {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Subscriber {
    /// Starts it; it has subscribed when this returns.
    pub(super) async fn at(address: SocketAddr) -> Self {
        let port = address.port().to_string();
        // mosquitto does not flush its log by itself
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-q",
            "1",
            "-d",
        ]);
        command.args([
            "-F",
            "message %t %p",
            "-t",
            "#",
            "-t",
            "$hw/#",
            "-t",
            "$ke/#",
        ]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !within("a subscription", lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .starts_with("Subscribed")
        {}
        Self {
            _child: child,
            lines,
        }
    }

    /// Returns the next message on this topic: its payload as JSON, or as text if it is none.
    pub(super) async fn next(&mut self, topic: &str) -> Value {
        loop {
            let line = within(topic, self.lines.next_line())
                .await
                .unwrap()
                .expect("mosquitto_sub runs");
            let message = line
                .strip_prefix("message ")
                .and_then(|message| message.split_once(' '));
            if let Some((_, payload)) = message.filter(|(on, _)| *on == topic) {
                return serde_json::from_str(payload).unwrap_or_else(|_| payload.into());
            }
        }
    }
}

/// Runs `mosquitto_pub` at QoS 1 with further arguments; returns whether the publication was allowed.
pub(super) async fn publish(
    address: SocketAddr,
    topic: &str,
    payload: &str,
    arguments: &[&str],
) -> bool {
    let port = address.port().to_string();
    let mut command = Command::new("mosquitto_pub");
    command
        .args(["-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", topic])
        .args(arguments);
    command.arg(if payload.is_empty() { "-n" } else { "-s" });
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // it may have ended already
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(payload.as_bytes())
        .await;
    within("mosquitto_pub", child.wait())
        .await
        .unwrap()
        .success()
}
