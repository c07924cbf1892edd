//! What pods call themselves and whom they ask for names; containers that look into others.

use std::fs;

use anyhow::{Context, ensure};
use e2e::{
    containerd::{IMAGE, RealRig},
    until,
};
use serde_json::json;

use crate::case::{Case, check, leaves_nothing};

#[test]
fn names_and_resolvers() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let nodes = fs::read_to_string("/etc/resolv.conf")?;
    let server = nodes
        .lines()
        .find_map(|line| line.strip_prefix("nameserver "))
        .unwrap_or("127.0.0.1")
        .trim();
    let servers = format!("grep -cxF 'nameserver {server}' /etc/resolv.conf");
    check(
        &rig,
        &[
            Case {
                name: "member",
                spec: json!({"hostname": "a", "subdomain": "db", "containers": [{}]}),
                inside: vec![
                    ("hostname", "a"),
                    (
                        "grep -c \"a.db.default.svc.cluster.local.a$\" /etc/hosts",
                        "1",
                    ),
                ],
            },
            Case {
                name: "full",
                spec: json!({"hostname": "a", "subdomain": "db", "setHostnameAsFQDN": true, "containers": [{}]}),
                inside: vec![("hostname", "a.db.default.svc.cluster.local")],
            },
            Case {
                name: "as-the-node",
                spec: json!({"dnsPolicy": "Default", "containers": [{}]}),
                inside: vec![(&servers, "1")],
            },
            Case {
                name: "as-the-host",
                spec: json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true, "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["far"]}]}),
                inside: vec![("grep -c 192.0.2.9 /etc/hosts", "1")],
            },
            Case {
                name: "own",
                spec: json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}}),
                inside: vec![("cat /etc/resolv.conf", "nameserver 192.0.2.1")],
            },
        ],
    )?;
    leaves_nothing(&rig)
}

#[test]
fn names_are_asked_of_the_cluster_or_of_the_node() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let nodes = rig.directory.path().join("resolv.conf");
    fs::write(
        &nodes,
        "search lan\nnameserver 192.0.2.1\noptions timeout:3\n",
    )?;
    rig.restart_with(&[
        ("clusterDNS", "[192.0.2.10, 192.0.2.11]"),
        ("resolvConf", &nodes.display().to_string()),
    ])?;
    let cluster = "search default.svc.cluster.local svc.cluster.local cluster.local lan\n\
                   nameserver 192.0.2.10\nnameserver 192.0.2.11\noptions ndots:5";
    let node = "search lan\nnameserver 192.0.2.1\noptions timeout:3";
    let more = "search default.svc.cluster.local svc.cluster.local cluster.local lan lab\n\
                nameserver 192.0.2.10\nnameserver 192.0.2.11\nnameserver 192.0.2.12\noptions ndots:2";
    let asks = |name, spec, text| Case {
        name,
        spec,
        inside: vec![("cat /etc/resolv.conf", text)],
    };
    let own = json!({"nameservers": ["192.0.2.12"], "searches": ["lab"], "options": [{"name": "ndots", "value": "2"}]});
    check(
        &rig,
        &[
            asks("cluster", json!({}), cluster),
            asks("on-the-node", json!({"hostNetwork": true}), node),
            asks(
                "both",
                json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}),
                cluster,
            ),
            asks("node", json!({"dnsPolicy": "Default"}), node),
            asks("more", json!({"dnsConfig": own}), more),
        ],
    )?;
    leaves_nothing(&rig)
}

#[test]
fn a_container_looks_into_a_pod() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let watched = json!({"volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"command": ["sh", "-c", "trap 'exit 0' TERM; sleep 43210 & wait"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]});
    check(
        &rig,
        &[Case {
            name: "watched",
            spec: watched,
            inside: vec![],
        }],
    )?;
    let list = |words: &str| json!(["sh", "-c", words]);
    let look = "ps > /v/ps; echo $WHO > /v/who; [ -t 0 ] && echo tty >> /v/who; mv /v/ps /v/seen; sleep 1000000";
    let patch = json!({"spec": {"ephemeralContainers": [{
        "name": "look", "image": IMAGE, "command": list(look), "targetContainerName": "main", "stdin": true, "tty": true,
        "env": [{"name": "WHO", "value": "me"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }]}});
    rig.cloud.kubectl.run(&[
        "patch",
        "pod",
        "watched",
        "--subresource=ephemeralcontainers",
        "--type=merge",
        "-p",
        &patch.to_string(),
    ])?;
    until("what the container saw", || {
        rig.inside("watched", "cat /v/seen")
    })?;
    ensure!(
        rig.inside("watched", "grep -c 'sleep 4321[0]' /v/seen")?
            .trim()
            >= "1",
        "it sees no processes of its target"
    );
    ensure!(
        rig.inside("watched", "cat /v/who")? == "me\ntty\n",
        "{}",
        rig.inside("watched", "cat /v/who")?
    );
    let seen = rig.wait_pod("watched", |pod| {
        let status = &pod["status"]["ephemeralContainerStatuses"][0];
        if status["state"]["running"].is_object() {
            Ok(())
        } else {
            Err("it does not run".into())
        }
    })?;
    let main = seen["status"]["containerStatuses"]
        .get(0)
        .context("no status")?;
    ensure!(main["restartCount"] == 0 && main["ready"] == true, "{main}");
    leaves_nothing(&rig)
}
