//! Rules with the real programs: curl against the router, mosquitto's programs and Python's HTTP server; online, with a link that is
//! cut, with an agent and a cloud that are killed. What is counted is what was sent.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    AGENT, CLOUDSIM, Cloud, Mounts, NODE, Node, Ports, Process, Rig, Runtime, binary, mosquitto,
    run, until,
};
use serde_json::Value;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Who may call rules of the namespace.
const CALLERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: callers}
rules:
- {apiGroups: [rules.kubeedge.io], resources: [rules/messages], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: callers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: callers}
subjects:
- {kind: ServiceAccount, name: caller, namespace: default}
";

/// A cloud with the router, a node with brokers and ServiceBus, two servers, and the rules of the examples.
struct World {
    rig: Rig,
    broker: Process,
    service: Process,
    target: Process,
    /// Ports as in the documentation, and those that they are here.
    ports: Vec<(&'static str, u16)>,
    directory: PathBuf,
    /// Calls of the local service that were answered, and those that were refused, since the rule is in force.
    calls: Cell<(i64, i64)>,
}

/// Calls the local service; prints the status.
const HELLO: &str =
    "curl -sS -o /dev/null -w %{http_code} http://127.0.0.1:9443/edge-1/default/hello";
/// Calls the target from the node, with a number.
const ORDER: &str = "curl -sS --data '{\"method\": \"POST\", \"targetURL\": \"http://127.0.0.1:7777/orders\", \"payload\": NUMBER}' http://127.0.0.1:9060";

impl World {
    fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().to_owned();
        let (one, two) = (Ports::free()?, Ports::free()?);
        let ports = vec![
            ("9443", one.api),
            ("6666", one.https),
            ("7777", one.ws),
            ("9060", one.tunnel),
            ("1884", one.node),
        ];
        let broker = mosquitto(&path, two.api)?;
        let cloud = Cloud::start_with(&path, &["--router-port", &one.api.to_string()])?;
        let runtime = Runtime::start(&path)?;
        let config = Node::configure(&path, cloud.ports, &cloud.token()?)?;
        let text = fs::read_to_string(&config)?;
        let text = text
            .replace("mqttMode: 2", "mqttMode: 1")
            .replace(
                "tcp://127.0.0.1:1883",
                &format!("tcp://127.0.0.1:{}", two.api),
            )
            .replace(
                "tcp://127.0.0.1:1884",
                &format!("tcp://127.0.0.1:{}", one.node),
            );
        let service_bus = format!(
            "modules:\n  serviceBus:\n    enable: true\n    port: {}\n",
            one.tunnel
        );
        ensure!(text.matches("modules:\n").count() == 1, "{text}");
        fs::write(&config, text.replace("modules:\n", &service_bus))?;
        let mut process = Process::start(AGENT, Node::command(&config)?, &path)?;
        process.wait_for("edge-agent started")?;
        cloud.wait_node("Ready")?;
        let node = Node {
            process,
            config,
            pods: path.join("node/kubelet/pods"),
            port: cloud.ports.node,
            mounts: Mounts::below(&path),
        };
        let server = |name: &str, port: u16| {
            let mut command = Command::new("python3");
            command
                .arg(Path::new(ROOT).join("examples/rules/server.py"))
                .arg(port.to_string());
            Process::start(name, command, &path)
        };
        let (service, target) = (server("service", one.https)?, server("target", one.ws)?);
        let rig = Rig {
            node,
            runtime,
            cloud,
            directory,
        };
        let world = Self {
            rig,
            broker,
            service,
            target,
            ports,
            directory: path,
            calls: Cell::default(),
        };
        fs::create_dir_all(world.directory.join("examples/rules"))?;
        let rules = fs::read_to_string(Path::new(ROOT).join("examples/rules/rules.yaml"))?;
        fs::write(
            world.directory.join("examples/rules/rules.yaml"),
            world.here(&rules),
        )?;
        Ok(world)
    }

    /// The text with the ports that count here.
    fn here(&self, text: &str) -> String {
        // in two steps: a port of here may hold the digits of another one
        let mark = |number: usize| format!("<port {number}>");
        let ports = || self.ports.iter().enumerate();
        let marked = ports().fold(text.to_owned(), |text, (number, (port, _))| {
            text.replace(port, &mark(number))
        });
        ports().fold(marked, |text, (number, (_, here))| {
            text.replace(&mark(number), &here.to_string())
        })
    }

    /// Calls the local service; the status.
    fn hello(&self) -> anyhow::Result<String> {
        let code = self.line(HELLO)?;
        let (answered, refused) = self.calls.get();
        match code.as_str() {
            "200" => self.calls.set((answered + 1, refused)),
            // of no rule nothing is counted
            "404" => {}
            _ => self.calls.set((answered, refused + 1)),
        }
        Ok(code)
    }

    fn until_hello(&self, wanted: &str) -> anyhow::Result<()> {
        until(&format!("status {wanted} of the service"), || {
            let code = self.hello()?;
            ensure!(code == wanted, "{code}");
            Ok(())
        })
    }

    /// Calls the target from the node.
    fn order(&self, number: usize) -> anyhow::Result<()> {
        let said = self.line(&ORDER.replace("NUMBER", &number.to_string()))?;
        ensure!(said.contains(&format!("POST /orders {number}")), "{said}");
        Ok(())
    }

    /// Runs a line of a terminal; what it says.
    fn line(&self, line: &str) -> anyhow::Result<String> {
        Ok(run(&mut self.command(line)?)?.success()?.text())
    }

    fn command(&self, line: &str) -> anyhow::Result<Command> {
        let words = words(&self.here(line));
        let (program, arguments) = words.split_first().context("an empty line")?;
        let mut command = match program.as_str() {
            "cloudsim" => Command::new(binary(CLOUDSIM)?),
            other => Command::new(other),
        };
        command
            .args(arguments)
            .env("KUBECONFIG", &self.rig.cloud.kubeconfig)
            .current_dir(&self.directory);
        Ok(command)
    }

    /// How many messages of a rule arrived, and how many failed.
    fn counts(&self, rule: &str) -> anyhow::Result<(i64, i64)> {
        let listed: Value = serde_json::from_str(&self.line("cloudsim rules -o json")?)?;
        let rules = listed["rules"].as_array().context("no rules")?;
        let found = rules
            .iter()
            .find(|one| one["name"] == rule)
            .context("no such rule")?;
        let count = |field: &str| found["status"][field].as_i64().unwrap_or_default();
        Ok((count("successMessages"), count("failMessages")))
    }

    fn until_counts(&self, rule: &str, wanted: (i64, i64)) -> anyhow::Result<()> {
        until(&format!("the counts of {rule}: {wanted:?}"), || {
            let counts = self.counts(rule)?;
            ensure!(counts == wanted, "{counts:?}");
            Ok(())
        })
    }

    /// Publishes at the broker beside the agent.
    fn publish(&self, message: &str) -> anyhow::Result<()> {
        let port = self.beside();
        self.line(&format!(
            "mosquitto_pub -p {port} -q 1 -t default/readings -m {message}"
        ))
        .map(drop)
    }

    fn beside(&self) -> u16 {
        // where mosquitto listens stands in its configuration
        let text = fs::read_to_string(self.directory.join("mosquitto.conf")).unwrap_or_default();
        text.split_whitespace()
            .nth(1)
            .and_then(|port| port.parse().ok())
            .unwrap_or_default()
    }

    /// What the target was told on this path, each once.
    fn received_requests(&self, path: &str) -> BTreeSet<String> {
        let log = self.target.log();
        log.lines()
            .filter_map(|line| line.strip_prefix(&format!("POST {path} ")))
            .map(str::to_owned)
            .collect()
    }

    fn until_told(&self, path: &str, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{wanted} at {path}"), || {
            ensure!(
                self.received_requests(path).contains(wanted),
                "{:?}",
                self.received_requests(path)
            );
            Ok(())
        })
    }

    /// Waits until the node listens to the topic of the rule; how many messages that took.
    fn warm_up(&self) -> anyhow::Result<i64> {
        until("the node listens", || {
            self.publish("warm")?;
            ensure!(
                !self.received_requests("/readings").is_empty(),
                "nothing has come"
            );
            Ok(())
        })?;
        // more than one of them may be under way, and this one comes after them
        self.publish("last")?;
        self.until_told("/readings", "last")?;
        until("all that came is counted", || {
            let came = self.target.log().matches("POST /readings").count();
            let counts = self.counts("readings")?;
            ensure!(counts == (i64::try_from(came)?, 0), "{counts:?} of {came}");
            Ok(counts.0)
        })
    }
}

/// Words of a line, with single quotes as a shell has them.
fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            all.push(part.to_owned());
        } else {
            all.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    all
}

/// The link, the agent and the cloud are away in turn; how many messages have arrived then.
fn interrupt(world: &mut World, mut arrived: i64) -> anyhow::Result<i64> {
    // a link that is cut: requests say so, messages of the node wait
    world.rig.cloud.faults(&["cut", NODE])?;
    world.until_hello("502")?;
    for number in 0..5 {
        world.publish(&format!("cut-{number}"))?;
    }
    world.rig.cloud.faults(&["restore", NODE])?;
    world.until_told("/readings", "cut-4")?;
    arrived += 5;
    world.until_counts("readings", (arrived, 0))?;

    // an agent that is killed: what was published meanwhile waits at the broker
    world.rig.node.process.kill()?;
    for number in 0..5 {
        world.publish(&format!("killed-{number}"))?;
    }
    world.rig.node.process.start_again()?;
    world.rig.node.process.wait_for("edge-agent started")?;
    world.until_told("/readings", "killed-4")?;
    arrived += 5;
    world.until_counts("readings", (arrived, 0))?;

    // a cloud that is killed: what was published meanwhile waits at the node
    world.until_counts("call-service", world.calls.get())?;
    world.rig.cloud.process.kill()?;
    for number in 0..5 {
        world.publish(&format!("cloudless-{number}"))?;
    }
    world.rig.cloud.process.start_again()?;
    world.rig.cloud.process.wait_for("is ready")?;
    world.until_told("/readings", "cloudless-4")?;
    arrived += 5;
    world.until_counts("readings", (arrived, 0))?;
    world.until_hello("200")?;
    world.until_counts("call-service", world.calls.get())?;
    Ok(arrived)
}

#[test]
fn every_direction_counts_what_was_sent() -> anyhow::Result<()> {
    let mut world = World::start()?;
    world.line("kubectl apply -f examples/rules/rules.yaml")?;
    world.until_hello("200")?;
    until("the node lets programs call", || world.order(0))?;
    let mut arrived = world.warm_up()?;
    for number in 1..=10 {
        ensure!(world.hello()? == "200");
        let led = format!("curl -sS --data {number} http://127.0.0.1:9443/edge-1/default/led");
        ensure!(world.line(&led)? == "message delivered");
        world.publish(&format!("online-{number}"))?;
        world.order(number)?;
    }
    arrived += 10;
    world.until_counts("readings", (arrived, 0))?;
    world.until_counts("call-service", world.calls.get())?;
    world.until_counts("publish", (10, 0))?;
    world.until_counts("orders", (11, 0))?;

    interrupt(&mut world, arrived)?;
    let told = world.received_requests("/readings");
    for (kind, numbers) in [
        ("online", 1..=10),
        ("cut", 0..=4),
        ("killed", 0..=4),
        ("cloudless", 0..=4),
    ] {
        for number in numbers {
            ensure!(
                told.contains(&format!("{kind}-{number}")),
                "{kind}-{number}: {told:?}"
            );
        }
    }
    ensure!(world.service.runs() && world.broker.runs());

    // where nothing answers the agent says so in place of the service, and that has failed
    world.service.kill()?;
    world.until_hello("502")?;
    world.until_counts("call-service", world.calls.get())?;
    let send = "cloudsim rules send edge-1 default/hello";
    let sent = world.command(send)?.output()?;
    let said = String::from_utf8_lossy(&sent.stdout);
    ensure!(
        !sent.status.success() && said.starts_with("502 nothing answers at port"),
        "{said}"
    );
    Ok(())
}

/// Beyond the loopback interface the router speaks TLS and asks for a token, and for a right to it where rights count.
#[test]
fn a_router_that_others_reach_asks_who_calls() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let port = Ports::free()?.api;
    let arguments = ["--address", "0.0.0.0", "--router-port", &port.to_string()];
    let cloud = Cloud::start_with(directory.path(), &arguments)?;
    let kubectl = &cloud.kubectl;
    let authority = kubectl.run(&[
        "config",
        "view",
        "--raw",
        "-o",
        "jsonpath={.clusters[0].cluster.certificate-authority-data}",
    ])?;
    let file = directory.path().join("router-ca.crt");
    fs::write(&file, STANDARD.decode(authority.trim())?)?;
    let ask = |token: &str| -> anyhow::Result<Value> {
        let mut command = Command::new("curl");
        command.arg("-sS").arg("--cacert").arg(&file);
        if !token.is_empty() {
            command.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        command.arg(format!("https://127.0.0.1:{port}/edge-1/default/nothing"));
        Ok(serde_json::from_slice(
            &run(&mut command)?.success()?.stdout,
        )?)
    };
    ensure!(ask("")?["reason"] == "Unauthorized");
    ensure!(ask("a.b.c")?["reason"] == "Unauthorized");
    kubectl.run(&["create", "serviceaccount", "caller"])?;
    let token = kubectl.run(&["create", "token", "caller"])?;
    let refused = ask(token.trim())?;
    ensure!(
        refused["reason"] == "Forbidden" && refused["code"] == 403,
        "{refused}"
    );
    kubectl.apply(CALLERS)?;
    until("the role counts", || {
        let answer = ask(token.trim())?;
        ensure!(
            answer["reason"] == "RuleNotFound" && answer["code"] == 404,
            "{answer}"
        );
        Ok(())
    })?;
    let plain =
        run(Command::new("curl")
            .args(["-sS", &format!("http://127.0.0.1:{port}/edge-1/default/a")]))?;
    ensure!(plain.code != Some(0), "{}", plain.text());
    Ok(())
}
