//! Network and process namespaces.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream, UdpSocket},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{Ports, containerd::RealRig, until};
use nix::sched::{CloneFlags, setns};
use serde_json::{Value, json};

use crate::{
    case::{Case, apply, check, leaves_nothing, pod},
    resources::{pid_of, unusual},
};

const SERVE: &str =
    "mkdir /www; hostname > /www/who; trap 'exit 0' TERM; httpd -f -p $PORT -h /www & wait";

#[test]
fn networks_and_namespaces() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let port = Ports::free()?.api;
    let serve = |port: &str| json!({"command": ["sh", "-c", SERVE], "env": [{"name": "PORT", "value": port}]});
    let mut server = json!({"containers": [serve("80")]});
    server["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    server["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"port": 80, "path": "/who"}, "periodSeconds": 1});
    // as soon as its sleep can be seen
    let sleeps = json!({"exec": {"command": ["sh", "-c", "test $(ps | grep -c '[s]leep 54321') = 2"]}, "periodSeconds": 1});
    let node = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}"));
    let [network, processes, messages] = [namespace("net")?, namespace("pid")?, namespace("ipc")?];
    let own = [
        network.to_string_lossy(),
        processes.to_string_lossy(),
        messages.to_string_lossy(),
    ];
    check(
        &rig,
        &[
            Case {
                name: "server",
                spec: server,
                inside: vec![("cat /www/who", "server")],
            },
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
    let ip: Ipv4Addr = seen["status"]["podIP"]
        .as_str()
        .unwrap_or_default()
        .parse()?;
    ensure!(
        seen["status"]["podIPs"][0]["ip"] == ip.to_string(),
        "podIPs: {}",
        seen["status"]
    );
    ensure!(
        get(ip, 80)? == "server\n",
        "the pod is not reached by its address"
    );
    // the port of the node leads there by rules of the kernel, which the plugin writes
    until("the pod behind the node's port", || {
        match get(Ipv4Addr::LOCALHOST, port) {
            Ok(text) if text == "server\n" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let host = rig.wait_ready("on-the-host")?;
    ensure!(
        host["status"]["podIP"] == "127.0.0.1",
        "the address of a pod on the host: {}",
        host["status"]
    );
    leaves_nothing(&rig)
}

/// Answers each datagram in the network of the process with its own words and those of the datagram, until the test ends.
pub(crate) fn answer_datagrams(pid: &str, port: u16, words: &'static str) -> anyhow::Result<()> {
    let network = fs::File::open(format!("/proc/{pid}/ns/net"))?;
    let (told, bound) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // of this thread only: the test stays where it is
        let socket = setns(network, CloneFlags::CLONE_NEWNET)
            .map_err(io::Error::from)
            .and_then(|()| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)));
        let Ok(socket) = socket else {
            return drop(told.send(socket.map(drop)));
        };
        let _ = told.send(Ok(()));
        let mut buffer = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&[words.as_bytes(), &buffer[..length]].concat(), from);
        }
    });
    Ok(bound.recv()??)
}

/// What comes back for a datagram, if anything.
fn ask(ip: Ipv4Addr, port: u16) -> io::Result<String> {
    // a new one each time: the kernel remembers for each where its datagrams went before there were rules
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    socket.connect((ip, port))?;
    socket.send(b"!")?;
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[test]
fn ports_of_the_node_lead_to_pods_by_protocol_and_address() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let (all, one) = (Ports::free()?.api, Ports::free()?.api);
    let serves = |name: &str, ports: Value| {
        let (command, env) = (
            ["sh", "-c", SERVE, &unusual(name)],
            json!([{"name": "PORT", "value": "80"}]),
        );
        pod(
            name,
            &json!({"containers": [{"command": command, "env": env, "ports": ports}]}),
        )
    };
    let port = |protocol: &str, inner: u16, outer: u16, ip: &str| json!({"containerPort": inner, "hostPort": outer, "protocol": protocol, "hostIP": ip});
    // one number for both protocols, and one for two addresses
    apply(
        &rig,
        &[
            serves(
                "both",
                json!([port("UDP", 53, all, ""), port("TCP", 80, all, "")]),
            ),
            serves("here", json!([port("TCP", 80, one, "127.0.0.1")])),
            serves("there", json!([port("TCP", 80, one, "127.0.0.2")])),
        ],
    )?;
    for name in ["both", "here", "there"] {
        rig.wait_ready(name)?;
    }
    answer_datagrams(&pid_of(&unusual("both"))?, 53, "both")?;
    let second = Ipv4Addr::new(127, 0, 0, 2);
    until(
        "the pod behind the node's port for datagrams",
        || match ask(Ipv4Addr::LOCALHOST, all) {
            Ok(text) if text == "both!" => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )?;
    for (ip, port, name) in [
        (Ipv4Addr::LOCALHOST, all, "both"),
        (Ipv4Addr::LOCALHOST, one, "here"),
        (second, one, "there"),
    ] {
        until(&format!("{name} behind {ip}:{port}"), || {
            match get(ip, port) {
                Ok(text) if text.trim_end() == name => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })?;
    }
    leaves_nothing(&rig)?;
    let left = [
        get(Ipv4Addr::LOCALHOST, all),
        get(Ipv4Addr::LOCALHOST, one),
        get(second, one),
    ];
    ensure!(
        left.iter().all(Result::is_err),
        "ports lead somewhere without their pods: {left:?}"
    );
    Ok(())
}

/// Ends a pod when libcni's file of its network has become `text`; whether the runtime alone refuses to.
fn ends_with_result(rig: &RealRig, name: &str, text: &str) -> anyhow::Result<bool> {
    apply(rig, &[pod(name, &json!({}))])?;
    rig.wait_ready(name)?;
    let ready = rig.containerd.raw_cri.sandboxes(None)?;
    let id = ready.first().context("a sandbox")?.id.as_str();
    let result = rig.containerd.network_result(id);
    ensure!(
        fs::read_to_string(&result)?.contains(id),
        "{} is not of the pod",
        result.display()
    );
    fs::write(&result, text)?;
    let refused = rig.containerd.raw_cri.stop_sandbox(id).is_err();
    leaves_nothing(rig)?;
    ensure!(!result.exists(), "{} is left", result.display());
    Ok(refused)
}

/// A power cut, or the end of a runtime that was writing, leaves them so. Runtimes with libcni 1.2 need no help.
#[test]
fn pods_end_whose_network_results_are_empty_or_cut_short() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let empty = ends_with_result(&rig, "empty", "")?;
    let cut_short = ends_with_result(&rig, "cut-short", r#"{"kind":"cniCacheV1","contai"#)?;
    let log = rig.node.process.log();
    let told = log.matches("truncated by a kill").count();
    ensure!(
        told == usize::from(empty) + usize::from(cut_short),
        "told {told} times: {log}"
    );
    Ok(())
}

fn get(ip: Ipv4Addr, port: u16) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect((ip, port))?;
    stream.set_read_timeout(Some(testkit::PROCESS_TIMEOUT))?;
    stream.write_all(b"GET /who HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text
        .rsplit_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
        .unwrap_or_default())
}
