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
    if runs && status["ready"] == false {
        Ok(())
    } else {
        Err("it is not running and unready".into())
    }
}

/// Waits for an event with this text.
pub(crate) fn wait_event(
    cloud: &impl AsRef<Cloud>,
    pod: &str,
    reason: &str,
    text: &str,
) -> anyhow::Result<()> {
    until(&format!("event {reason} of {pod}"), || {
        let all = cloud.as_ref().events(pod, reason)?;
        ensure!(all.iter().any(|message| message.contains(text)), "{all:?}");
        Ok(())
    })
}

/// A TLS server with a certificate that nobody vouches for. `mode`: of openssl, how it answers.
pub(crate) fn https(rig: &RealRig, port: u16, mode: &str) -> anyhow::Result<Process> {
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
    serve.current_dir(rig.directory.path());
    serve.args([
        "s_server",
        mode,
        "-accept",
        &port.to_string(),
        "-key",
        &key,
        "-cert",
        &certificate,
    ]);
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
    let mut tls = https(&rig, tls_port, "-www")?;
    let probed = |name: &str, mut probe: Value| {
        probe["periodSeconds"] = 1.into();
        probe["failureThreshold"] = 1.into();
        // on the node's network a port is one pod's
        let named = json!([{"name": "named", "containerPort": http.port}]);
        let ports = if name == "http" { named } else { json!([]) };
        pod(
            name,
            &json!({"hostNetwork": true, "containers": [{"readinessProbe": probe, "ports": ports}]}),
        )
    };
    let headers = json!([{"name": "X-Probe", "value": "me"}]);
    apply(
        &rig,
        &[
            probed(
                "exec",
                json!({"exec": {"command": ["test", "!", "-e", "/tmp/bad"]}}),
            ),
            probed(
                "http",
                json!({"httpGet": {"port": "named", "path": "/ready?x=y", "httpHeaders": headers}}),
            ),
            probed(
                "https",
                json!({"httpGet": {"port": tls_port, "scheme": "HTTPS", "host": "localhost"}}),
            ),
            probed("tcp", json!({"tcpSocket": {"port": tcp_port}})),
            probed(
                "grpc",
                json!({"grpc": {"port": grpc.port, "service": "store"}}),
            ),
        ],
    )?;
    let all = ["exec", "http", "https", "tcp", "grpc"];
    for name in all {
        rig.wait_pod(name, ready)?;
    }
    let request = http
        .first_request("/ready?x=y")
        .unwrap_or_default()
        .to_lowercase();
    for part in [
        "x-probe: me",
        "user-agent: kube-probe/",
        "get /ready?x=y http/1.1",
    ] {
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
        let mut container = json!({"command": ["sh", "-c", words], "volumeMounts": [{"name": "n", "mountPath": "/n"}]});
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
            noted(
                "alive",
                forever,
                json!({"livenessProbe": probe("test ! -e /tmp/bad")}),
            ),
            // its own time is short, the pod's long
            noted("deaf", deaf, json!({"livenessProbe": short})),
            noted(
                "late",
                forever,
                json!({"startupProbe": patient, "livenessProbe": probe("test -e /n/up")}),
            ),
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
    for (name, why) in [
        ("alive", "liveness"),
        ("deaf", "liveness"),
        ("never", "startup"),
    ] {
        rig.wait_pod(name, |pod| {
            let count = pod["status"]["containerStatuses"][0]["restartCount"]
                .as_u64()
                .unwrap_or_default();
            if count >= 1 {
                Ok(())
            } else {
                Err("it is not restarted".into())
            }
        })?;
        wait_event(
            &rig,
            name,
            "Killing",
            &format!("Container main failed {why} probe, will be restarted"),
        )?;
    }
    fs::remove_file(host.join("die"))?;
    rig.wait_pod("alive", ready)?;
    let slow = rig.wait_pod("slow", ready)?;
    ensure!(
        slow["status"]["containerStatuses"][0]["restartCount"] == 0,
        "{}",
        slow["status"]
    );
    rig.cloud
        .kubectl
        .run(&["delete", "pods", "--all", "--force", "--grace-period=0"])?;
    leaves_nothing(&rig)
}

/// A container that has not started, started, or started after so many restarts.
fn check_started(pod: &Value, started: bool, restarts: u64) -> Result<(), String> {
    let status = &pod["status"]["containerStatuses"][0];
    let is_so = status["started"] == started && status["ready"] == started;
    if is_so && status["state"]["running"].is_object() && status["restartCount"] == restarts {
        Ok(())
    } else {
        Err(format!("not so: started {started}, restarts {restarts}"))
    }
}

#[test]
fn startup_probes_of_every_kind_hold_back_and_liveness_probes_of_every_kind_restart()
-> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let (http, grpc, ports) = (HttpServer::start()?, HealthServer::start()?, Ports::free()?);
    http.well.store(false, Ordering::SeqCst);
    grpc.well.store(false, Ordering::SeqCst);
    let kinds = [
        (
            "http",
            json!({"httpGet": {"port": http.port}}),
            "HTTP probe failed with statuscode: 503",
        ),
        (
            "https",
            json!({"httpGet": {"port": ports.api, "scheme": "HTTPS"}}),
            "connection refused",
        ),
        (
            "tcp",
            json!({"tcpSocket": {"port": ports.https}}),
            "connection refused",
        ),
        (
            "grpc",
            json!({"grpc": {"port": grpc.port, "service": "store"}}),
            "service unhealthy",
        ),
    ];
    let pods = kinds.each_ref().map(|(name, how, _)| {
        let probe = |failures: u32| {
            let mut probe = how.clone();
            probe["periodSeconds"] = 1.into();
            // that a machine is busy is no failure of what is probed
            probe["timeoutSeconds"] = 30.into();
            probe["failureThreshold"] = failures.into();
            probe
        };
        let container = json!({"startupProbe": probe(1000), "livenessProbe": probe(1)});
        pod(
            name,
            &json!({"hostNetwork": true, "containers": [container]}),
        )
    });
    apply(&rig, &pods)?;
    for (name, _, text) in &kinds {
        wait_event(&rig, name, "Unhealthy", "Startup probe failed: ")?;
        wait_event(&rig, name, "Unhealthy", text)?;
        rig.wait_pod(name, |pod| check_started(pod, false, 0))?;
    }
    http.well.store(true, Ordering::SeqCst);
    grpc.well.store(true, Ordering::SeqCst);
    let mut tls = https(&rig, ports.api, "-www")?;
    let tcp = TcpListener::bind(("0.0.0.0", ports.https))?;
    for (name, ..) in &kinds {
        rig.wait_pod(name, |pod| check_started(pod, true, 0))?;
    }
    http.well.store(false, Ordering::SeqCst);
    grpc.well.store(false, Ordering::SeqCst);
    tls.kill()?;
    drop(tcp);
    for (name, ..) in &kinds {
        // the startup probe of the next container keeps it from being condemned once more
        rig.wait_pod(name, |pod| check_started(pod, false, 1))?;
        wait_event(&rig, name, "Unhealthy", "Liveness probe failed: ")?;
        wait_event(
            &rig,
            name,
            "Killing",
            "Container main failed liveness probe, will be restarted",
        )?;
    }
    http.well.store(true, Ordering::SeqCst);
    grpc.well.store(true, Ordering::SeqCst);
    tls.start_again()?;
    let _tcp = TcpListener::bind(("0.0.0.0", ports.https))?;
    for (name, ..) in &kinds {
        rig.wait_pod(name, |pod| check_started(pod, true, 1))?;
    }
    leaves_nothing(&rig)
}

#[test]
fn a_probe_that_takes_longer_than_its_timeout_has_failed() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    // the kernel takes connections, and nobody answers
    let silent = TcpListener::bind("0.0.0.0:0")?;
    let port = silent.local_addr()?.port();
    let probed = |name: &str, mut probe: Value| {
        probe["periodSeconds"] = 1.into();
        probe["timeoutSeconds"] = 1.into();
        pod(
            name,
            &json!({"hostNetwork": true, "containers": [{"readinessProbe": probe}]}),
        )
    };
    apply(
        &rig,
        &[
            probed("exec", json!({"exec": {"command": ["sleep", "1000"]}})),
            probed("http", json!({"httpGet": {"port": port, "path": "/slow"}})),
            probed(
                "https",
                json!({"httpGet": {"port": port, "scheme": "HTTPS"}}),
            ),
            probed("grpc", json!({"grpc": {"port": port}})),
        ],
    )?;
    let waited = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    for (name, text) in [
        (
            "exec",
            "command timed out: \"sleep 1000\" timed out after 1s".to_owned(),
        ),
        (
            "http",
            format!("Get \"http://127.0.0.1:{port}/slow\": {waited}"),
        ),
        (
            "https",
            format!("Get \"https://127.0.0.1:{port}/\": {waited}"),
        ),
        ("grpc", "within 1s".to_owned()),
    ] {
        wait_event(&rig, name, "Unhealthy", "Readiness probe failed: ")?;
        wait_event(&rig, name, "Unhealthy", &text)?;
        rig.wait_pod(name, unready)?;
    }
    leaves_nothing(&rig)
}
