//! Lifecycle hooks, limits on time, and last words.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{
    Ports,
    containerd::{IMAGE, RealRig},
};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    probes::{https, wait_event},
    server::HttpServer,
    subject::{Subject, for_both},
};

const FOREVER: &str = "trap 'exit 0' TERM; sleep 2147483647 & wait";

fn shell(words: &str) -> Value {
    json!(["sh", "-c", words])
}

#[test]
fn hooks_of_every_kind() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let server = HttpServer::start()?;
    let host = rig.directory.path().join("notes");
    fs::create_dir(&host)?;
    let with = |name: &str, lifecycle: Value| {
        pod(
            name,
            &json!({
                "hostNetwork": true,
                "terminationGracePeriodSeconds": 20,
                "volumes": [{"name": "n", "hostPath": {"path": host}}],
                "containers": [{"lifecycle": lifecycle, "command": shell(FOREVER), "volumeMounts": [{"name": "n", "mountPath": "/n"}]}],
            }),
        )
    };
    let exec = |words: &str| json!({"exec": {"command": shell(words)}});
    let get = |path: &str| json!({"httpGet": {"port": server.port, "path": path}});
    let tcp = json!({"tcpSocket": {"port": server.port}});
    apply(
        &rig,
        &[
            with(
                "exec",
                json!({"postStart": exec("echo began > /n/exec"), "preStop": exec("echo ends >> /n/exec")}),
            ),
            with(
                "http",
                json!({"postStart": get("/began"), "preStop": get("/ends")}),
            ),
            with(
                "sleep",
                json!({"postStart": {"sleep": {"seconds": 1}}, "preStop": {"sleep": {"seconds": 2}}}),
            ),
            with("tcp", json!({"postStart": tcp})),
            with("broken", json!({"postStart": exec("exit 7")})),
        ],
    )?;
    for name in ["exec", "http", "sleep", "tcp"] {
        rig.wait_ready(name)?;
    }
    ensure!(
        fs::read_to_string(host.join("exec"))? == "began\n",
        "postStart did not run"
    );
    ensure!(
        server.first_request("GET /began").is_some() && server.first_request("GET /ends").is_none(),
        "the hooks' requests"
    );
    wait_event(
        &rig,
        "broken",
        "FailedPostStartHook",
        "PostStartHook failed",
    )?;
    rig.wait_pod("broken", |pod| {
        let count = pod["status"]["containerStatuses"][0]["restartCount"]
            .as_u64()
            .unwrap_or_default();
        if count >= 1 {
            Ok(())
        } else {
            Err("it goes on without its hook".into())
        }
    })?;
    let asked = Instant::now();
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "exec", "http", "sleep", "--wait=false"])?;
    for name in ["exec", "http"] {
        rig.cloud.wait_gone(name)?;
    }
    ensure!(
        fs::read_to_string(host.join("exec"))? == "began\nends\n",
        "preStop did not run"
    );
    ensure!(
        server.first_request("GET /ends").is_some(),
        "preStop did not ask"
    );
    rig.cloud.wait_gone("sleep")?;
    ensure!(
        asked.elapsed() >= Duration::from_secs(2),
        "preStop did not sleep"
    );
    leaves_nothing(&rig)
}

#[test]
fn hooks_at_the_end_may_fail_or_be_cut_short() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("notes");
    fs::create_dir(&host)?;
    let knocked = TcpListener::bind("0.0.0.0:0")?;
    knocked.set_nonblocking(true)?;
    let tls_port = Ports::free()?.api;
    for page in ["began", "ends"] {
        fs::write(rig.directory.path().join(page), page)?;
    }
    // it says which file it has given away
    let tls = https(&rig, tls_port, "-WWW")?;
    let get = |path: &str| json!({"httpGet": {"port": tls_port, "path": path, "scheme": "HTTPS"}});
    let exec = |words: &str| json!({"exec": {"command": shell(words)}});
    let long = "echo begins > /n/long; sleep 600; echo ends >> /n/long";
    let with = |name: &str, grace: u32, lifecycle: Value| {
        let ends = format!("trap 'echo asked >> /n/{name}; exit 0' TERM; sleep 2147483647 & wait");
        let mounts = json!([{"name": "n", "mountPath": "/n"}]);
        pod(
            name,
            &json!({"hostNetwork": true, "terminationGracePeriodSeconds": grace,
                "volumes": [{"name": "n", "hostPath": {"path": host}}],
                "containers": [{"lifecycle": lifecycle, "command": shell(&ends), "volumeMounts": mounts}]}),
        )
    };
    apply(
        &rig,
        &[
            with(
                "https",
                60,
                json!({"postStart": get("/began"), "preStop": get("/ends")}),
            ),
            with(
                "tcp",
                60,
                json!({"preStop": {"tcpSocket": {"port": knocked.local_addr()?.port()}}}),
            ),
            with("broken", 60, json!({"preStop": exec("exit 7")})),
            with("long", 4, json!({"preStop": exec(long)})),
        ],
    )?;
    let all = ["https", "tcp", "broken", "long"];
    for name in all {
        rig.wait_ready(name)?;
    }
    ensure!(
        tls.log().contains("FILE:began") && !tls.log().contains("FILE:ends"),
        "{}",
        tls.log()
    );
    ensure!(knocked.accept().is_err(), "preStop came before the end");
    let asked = Instant::now();
    rig.cloud
        .kubectl
        .run(&[&["delete", "pod", "--wait=false"][..], &all].concat())?;
    rig.cloud.wait_gone("long")?;
    let took = asked.elapsed();
    ensure!(
        took >= Duration::from_secs(4) && took < Duration::from_secs(60),
        "the long one took {took:?}"
    );
    // it has expired, and yet it is asked to end before it is killed
    let words = fs::read_to_string(host.join("long"))?;
    ensure!(words == "begins\nasked\n", "{words:?}");
    for name in all {
        rig.cloud.wait_gone(name)?;
    }
    ensure!(
        tls.log().contains("FILE:ends"),
        "preStop did not ask: {}",
        tls.log()
    );
    knocked.accept().context("preStop did not connect")?;
    wait_event(&rig, "broken", "FailedPreStopHook", "PreStopHook failed")?;
    for name in ["https", "tcp"] {
        let failed = rig.cloud.events(name, "FailedPreStopHook")?;
        ensure!(failed.is_empty(), "{name}: {failed:?}");
    }
    leaves_nothing(&rig)
}

for_both!(a_pod_has_its_time_and_no_more);

fn a_pod_has_its_time_and_no_more(rig: Subject) -> anyhow::Result<()> {
    apply(
        &rig,
        &[pod(
            "short",
            &json!({"activeDeadlineSeconds": 2, "containers": [{"command": shell(FOREVER)}]}),
        )],
    )?;
    let seen = rig.as_ref().wait_phase("short", "Failed")?;
    ensure!(
        seen["status"]["reason"] == "DeadlineExceeded",
        "{}",
        seen["status"]
    );
    wait_event(
        &rig,
        "short",
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )?;
    ensure!(
        rig.cri().running()?.is_empty(),
        "a container goes on after the pod's time"
    );
    rig.leaves_nothing()
}

#[test]
fn last_words() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let says = |name: &str, words: &str, more: Value| {
        let mut container = json!({"command": shell(words)});
        if let (Value::Object(container), Value::Object(more)) = (&mut container, more) {
            container.extend(more);
        }
        pod(
            name,
            &json!({"restartPolicy": "Never", "containers": [container]}),
        )
    };
    let fallback = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    let much = "head -c 10000 /dev/zero | tr '\\0' a";
    let four = |name: &str| json!({"name": name, "image": IMAGE, "command": shell(&format!("{much} > /dev/termination-log"))});
    let many = json!({"restartPolicy": "Never", "containers": [four("a"), four("b"), four("c"), four("d")]});
    apply(
        &rig,
        &[
            says(
                "file",
                "echo -n goodbye > /dev/termination-log; exit 1",
                json!({}),
            ),
            says(
                "place",
                "echo -n here > /tmp/words; exit 1",
                json!({"terminationMessagePath": "/tmp/words"}),
            ),
            says(
                "log",
                "for i in $(seq 100); do echo line $i; done; exit 1",
                fallback.clone(),
            ),
            says("well", "echo all is well", fallback.clone()),
            says(
                "own",
                "echo no; echo -n own > /dev/termination-log; exit 1",
                fallback,
            ),
            says("much", &format!("{much} > /dev/termination-log"), json!({})),
            pod("many", &many),
        ],
    )?;
    let words = |name: &str, index: usize| {
        let seen = rig.wait_pod(name, |pod| {
            let ended =
                pod["status"]["containerStatuses"][index]["state"]["terminated"].is_object();
            if ended {
                Ok(())
            } else {
                Err("it has not ended".into())
            }
        })?;
        let message = &seen["status"]["containerStatuses"][index]["state"]["terminated"]["message"];
        anyhow::Ok(message.as_str().unwrap_or_default().to_owned())
    };
    for (name, expected) in [
        ("file", "goodbye"),
        ("place", "here"),
        ("well", ""),
        ("own", "own"),
    ] {
        ensure!(words(name, 0)? == expected, "{name}: {:?}", words(name, 0)?);
    }
    let log = words("log", 0)?;
    ensure!(
        log.starts_with("line 21\n") && log.ends_with("line 100\n"),
        "the last 80 lines: {log:?}"
    );
    ensure!(
        words("much", 0)?.len() == 4096,
        "too many words: {}",
        words("much", 0)?.len()
    );
    for index in 0..4 {
        ensure!(
            words("many", index)?.len() == 3072,
            "a share of words: {}",
            words("many", index)?.len()
        );
    }
    leaves_nothing(&rig)
}

#[test]
fn sidecars_are_restarted_and_hold_up_nothing() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let sidecar = |name: &str, words: &str, more: Value| {
        let mut container = json!({"name": name, "image": IMAGE, "restartPolicy": "Always", "command": shell(words)});
        if let (Value::Object(container), Value::Object(more)) = (&mut container, more) {
            container.extend(more);
        }
        container
    };
    let startup = json!({"startupProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}});
    let readiness = json!({"readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}});
    apply(
        &rig,
        &[
            // each waits for the start of the one before
            pod(
                "served",
                &json!({
                    "restartPolicy": "Never",
                    "initContainers": [sidecar("slow", &format!("sleep 1; touch /tmp/up; {FOREVER}"), startup)],
                    "containers": [{"command": shell("sleep 3; exit 0")}],
                }),
            ),
            // ready with its sidecar
            pod(
                "held-back",
                &json!({
                    "initContainers": [sidecar("behind", FOREVER, readiness)],
                    "containers": [{"command": shell(FOREVER)}],
                }),
            ),
            pod(
                "stubborn",
                &json!({"initContainers": [sidecar("dies", "sleep 1; exit 3", json!({}))], "containers": [{"command": shell(FOREVER)}]}),
            ),
        ],
    )?;
    let held = rig.wait_pod("held-back", |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut ready = conditions
            .into_iter()
            .flatten()
            .filter(|condition| condition["type"] == "Ready");
        let runs = pod["status"]["containerStatuses"][0]["ready"] == true;
        let held =
            ready.any(|ready| ready["message"] == "containers with unready status: [behind]");
        if runs && held {
            Ok(())
        } else {
            Err("its sidecar does not hold it back".into())
        }
    })?;
    let behind = RealRig::container_id(&held, "behind")?;
    rig.containerd.cri.exec(&behind, &["touch", "/tmp/up"])?;
    rig.wait_ready("held-back")?;
    let seen = rig.wait_pod("stubborn", |pod| {
        let status = &pod["status"]["initContainerStatuses"][0];
        let count = status["restartCount"].as_u64().unwrap_or_default();
        if count >= 1 {
            Ok(())
        } else {
            Err("the sidecar is not restarted".into())
        }
    })?;
    ensure!(
        seen["status"]["containerStatuses"][0]["restartCount"] == 0,
        "{}",
        seen["status"]
    );
    let seen = rig.wait_phase("served", "Succeeded")?;
    let side = &seen["status"]["initContainerStatuses"][0]["state"]["terminated"];
    ensure!(
        side.is_object(),
        "the sidecar goes on after the pod: {}",
        seen["status"]
    );
    leaves_nothing(&rig)
}
