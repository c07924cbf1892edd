//! Services by their addresses on a node with EdgeMesh: from pods and from the machine, with the cloud and without, after the agent
//! was killed, and nothing is left of it in the end.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use e2e::{AGENT, binary, containerd::RealRig, run, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    network::answer_datagrams,
    own_network::{in_network_namespace, ip},
    resources::{pid_of, unusual},
};

/// A pod that says its name to whoever asks; while it ends it goes on for so long that everybody hears of it.
const SERVE: &str =
    "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait";
const DRAIN: &str = "sleep 3";
/// How long an answer may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// The addresses that the agent has made this machine's.
fn routes() -> anyhow::Result<String> {
    ip(&["route", "show", "table", "local", "proto", "77"])
}

fn web(name: &str) -> Value {
    let mut web = pod(
        name,
        &json!({"terminationGracePeriodSeconds": 10, "containers": [{"command": ["sh", "-c", SERVE, unusual(name)],
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", DRAIN]}}}}]}),
    );
    web["metadata"]["labels"] = json!({"app": "web"});
    web
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "type": "NodePort", "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80}, {"name": "words", "port": 53, "targetPort": 5353, "protocol": "UDP"}]}})
}

/// Which pod answers.
pub(crate) fn who(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).context("connect")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream
        .write_all(b"GET /who HTTP/1.0\r\n\r\n")
        .context("write")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read")?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    answer.lines().last().map(str::to_owned).context("no name")
}

/// Waits until exactly these pods answer.
fn until_these(address: SocketAddr, names: &[&str]) -> anyhow::Result<()> {
    let wanted: BTreeSet<_> = names.iter().map(|name| (*name).to_owned()).collect();
    until(&format!("{names:?} behind {address}"), || {
        let seen: BTreeSet<_> = (0..40).map(|_| who(address)).collect::<Result<_, _>>()?;
        ensure!(seen == wanted, "{seen:?}");
        Ok(())
    })
}

/// What comes back for a datagram.
fn words(address: SocketAddr) -> anyhow::Result<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.connect(address)?;
    socket.send(b"!")?;
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Asks again and again; in the end, how many were answered, or the first that was not.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    asking: JoinHandle<anyhow::Result<u32>>,
}

impl Load {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let end = ends.clone();
        let asking = thread::spawn(move || {
            let mut answered = 0;
            while !end.load(Ordering::Relaxed) {
                who(address).with_context(|| format!("after {answered} answers"))?;
                answered += 1;
            }
            Ok(answered)
        });
        Self { ends, asking }
    }

    pub(crate) fn end(self) -> anyhow::Result<u32> {
        self.ends.store(true, Ordering::Relaxed);
        self.asking
            .join()
            .map_err(|_| anyhow!("the load panicked"))?
    }
}

#[test]
fn services_have_their_addresses_on_the_node() -> anyhow::Result<()> {
    in_network_namespace(on_a_node_of_its_own)
}

/// Addresses of services are the same on every node: this one has a network of its own, in which all is that this thread starts.
fn on_a_node_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with_lines(&[("modules:", "  edgeMesh: {enable: true}")])?;
    apply(
        &rig,
        &[
            service(),
            web("web-1"),
            web("web-2"),
            pod("client", &json!({})),
        ],
    )?;
    for name in ["web-1", "web-2", "client"] {
        rig.wait_ready(name)?;
    }
    let stands = rig
        .cloud
        .api
        .get("/api/v1/namespaces/default/services/web")?
        .context("no service")?;
    let address: Ipv4Addr = stands["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .parse()?;
    let node_port = stands["spec"]["ports"][0]["nodePort"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok());
    let http = SocketAddr::from((address, 80));

    until_these(http, &["web-1", "web-2"])?;
    until_these(
        (
            Ipv4Addr::LOCALHOST,
            node_port.context("no port of the node")?,
        )
            .into(),
        &["web-1", "web-2"],
    )?;
    let ask = format!("printf 'GET /who HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80");
    let from_a_pod = rig.inside("client", &ask)?;
    ensure!(
        from_a_pod
            .lines()
            .last()
            .is_some_and(|name| name.starts_with("web-")),
        "{from_a_pod}"
    );
    datagrams((address, 53).into())?;
    let refused = TcpStream::connect_timeout(&(address, 81).into(), LIMIT)
        .err()
        .map(|error| error.kind());
    ensure!(
        refused == Some(std::io::ErrorKind::ConnectionRefused),
        "a port that is none: {refused:?}"
    );
    // row 7 of docs/mesh-behaviour.md
    rig.inside("client", &format!("ping -c 1 -W 5 {address}"))?;
    variables(&rig, address)?;

    // a pod goes while all is in use
    let load = Load::start(http);
    rig.cloud.kubectl.run(&["delete", "pod", "web-2"])?;
    until_these(http, &["web-1"])?;
    let answered = load.end().context("while a pod went")?;
    ensure!(answered > 0, "nothing was asked");

    without_the_cloud(&mut rig, http)?;
    nothing_stays(&mut rig, http)
}

/// UDP goes to a pod and back.
fn datagrams(address: SocketAddr) -> anyhow::Result<()> {
    for name in ["web-1", "web-2"] {
        answer_datagrams(&pid_of(&unusual(name))?, 5353, "heard")?;
    }
    until("an answer to a datagram", || {
        let answer = words(address)?;
        ensure!(answer == "heard!", "{answer}");
        Ok(())
    })
}

/// A pod that starts now is told of services by its variables.
fn variables(rig: &RealRig, address: Ipv4Addr) -> anyhow::Result<()> {
    apply(rig, &[pod("late", &json!({}))])?;
    rig.wait_ready("late")?;
    let told = rig.inside(
        "late",
        "echo $WEB_SERVICE_HOST:$WEB_SERVICE_PORT $KUBERNETES_SERVICE_HOST",
    )?;
    ensure!(told.trim() == format!("{address}:80 10.96.0.1"), "{told}");
    Ok(())
}

/// The cloud goes, the agent is killed, and starts with what it has on disk.
fn without_the_cloud(rig: &mut RealRig, http: SocketAddr) -> anyhow::Result<()> {
    rig.cloud.process.kill()?;
    until_these(http, &["web-1"])?;
    rig.node.process.kill()?;
    ensure!(
        routes()?.contains(&http.ip().to_string()),
        "it was killed, and could not clean up"
    );
    rig.node.process.start_again()?;
    until_these(http, &["web-1"])?;
    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    apply(rig, &[web("web-3")])?;
    until_these(http, &["web-1", "web-3"])
}

/// An agent that ends gives up all addresses, and a reset those of one that was killed.
fn nothing_stays(rig: &mut RealRig, http: SocketAddr) -> anyhow::Result<()> {
    rig.cloud.kubectl.run(&["delete", "service", "web"])?;
    until("the address is given up", || {
        let routes = routes()?;
        ensure!(!routes.contains(&http.ip().to_string()), "{routes}");
        Ok(())
    })?;
    apply(rig, &[service()])?;
    rig.node.process.terminate()?;
    let left = routes()?;
    ensure!(
        left.trim().is_empty(),
        "left by an agent that has ended: {left}"
    );
    rig.node.process.start_again()?;
    until("the addresses are there again", || match routes()?.trim() {
        "" => bail!("none"),
        _ => Ok(()),
    })?;
    leaves_nothing(rig)?;
    rig.node.process.kill()?;
    let mut reset = Command::new(binary(AGENT)?);
    // of this test's agent, and not of this machine's
    reset
        .args(["reset", "--force", "--root"])
        .arg(rig.directory.path());
    run(reset.arg("--config").arg(&rig.node.config))?.success()?;
    let left = routes()?;
    ensure!(left.trim().is_empty(), "left by a reset: {left}");
    // the address of DNS, and the interface that was made for it
    let left = ip(&["-oneline", "address", "show"])?;
    ensure!(
        !left.contains("169.254.") && !left.contains("edge-dummy0"),
        "left by a reset: {left}"
    );
    Ok(())
}
