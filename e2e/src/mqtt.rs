//! MQTT: mosquitto as a process, and a node whose agent has its own broker and also uses an external one.

use std::{fs, path::Path, process::Command};

use anyhow::Context;
use tempfile::TempDir;

use crate::{AGENT, Cloud, Mounts, Node, Ports, Process, Rig, Runtime, rig::with_setting, run};

/// Starts mosquitto on this port of 127.0.0.1, with sessions below `directory` and access for everybody. `make needs` installs it.
pub fn mosquitto(directory: &Path, port: u16) -> anyhow::Result<Process> {
    let config = directory.join("mosquitto.conf");
    let kept = directory.join("mosquitto");
    fs::create_dir_all(&kept)?;
    let user = run(Command::new("id").arg("-un"))?.success()?.text();
    // It allows as many messages in flight as the broker in the agent.
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nuser {}\nmax_inflight_messages 128\npersistence true\npersistence_location {}/\nautosave_interval 1\nautosave_on_changes true\n",
        user.trim(),
        kept.display()
    );
    fs::write(&config, text)?;
    let mut command = Command::new("mosquitto");
    command.arg("-c").arg(config);
    let mut process = Process::start("mosquitto", command, directory)
        .context("`make needs` installs mosquitto")?;
    process.wait_for(" running")?;
    Ok(process)
}

impl Rig {
    /// Starts a rig whose agent has a broker at `ports.api` and uses one at `ports.https`.
    pub fn with_brokers(directory: TempDir, ports: Ports) -> anyhow::Result<Self> {
        let path = directory.path();
        let cloud = Cloud::start(path)?;
        let runtime = Runtime::start(path)?;
        let config = Node::configure(path, cloud.ports, &cloud.token()?)?;
        let mut text = fs::read_to_string(&config)?;
        for (key, value) in [
            ("mqttMode", "1".to_owned()),
            (
                "mqttServerInternal",
                format!("tcp://127.0.0.1:{}", ports.api),
            ),
            (
                "mqttServerExternal",
                format!("tcp://127.0.0.1:{}", ports.https),
            ),
        ] {
            text = with_setting(&text, key, &value)?;
        }
        fs::write(&config, text)?;
        let mut process = Process::start(AGENT, Node::command(&config)?, path)?;
        process.wait_for("edge-agent started")?;
        cloud.wait_node("Ready")?;
        let node = Node {
            process,
            config,
            pods: path.join("node/kubelet/pods"),
            port: cloud.ports.node,
            mounts: Mounts::below(path),
        };
        Ok(Self {
            node,
            runtime,
            cloud,
            directory,
        })
    }
}
