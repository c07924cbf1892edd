//! Services whose endpoints are on another machine: directly where its pods are reached, else over the cloud's relay.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{
    Api, CLOUDSIM, Kubectl, Ports, Process, binary,
    containerd::{Machine, RealRig},
    run, until,
};
use serde_json::{Value, json};

use crate::{
    case::pod,
    join::join_line,
    own_network::{in_network_namespace, ip},
};

/// A pod that says its name to whoever asks.
const SERVE: &str =
    "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait";
/// A way that is closed is gone round within this time.
const SWITCH: Duration = Duration::from_secs(3);

/// A cloud, and two machines that are its nodes.
struct Two {
    // machines end after what runs on them
    agents: [Process; 2],
    machines: [Machine; 2],
    cloud: Process,
    api: Api,
    kubectl: Kubectl,
    kubeconfig: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Two {
    /// Both, with these addresses for their pods.
    fn start(pods: [&str; 2]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        // what goes from one machine to the other goes through this one
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        let machines = [
            machine("edge-1", pods[0], directory.path())?,
            machine("edge-2", pods[1], directory.path())?,
        ];
        let (cloud, line, relay) = cloud(directory.path(), &kubeconfig)?;
        let [one, two] = &machines;
        let agents = [
            agent(one, &line, relay, directory.path())?,
            agent(two, &line, relay, directory.path())?,
        ];
        let (kubectl, api) = (
            Kubectl::new(&kubeconfig, directory.path()),
            Api::new(&kubeconfig)?,
        );
        for name in ["edge-1", "edge-2"] {
            until("the node", || {
                api.get(&format!("/api/v1/nodes/{name}"))?
                    .context("it is not there")
            })?;
            kubectl.run(&[
                "wait",
                "--for=condition=Ready",
                &format!("node/{name}"),
                "--timeout=60s",
            ])?;
        }
        Ok(Self {
            agents,
            machines,
            cloud,
            api,
            kubectl,
            kubeconfig,
            _directory: directory,
        })
    }

    /// Applies the objects and waits for these pods.
    fn apply(&self, objects: &[Value], pods: &[&str]) -> anyhow::Result<()> {
        self.kubectl
            .apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
        for name in pods {
            self.kubectl.run(&[
                "wait",
                "--for=condition=Ready",
                &format!("pod/{name}"),
                "--timeout=100s",
            ])?;
        }
        Ok(())
    }

    fn pod(&self, name: &str) -> anyhow::Result<Value> {
        self.api
            .get(&format!("/api/v1/namespaces/default/pods/{name}"))?
            .context("no such pod")
    }

    fn service(&self, name: &str) -> anyhow::Result<String> {
        let service = self
            .api
            .get(&format!("/api/v1/namespaces/default/services/{name}"))?
            .context("none")?;
        Ok(service["spec"]["clusterIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Which pod answers at a place, to a pod's container on one of the machines.
    fn who(&self, machine: usize, container: &str, place: &str) -> anyhow::Result<String> {
        let words = format!("printf 'GET /who HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {place} 80");
        let said = self.machines[machine]
            .cri()?
            .exec(container, &["sh", "-c", &words])?;
        let name = said
            .lines()
            .last()
            .map(str::trim)
            .filter(|_| said.contains("200 OK"));
        name.map(str::to_owned)
            .with_context(|| format!("{place} said {said:?}"))
    }

    /// What `cloudsim mesh` tells.
    fn mesh(&self) -> anyhow::Result<Value> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .args(["mesh", "-o", "json", "--kubeconfig"])
            .arg(&self.kubeconfig);
        Ok(serde_json::from_str(&run(&mut command)?.success()?.text())?)
    }

    /// The way from the first machine to the second, as that has told.
    fn path(&self) -> anyhow::Result<Value> {
        let mesh = self.mesh()?;
        let paths = mesh["paths"].as_array().into_iter().flatten();
        let way = paths
            .into_iter()
            .find(|way| way["from"] == "edge-1" && way["to"] == "edge-2");
        Ok(way.cloned().unwrap_or_default())
    }

    fn until_path(&self, wanted: &str) -> anyhow::Result<Value> {
        until(&format!("the path is {wanted}"), || {
            let path = self.path()?;
            ensure!(path["path"] == wanted, "{path}");
            Ok(path)
        })
    }
}

fn machine(name: &str, pods: &str, directory: &Path) -> anyhow::Result<Machine> {
    let directory = directory.join(name);
    fs::create_dir(&directory)?;
    let mut machine = Machine::boot(name, &directory)?;
    machine.start_containerd_with(pods)?;
    Ok(machine)
}

/// A cloud that both machines reach, the line by which they join, and its relay's port.
fn cloud(directory: &Path, kubeconfig: &Path) -> anyhow::Result<(Process, String, u16)> {
    let ports = Ports::free()?;
    let mut command = Command::new(binary(CLOUDSIM)?);
    command
        .args(["up", "--address", "0.0.0.0", "--kubeconfig"])
        .arg(kubeconfig);
    command.args([
        "--api-port",
        &ports.api.to_string(),
        "--https-port",
        &ports.https.to_string(),
    ]);
    command.args([
        "--ws-port",
        &ports.ws.to_string(),
        "--tunnel-port",
        &ports.tunnel.to_string(),
    ]);
    command.args(["--relay-port", &ports.node.to_string()]);
    let mut cloud = Process::start(CLOUDSIM, command, directory)?;
    let line = join_line(&mut cloud, kubeconfig)?;
    Ok((cloud, line, ports.node))
}

/// Joins a machine, and runs its agent with EdgeMesh.
fn agent(machine: &Machine, line: &str, relay: u16, directory: &Path) -> anyhow::Result<Process> {
    // the line has one of this machine's addresses; each machine reaches its own end of the cable
    let words: Vec<_> = line.split_whitespace().collect();
    let at = words
        .iter()
        .position(|word| *word == "--cloud")
        .context("no cloud in the line")?
        + 1;
    let port = words[at]
        .rsplit_once(':')
        .map_or(String::new(), |(_, port)| format!(":{port}"));
    let cloud = format!("{}{port}", machine.gateway);
    let line: Vec<_> = words
        .iter()
        .enumerate()
        .map(|(index, word)| if index == at { cloud.as_str() } else { word })
        .collect();
    run(&mut machine.pasted_command(&format!("{} --no-start", line.join(" ")))?)?.success()?;
    let file = machine.path("etc/kubeedge/config/edgecore.yaml");
    let config = fs::read_to_string(&file)?;
    let mesh = format!(
        "modules:\n  edgeMesh: {{enable: true, relay: {{server: '{}:{relay}'}}}}\n",
        machine.gateway
    );
    ensure!(config.contains("\nmodules:\n"), "{config}");
    fs::write(&file, config.replacen("modules:\n", &mesh, 1))?;
    let mut command = machine.command("edge-agent");
    command.args(["--config", "/etc/kubeedge/config/edgecore.yaml"]);
    let mut agent = Process::start(&format!("agent-{}", machine.address), command, directory)?;
    agent.wait_for("edge-agent started")?;
    Ok(agent)
}

fn web(name: &str, node: &str) -> Value {
    let mut web = pod(
        name,
        &json!({"nodeName": node, "containers": [{"command": ["sh", "-c", SERVE]}]}),
    );
    web["metadata"]["labels"] = json!({"app": name});
    web
}

fn client(name: &str, node: &str) -> Value {
    pod(name, &json!({"nodeName": node}))
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}})
}

#[test]
fn a_service_on_another_machine_is_reached_directly_or_over_the_relay() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut two = Two::start(["10.88.0.0/16", "10.89.0.0/16"])?;
        let far = two.machines[1].address.clone();
        let near = two.machines[0].address.clone();
        ip(&["route", "add", "10.88.0.0/16", "via", &near])?;
        ip(&["route", "add", "10.89.0.0/16", "via", &far])?;
        two.apply(
            &[
                service("web"),
                web("web", "edge-2"),
                client("client", "edge-1"),
                client("beside", "edge-2"),
            ],
            &["web", "client", "beside"],
        )?;
        let (client, address) = (
            RealRig::container_id(&two.pod("client")?, "main")?,
            two.service("web")?,
        );
        until("the Service answers by its name", || {
            let who = two.who(0, &client, "web")?;
            ensure!(who == "web", "{who}");
            Ok(())
        })?;
        ensure!(two.who(0, &client, &address)? == "web");
        let path = two.until_path("direct")?;
        ensure!(path["sent"] == 0, "{path}");

        // nobody says that it is cut
        ip(&["route", "replace", "blackhole", "10.89.0.0/16"])?;
        let cut = Instant::now();
        ensure!(two.who(0, &client, "web")? == "web");
        ensure!(
            cut.elapsed() < SWITCH,
            "{:?} until the relay",
            cut.elapsed()
        );
        println!("over the relay {:?} after the cut", cut.elapsed());
        let path = two.until_path("relayed")?;
        ensure!(
            path["sent"].as_u64() > Some(0) && path["received"].as_u64() > Some(0),
            "{path}"
        );
        let begun = Instant::now();
        ensure!(two.who(0, &client, &address)? == "web");
        println!("remembered: {:?}", begun.elapsed());

        ip(&["route", "replace", "10.89.0.0/16", "via", &far])?;
        let open = Instant::now();
        until("the direct way is taken again", || {
            ensure!(two.who(0, &client, "web")? == "web");
            let path = two.path()?;
            ensure!(path["path"] == "direct", "{path}");
            Ok(())
        })?;
        println!("directly {:?} after it was open", open.elapsed());

        // without the cloud: what is near goes on, and what is reached directly
        let beside = RealRig::container_id(&two.pod("beside")?, "main")?;
        two.cloud.kill()?;
        for _ in 0..3 {
            ensure!(two.who(1, &beside, "web")? == "web");
            ensure!(two.who(0, &client, "web")? == "web");
        }
        ip(&["route", "replace", "blackhole", "10.89.0.0/16"])?;
        ensure!(two.who(1, &beside, "web")? == "web");
        ensure!(two.who(0, &client, "web").is_err(), "there is no way left");
        two.agents
            .iter_mut()
            .try_for_each(|agent| agent.terminate().map(drop))
    })
}

#[test]
fn pods_of_two_machines_with_the_same_addresses_are_not_confused() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let two = Two::start(["10.88.0.0/16", "10.88.0.0/16"])?;
        two.apply(
            &[
                service("here"),
                service("there"),
                web("here", "edge-1"),
                web("there", "edge-2"),
            ],
            &["here", "there"],
        )?;
        let addresses: Vec<_> = ["here", "there"]
            .iter()
            .map(|name| {
                Ok(two.pod(name)?["status"]["podIP"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned())
            })
            .collect::<anyhow::Result<_>>()?;
        ensure!(
            addresses[0] == addresses[1],
            "the test wants one address on both: {addresses:?}"
        );
        two.apply(&[client("client", "edge-1")], &["client"])?;
        let client = RealRig::container_id(&two.pod("client")?, "main")?;
        for _ in 0..5 {
            for name in ["here", "there"] {
                until("the Service answers", || {
                    let who = two.who(0, &client, name)?;
                    ensure!(who == name, "{name} is {who}");
                    Ok(())
                })?;
            }
        }
        let path = two.until_path("relayed")?;
        ensure!(path["connections"].as_u64() >= Some(5), "{path}");
        Ok(())
    })
}
