//! Pods find Services by name at their own node, also while the cloud is away.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, pod},
    own_network::in_network_namespace,
};

/// EdgeMesh's address for DNS.
const ADDRESS: &str = "169.254.96.16";
/// A web server that says who it is.
const SERVE: &str =
    "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn pods_find_services_by_name() -> anyhow::Result<()> {
    in_network_namespace(on_a_node_of_its_own)
}

/// The address is the same on every node: this one has a network of its own, in which all is that this thread starts.
fn on_a_node_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with_lines(&[("modules:", "  edgeMesh: {enable: true}")])?;
    let web = json!({"containers": [{"command": ["sh", "-c", SERVE]}]});
    let db = json!({"hostname": "db-0", "subdomain": "db"});
    apply(
        &rig,
        &[
            service(
                "web",
                &json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}),
            ),
            service(
                "db",
                &json!({"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"name": "pg", "port": 5432}]}),
            ),
            pod("web", &web),
            pod("db", &db),
            pod("client", &json!({})),
            pod("as-the-node", &json!({"dnsPolicy": "Default"})),
        ],
    )?;
    for name in ["web", "db", "client", "as-the-node"] {
        rig.wait_ready(name)?;
    }
    let resolver = rig.inside("client", "cat /etc/resolv.conf")?;
    ensure!(
        resolver.contains(&format!("nameserver {ADDRESS}\n")),
        "{resolver}"
    );
    ensure!(
        resolver.contains("search default.svc.cluster.local svc.cluster.local cluster.local"),
        "{resolver}"
    );
    ensure!(resolver.contains("options ndots:5"), "{resolver}");
    let other = rig.inside("as-the-node", "cat /etc/resolv.conf")?;
    ensure!(!other.contains(ADDRESS), "{other}");
    let client = RealRig::container_id(&rig.wait_ready("client")?, "main")?;
    let db = rig.inside("db", "hostname -i")?;
    finds_all(&rig, &client, db.trim())?;

    // the power fails, and comes back before the cloud does
    rig.cloud.process.kill()?;
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    finds_all(&rig, &client, db.trim())
}

/// What a container is told of Services, and of what is none; `db`: the address behind the headless one.
fn finds_all(rig: &RealRig, client: &str, db: &str) -> anyhow::Result<()> {
    // the runtime itself, since the cloud may be away
    let inside = |words: &str| rig.containerd.cri.exec(client, &["sh", "-c", words]);
    let resolves = |name: &str| resolves(&inside, name);
    let web = until("web's address", || resolves("web"))?;
    for name in [
        "web.default",
        "web.default.svc",
        "web.default.svc.cluster.local",
    ] {
        ensure!(resolves(name)? == web, "{name} is not {web}");
    }
    for name in ["db", "db-0.db", "db-0.db.default.svc.cluster.local"] {
        let found = until(name, || resolves(name))?;
        ensure!(found.to_string() == db, "{name} is {found}, not {db}");
    }
    let begun = Instant::now();
    let none = inside("nslookup none.default.svc.cluster.local 2>&1; true")?;
    ensure!(none.contains("NXDOMAIN"), "{none}");
    ensure!(
        begun.elapsed() < Duration::from_secs(3),
        "no such Service takes {:?}",
        begun.elapsed()
    );
    until("the web server behind its Service's name", || {
        let said =
            inside("printf 'GET /who HTTP/1.0\\r\\n\\r\\n' | nc -w 2 web.default 80 2>&1; true")?;
        ensure!(said.ends_with("\nweb\n"), "{web}: {said}");
        Ok(())
    })
}

/// The address that a program in a pod finds, with its libc.
fn resolves(
    inside: &impl Fn(&str) -> anyhow::Result<String>,
    name: &str,
) -> anyhow::Result<IpAddr> {
    // its first line has the address, whether or not that answers
    let said = inside(&format!("ping -c 1 -W 1 {name} 2>&1 | head -n 1"))?;
    let address = said
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(address, _)| address);
    address
        .with_context(|| said.clone())?
        .parse()
        .with_context(|| said.clone())
}
