//! What EdgeMesh cannot serve: it is said by the Service's name, in the log and by an event of the node, and all else goes on; also
//! without the capability that routes need.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, NODE, Node, Process, Rig, binary, until};
use serde_json::{Value, json};

use crate::{
    case::apply,
    own_network::{in_network_namespace, ip},
};

/// An address of the machine that is none of the loopback interface's network.
const OWN: &str = "192.0.2.5";
const NODE_PORT: u16 = 30_080;

/// A Service whose one endpoint is at this machine.
fn service(name: &str, endpoint: SocketAddr, spec: &Value) -> [Value; 2] {
    let mut whole = json!({"ports": [{"port": 80}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [endpoint.ip().to_string()], "conditions": {"ready": true}}],
            "ports": [{"name": "", "port": endpoint.port(), "protocol": "TCP"}]}),
    ]
}

/// A server at this machine that answers everybody with one word.
fn answers() -> anyhow::Result<SocketAddr> {
    says("here")
}

fn says(word: &'static str) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((OWN, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(word.as_bytes());
        }
    });
    Ok(address)
}

fn is_answered(address: SocketAddr) -> anyhow::Result<()> {
    let said = said_at(address)?;
    ensure!(said == "here", "{said:?}");
    Ok(())
}

/// What a server says to whoever comes.
fn said_at(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

/// Waits until the cloud has an event of the node that says this.
fn until_told(rig: &Rig, what: &str) -> anyhow::Result<()> {
    until(&format!("an event that says {what}"), || {
        let events = rig.cloud.api.list("/api/v1/events")?;
        let of_mesh = events
            .iter()
            .filter(|event| event["reason"] == "ServiceNotServed");
        let said: Vec<_> = of_mesh
            .map(|event| {
                (
                    event["message"].to_string(),
                    event["involvedObject"]["name"].clone(),
                )
            })
            .collect();
        ensure!(
            said.iter()
                .any(|(said, node)| said.contains(what) && *node == NODE),
            "{said:?}"
        );
        Ok(())
    })
}

fn rig() -> anyhow::Result<Rig> {
    ip(&["address", "add", &format!("{OWN}/32"), "dev", "lo"])?;
    let rig = Rig::start()?;
    rig.node
        .add_after("modules:", "  edgeMesh: {enable: true}")?;
    Ok(rig)
}

#[test]
fn what_cannot_be_served_is_told_by_name() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut rig = rig()?;
        rig.node.process.terminate()?;
        let endpoint = answers()?;
        let taken = TcpListener::bind((OWN, NODE_PORT))?;
        let ports = json!([{"port": 80, "nodePort": NODE_PORT}]);
        let health = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
        let all = [
            service("claims", endpoint, &json!({"externalIPs": [OWN]})),
            service(
                "web",
                endpoint,
                &json!({"type": "NodePort", "ports": ports, "clusterIP": "10.96.0.70"}),
            ),
            service("health", endpoint, &health),
        ];
        apply(&rig, &all.concat())?;
        rig.node.process.start_again()?;
        let said = [
            format!(
                "Service default/claims claims {OWN}, which is this machine's own; existing listeners continue"
            ),
            format!("Service default/web cannot listen on TCP {OWN}:{NODE_PORT}: Address already in use"),
            "Service default/health has the healthCheckNodePort 32000, which is not answered on this node"
                .to_owned(),
        ];
        for what in &said {
            until_told(&rig, what)?;
            ensure!(
                rig.node.process.log().matches(what.as_str()).count() == 1,
                "{what} is not said once"
            );
        }
        until("all else", || {
            is_answered((Ipv4Addr::LOCALHOST, NODE_PORT).into())?;
            is_answered(([10, 96, 0, 70], 80).into())
        })?;
        drop(taken);
        until("the port that is free now", || {
            is_answered(format!("{OWN}:{NODE_PORT}").parse()?)
        })?;
        rig.node
            .process
            .wait_for("ended=\"Service default/web cannot listen on")
    })
}

/// The question for the address of `web.default.svc.cluster.local`, and whether the answer has one.
fn resolves() -> anyhow::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["web", "default", "svc", "cluster", "local", ""] {
        question.push(u8::try_from(label.len())?);
        question.extend(label.as_bytes());
    }
    question.extend([0, 1, 0, 1]);
    socket.send_to(&question, (Ipv4Addr::LOCALHOST, 53))?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    ensure!(
        answer[..length].ends_with(&[10, 96, 0, 70]),
        "{:?}",
        &answer[..length]
    );
    Ok(())
}

#[test]
fn without_cap_net_admin_dns_and_node_ports_work() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut rig = rig()?;
        rig.node.process.terminate()?;
        let (endpoint, ports) = (answers()?, json!([{"port": 80, "nodePort": NODE_PORT}]));
        apply(
            &rig,
            &service(
                "web",
                endpoint,
                &json!({"type": "NodePort", "ports": ports, "clusterIP": "10.96.0.70"}),
            ),
        )?;
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"])
            .arg(binary(AGENT)?);
        command.args(Node::command(&rig.node.config)?.get_args());
        let mut process = Process::start("without-net-admin", command, rig.directory.path())?;
        process
            .wait_for("edge-agent started")
            .context("setpriv (util-linux) is installed")?;
        until("a NodePort", || {
            is_answered((Ipv4Addr::LOCALHOST, NODE_PORT).into())
        })?;
        until("DNS", resolves)?;
        until_told(
            &rig,
            "Services have no addresses on this node: routes need the capability CAP_NET_ADMIN",
        )?;
        process.wait_for("cluster names resolve on this machine only")?;
        let routes = ip(&["route", "show", "table", "local", "proto", "77"])?;
        ensure!(routes.trim().is_empty(), "{routes}");
        let shown = ip(&["-oneline", "address", "show"])?;
        ensure!(!shown.contains("edge-dummy0"), "{shown}");
        process.terminate().map(drop)
    })
}

/// Istio's kind as far as EdgeMesh reads it, and nodes that may read it.
fn destination_rules() -> [Value; 3] {
    let (group, name) = (
        "networking.istio.io",
        "destinationrules.networking.istio.io",
    );
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let rbac = "rbac.authorization.k8s.io";
    [
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {
            "group": group, "scope": "Namespaced", "versions": [{"name": "v1alpha3", "served": true, "storage": true, "schema": schema}],
            "names": {"kind": "DestinationRule", "plural": "destinationrules", "singular": "destinationrule"}}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "mesh"},
            "rules": [{"apiGroups": [group], "resources": ["destinationrules"], "verbs": ["get", "list", "watch"]}]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "mesh"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "mesh"},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:nodes"}]}),
    ]
}

fn rule(balancer: &Value) -> Value {
    json!({"apiVersion": "networking.istio.io/v1alpha3", "kind": "DestinationRule", "metadata": {"name": "web"},
        "spec": {"host": "web", "trafficPolicy": {"loadBalancer": balancer}}})
}

#[test]
fn destination_rules_say_how_endpoints_are_chosen() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut rig = rig()?;
        rig.node.process.terminate()?;
        apply(&rig, &destination_rules())?;
        rig.cloud.kubectl.run(&[
            "wait",
            "--for=condition=Established",
            "crd/destinationrules.networking.istio.io",
            "--timeout=60s",
        ])?;
        let [web, mut first] = service("web", says("1")?, &json!({"clusterIP": "10.96.0.70"}));
        let [_, mut second] = service("web", says("2")?, &json!({}));
        first["metadata"]["name"] = "web-1".into();
        second["metadata"]["name"] = "web-2".into();
        apply(
            &rig,
            &[web, first, second, rule(&json!({"simple": "ROUND_ROBIN"}))],
        )?;
        rig.node.process.start_again()?;
        let twenty = || -> anyhow::Result<String> {
            (0..20)
                .map(|_| said_at(([10, 96, 0, 70], 80).into()))
                .collect()
        };
        let in_turn = ["12".repeat(10), "21".repeat(10)];
        until("one endpoint after the other", || {
            let said = twenty()?;
            ensure!(in_turn.contains(&said), "{said}");
            Ok(())
        })?;
        apply(
            &rig,
            &[rule(&json!({"consistentHash": {"useSourceIp": true}}))],
        )?;
        until("one endpoint for one client", || {
            let said = twenty()?;
            ensure!(said == "1".repeat(20) || said == "2".repeat(20), "{said}");
            Ok(())
        })?;
        apply(
            &rig,
            &[rule(&json!({"consistentHash": {"httpHeaderName": "user"}}))],
        )?;
        until_told(
            &rig,
            "Service default/web has a DestinationRule with consistentHash by something else than useSourceIp",
        )
    })
}
