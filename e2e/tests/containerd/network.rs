//! Network and process namespaces.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
};

use anyhow::ensure;
use e2e::{Ports, containerd::RealRig, until};
use serde_json::json;

use crate::case::{Case, check, leaves_nothing};

const SERVE: &str = "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p $PORT -h /www & wait";

#[test]
fn networks_and_namespaces() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let port = Ports::free()?.api;
    let serve =
        |port: &str| json!({"command": ["sh", "-c", SERVE], "env": [{"name": "PORT", "value": port}]});
    let mut server = json!({"containers": [serve("80")]});
    server["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    server["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"port": 80, "path": "/who"}, "periodSeconds": 1});
    // as soon as its sleep can be seen
    let sleeps = json!({"exec": {"command": ["sh", "-c", "test $(ps | grep -c '[s]leep 54321') = 2"]}, "periodSeconds": 1});
    let node = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let namespace = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}"));
    let [network, processes, messages] = [namespace("net")?, namespace("pid")?, namespace("ipc")?];
    let own = [network.to_string_lossy(), processes.to_string_lossy(), messages.to_string_lossy()];
    check(
        &rig,
        &[
            Case { name: "server", spec: server, inside: vec![("cat /www/who", "server")] },
            Case {
                name: "on-the-host",
                spec: json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}),
                inside: vec![
                    ("readlink /proc/self/ns/net", &own[0]),
                    ("readlink /proc/self/ns/pid", &own[1]),
                    ("readlink /proc/self/ns/ipc", &own[2]),
                    ("hostname", node.trim()),
                ],
            },
            Case {
                name: "together",
                spec: json!({"shareProcessNamespace": true, "containers": [{}, {"name": "second", "image": e2e::containerd::IMAGE,
                "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 54321 & wait"], "readinessProbe": sleeps}]}),
                inside: vec![("ps | grep -c '[s]leep 54321'", "2")],
            },
        ],
    )?;
    let seen = rig.wait_ready("server")?;
    let ip: Ipv4Addr = seen["status"]["podIP"].as_str().unwrap_or_default().parse()?;
    ensure!(seen["status"]["podIPs"][0]["ip"] == ip.to_string(), "podIPs: {}", seen["status"]);
    ensure!(get(ip, 80)? == "server\n", "the pod is not reached by its address");
    // the port of the node leads there by rules of the kernel, which the plugin writes
    until("the pod behind the node's port", || match get(Ipv4Addr::LOCALHOST, port) {
        Ok(text) if text == "server\n" => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let host = rig.wait_ready("on-the-host")?;
    ensure!(host["status"]["podIP"] == "127.0.0.1", "the address of a pod on the host: {}", host["status"]);
    leaves_nothing(&rig)
}

fn get(ip: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect((ip, port))?;
    stream.set_read_timeout(Some(e2e::PATIENCE))?;
    stream.write_all(b"GET /who HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.rsplit_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
