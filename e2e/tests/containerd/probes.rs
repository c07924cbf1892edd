//! Probes of every kind, and what comes of them.

use std::{fs, net::TcpListener, process::Command, sync::atomic::Ordering};

use anyhow::ensure;
use e2e::{Cloud, Ports, Process, containerd::RealRig, run, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    server::{HealthServer, HttpServer},
};

fn ready(pod: &Value) -> Result<(), String> {
    if pod["status"]["containerStatuses"][0]["ready"] == true {
        Ok(())
    } else {
        Err("it is not ready".into())
    }
}

fn unready(pod: &Value) -> Result<(), String> {
    let status = &pod["status"]["containerStatuses"][0];
    let runs = status["state"]["running"].is_object() && status["restartCount"] == 0;
    if runs && status["ready"] == false { Ok(()) } else { Err("it is not running and unready".into()) }
}

/// The messages of the events about this pod with this reason.
pub(crate) fn events(cloud: &impl AsRef<Cloud>, pod: &str, reason: &str) -> anyhow::Result<Vec<String>> {
    let selector = format!("involvedObject.name={pod},reason={reason}");
    let listed = cloud.as_ref().kubectl.json(&["get", "events", "--field-selector", &selector])?;
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().filter_map(|event| event["message"].as_str().map(str::to_owned)).collect())
}

/// Waits for an event with this text.
pub(crate) fn wait_event(
    cloud: &impl AsRef<Cloud>,
    pod: &str,
    reason: &str,
    text: &str,
) -> anyhow::Result<()> {
    until(&format!("event {reason} of {pod}"), || {
        let all = events(cloud, pod, reason)?;
        ensure!(all.iter().any(|message| message.contains(text)), "{all:?}");
        Ok(())
    })
}

/// A TLS server with a certificate that nobody vouches for.
fn https(rig: &RealRig, port: u16) -> anyhow::Result<Process> {
    let at = |name: &str| rig.directory.path().join(name).display().to_string();
    let (key, certificate) = (at("tls.key"), at("tls.crt"));
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=nobody",
    ]);
    run(make.args(["-keyout", &key, "-out", &certificate]))?.success()?;
    let mut serve = Command::new("openssl");
    serve.args(["s_server", "-www", "-accept", &port.to_string(), "-key", &key, "-cert", &certificate]);
    let mut server = Process::start("openssl", serve, rig.directory.path())?;
    server.wait_for("ACCEPT")?;
    Ok(server)
}

#[test]
fn readiness_probes_of_every_kind() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let (http, grpc) = (HttpServer::start()?, HealthServer::start()?);
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let (tcp_port, tls_port) = (tcp.local_addr()?.port(), Ports::free()?.api);
    let mut tls = https(&rig, tls_port)?;
    let probed = |name: &str, mut probe: Value| {
        probe["periodSeconds"] = 1.into();
        probe["failureThreshold"] = 1.into();
        // on the node's network a port is one pod's
        let named = json!([{"name": "named", "containerPort": http.port}]);
        let ports = if name == "http" { named } else { json!([]) };
        pod(name, &json!({"hostNetwork": true, "containers": [{"readinessProbe": probe, "ports": ports}]}))
    };
    let headers = json!([{"name": "X-Probe", "value": "me"}]);
    apply(
        &rig,
        &[
            probed("exec", json!({"exec": {"command": ["test", "!", "-e", "/tmp/bad"]}})),
            probed(
                "http",
                json!({"httpGet": {"port": "named", "path": "/ready?x=y", "httpHeaders": headers}}),
            ),
            probed("https", json!({"httpGet": {"port": tls_port, "scheme": "HTTPS", "host": "localhost"}})),
            probed("tcp", json!({"tcpSocket": {"port": tcp_port}})),
            probed("grpc", json!({"grpc": {"port": grpc.port, "service": "store"}})),
        ],
    )?;
    let all = ["exec", "http", "https", "tcp", "grpc"];
    for name in all {
        rig.wait_pod(name, ready)?;
    }
    let request = http.asked("/ready?x=y").unwrap_or_default().to_lowercase();
    for part in ["x-probe: me", "user-agent: kube-probe/", "get /ready?x=y http/1.1"] {
        ensure!(request.contains(part), "the request: {request}");
    }
    rig.inside("exec", "touch /tmp/bad")?;
    http.well.store(false, Ordering::SeqCst);
    grpc.well.store(false, Ordering::SeqCst);
    tls.kill()?;
    drop(tcp);
    for name in all {
        rig.wait_pod(name, unready)?;
    }
    for (name, text) in [
        ("http", "HTTP probe failed with statuscode: 503"),
        ("https", "connection refused"),
        ("tcp", "connection refused"),
        ("grpc", "service unhealthy (responded with \"NOT_SERVING\")"),
    ] {
        wait_event(&rig, name, "Unhealthy", text)?;
    }
    rig.inside("exec", "rm /tmp/bad")?;
    http.well.store(true, Ordering::SeqCst);
    grpc.well.store(true, Ordering::SeqCst);
    for name in ["exec", "http", "grpc"] {
        rig.wait_pod(name, ready)?;
    }
    leaves_nothing(&rig)
}

#[test]
fn liveness_and_startup_probes_restart() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("notes");
    fs::create_dir(&host)?;
    let noted = |name: &str, words: &str, probes: Value| {
        let mut container =
            json!({"command": ["sh", "-c", words], "volumeMounts": [{"name": "n", "mountPath": "/n"}]});
        if let (Value::Object(container), Value::Object(probes)) = (&mut container, probes) {
            container.extend(probes);
        }
        pod(
            name,
            &json!({"terminationGracePeriodSeconds": 300, "volumes": [{"name": "n", "hostPath": {"path": host}}],
                "containers": [container]}),
        )
    };
    let forever = "trap 'exit 0' TERM; sleep 2147483647 & wait";
    let deaf = "trap '' TERM; while :; do sleep 1; done";
    // that a program starts late on a busy machine is no failure of it
    let probe = |command: &str| json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 30});
    let mut short = probe("test ! -e /n/die");
    short["terminationGracePeriodSeconds"] = 1.into();
    let mut patient = probe("test -e /n/up");
    patient["failureThreshold"] = 1000.into();
    let never = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2, "terminationGracePeriodSeconds": 1});
    apply(
        &rig,
        &[
            noted("alive", forever, json!({"livenessProbe": probe("test ! -e /tmp/bad")})),
            // its own time is short, the pod's long
            noted("deaf", deaf, json!({"livenessProbe": short})),
            noted("late", forever, json!({"startupProbe": patient, "livenessProbe": probe("test -e /n/up")})),
            noted("never", forever, json!({"startupProbe": never})),
            noted(
                "slow",
                forever,
                json!({"readinessProbe": {"exec": {"command": ["true"]},
                "initialDelaySeconds": 2, "successThreshold": 2, "periodSeconds": 1, "timeoutSeconds": 5}}),
            ),
        ],
    )?;
    for name in ["alive", "deaf"] {
        rig.wait_pod(name, ready)?;
    }
    let late = rig.wait_pod("late", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        if status["state"]["running"].is_object() && status["started"] == false {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    ensure!(
        late["status"]["containerStatuses"][0]["ready"] == false,
        "a container is ready before it has started"
    );
    fs::write(host.join("up"), "")?;
    rig.wait_pod("late", ready)?;
    rig.inside("alive", "touch /tmp/bad")?;
    fs::write(host.join("die"), "")?;
    for (name, why) in [("alive", "liveness"), ("deaf", "liveness"), ("never", "startup")] {
        rig.wait_pod(name, |pod| {
            let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
            if count >= 1 { Ok(()) } else { Err("it is not restarted".into()) }
        })?;
        wait_event(&rig, name, "Killing", &format!("Container main failed {why} probe, will be restarted"))?;
    }
    fs::remove_file(host.join("die"))?;
    rig.wait_pod("alive", ready)?;
    let slow = rig.wait_pod("slow", ready)?;
    ensure!(slow["status"]["containerStatuses"][0]["restartCount"] == 0, "{}", slow["status"]);
    rig.cloud.kubectl.run(&["delete", "pods", "--all", "--force", "--grace-period=0"])?;
    leaves_nothing(&rig)
}
