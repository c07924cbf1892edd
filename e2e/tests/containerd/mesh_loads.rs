//! A Service while what is behind it changes: a Deployment that is restarted under load, one that has nothing left, and clients that
//! keep their endpoint.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Instant,
};

use anyhow::{Context, ensure};
use e2e::{
    containerd::{IMAGE, RealRig},
    until,
};
use serde_json::{Value, json};

use crate::{
    case::{apply, pod},
    mesh::{LIMIT, Load, who},
    own_network::in_network_namespace,
};

/// Says its name, answers as ready, and ends when it is asked to.
const SERVE: &str =
    "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait";

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let container = json!({"name": "main", "image": IMAGE, "command": ["sh", "-c", SERVE],
        "readinessProbe": {"httpGet": {"path": "/who", "port": 80}, "periodSeconds": 1},
        // everybody hears that it goes before it does
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 3"]}}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels}, "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 10, "nodeName": "edge-1", "containers": [container]}}}})
}

fn service(name: &str, spec: &Value) -> Value {
    let mut whole = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole})
}

/// Where a Service is.
fn address(rig: &RealRig, name: &str) -> anyhow::Result<SocketAddr> {
    let path = format!("/api/v1/namespaces/default/services/{name}");
    let stands = rig.cloud.api.get(&path)?.context("no service")?;
    let address: Ipv4Addr = stands["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .parse()?;
    Ok((address, 80).into())
}

/// Which pods answer.
fn answering_pods(address: SocketAddr) -> anyhow::Result<BTreeSet<String>> {
    (0..40).map(|_| who(address)).collect()
}

#[test]
fn a_deployment_is_restarted_under_load() -> anyhow::Result<()> {
    in_network_namespace(on_a_node_of_its_own)
}

/// Addresses of services are the same on every node: this one has a network of its own, in which all is that this thread starts.
fn on_a_node_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.restart_with_lines(&[("modules:", "  edgeMesh: {enable: true}")])?;
    let faithful = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}});
    let words = pod("client", &json!({}));
    apply(
        &rig,
        &[
            service("web", &json!({})),
            service("faithful", &faithful),
            deployment(),
            words,
        ],
    )?;
    rig.wait_ready("client")?;
    let rolled = ["rollout", "status", "deployment/web", "--timeout=120s"];
    rig.cloud.kubectl.run(&rolled)?;
    let (web, faithful) = (address(&rig, "web")?, address(&rig, "faithful")?);
    a_pod_reaches_itself_through_its_service(&rig)?;
    let both = |address| {
        until("both pods", || {
            let seen = answering_pods(address)?;
            ensure!(seen.len() == 2, "{seen:?}");
            Ok(seen)
        })
    };
    let before = both(web)?;
    keeps_its_endpoint(&rig, faithful)?;

    let loads = [Load::start(web), Load::start(web)];
    rig.cloud
        .kubectl
        .run(&["rollout", "restart", "deployment/web"])?;
    rig.cloud.kubectl.run(&rolled)?;
    until("the new pods alone", || {
        let seen = answering_pods(web)?;
        ensure!(
            seen.len() == 2 && seen.is_disjoint(&before),
            "{seen:?}, before {before:?}"
        );
        Ok(())
    })?;
    for load in loads {
        ensure!(
            load.end().context("while all pods were replaced")? > 0,
            "nothing was asked"
        );
    }
    // whose endpoint has gone has another one, and keeps that
    keeps_its_endpoint(&rig, faithful)?;

    rig.cloud
        .kubectl
        .run(&["scale", "deployment/web", "--replicas=0"])?;
    until("a Service without endpoints that refuses at once", || {
        let begun = Instant::now();
        let refused = TcpStream::connect_timeout(&web, LIMIT)
            .err()
            .map(|error| error.kind());
        ensure!(refused == Some(ErrorKind::ConnectionRefused), "{refused:?}");
        ensure!(begun.elapsed() < LIMIT / 10, "after {:?}", begun.elapsed());
        Ok(())
    })
}

/// A pod that is the only endpoint of a Service, and its client.
fn a_pod_reaches_itself_through_its_service(rig: &RealRig) -> anyhow::Result<()> {
    let alone = service("alone", &json!({"selector": {"app": "alone"}}));
    apply(
        rig,
        &[
            alone,
            pod(
                "alone",
                &json!({"containers": [{"command": ["sh", "-c", SERVE]}]}),
            ),
        ],
    )?;
    rig.wait_ready("alone")?;
    let address = address(rig, "alone")?.ip();
    let ask = format!("printf 'GET /who HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80 2>&1; true");
    until("its own answer", || {
        let said = rig.inside("alone", &ask)?;
        ensure!(said.ends_with("\nalone\n"), "{said}");
        Ok(())
    })
}

/// Each client has one endpoint, whatever it is.
fn keeps_its_endpoint(rig: &RealRig, faithful: SocketAddr) -> anyhow::Result<()> {
    let seen = answering_pods(faithful)?;
    ensure!(seen.len() == 1, "the machine has {seen:?}");
    let address = faithful.ip();
    let ask = format!(
        "for i in 1 2 3 4 5 6 7 8; do printf 'GET /who HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80 | tail -n 1; done"
    );
    let said = rig.inside("client", &ask)?;
    let seen: BTreeSet<_> = said.lines().collect();
    ensure!(
        seen.len() == 1 && said.lines().count() == 8,
        "a pod has {said}"
    );
    Ok(())
}
