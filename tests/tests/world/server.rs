//! The node's own server, asked as kubelets are: by metrics-server, Prometheus, and people with curl.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

use e2e::scrape::{self, Answer, Sample, find};
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod},
    uid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An address that is this test's alone: loopback has sixteen million.
fn own_address() -> SocketAddr {
    static USED: AtomicU16 = AtomicU16::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = 10_350 + USED.fetch_add(1, Ordering::Relaxed);
    (Ipv4Addr::new(127, 64 + high % 64, middle, low), port).into()
}

/// A world of one node that serves.
async fn serving() -> (World, SocketAddr) {
    let address = own_address();
    let world = World::with(Setup {
        server: Some(address),
        ..Setup::default()
    })
    .await;
    eventually("the server listens", async || {
        ask(address, "/healthz/ping").await.map(drop)
    })
    .await;
    (world, address)
}

async fn ask(address: SocketAddr, path: &str) -> Result<Answer, String> {
    let path = path.to_owned();
    let asked = tokio::task::spawn_blocking(move || scrape::get(address, &path))
        .await
        .unwrap();
    asked.map_err(|error| format!("{error:#}"))
}

async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, path).await.unwrap()
}

async fn json(address: SocketAddr, path: &str) -> Value {
    let answer = get(address, path).await.success().unwrap();
    assert_eq!(answer.header("content-type"), "application/json");
    serde_json::from_str(&answer.body).unwrap()
}

async fn samples(address: SocketAddr, path: &str) -> Vec<Sample> {
    get(address, path)
        .await
        .samples()
        .unwrap_or_else(|error| panic!("{path}: {error:#}"))
}

/// A pod with everything that is measured.
async fn measured_pod(world: &World) -> Value {
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    let container = &mut manifest["spec"]["containers"][0];
    container["resources"] = json!({"limits": {"memory": "64Mi", "cpu": "250m"}});
    container["readinessProbe"] = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    container["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}, {"name": "settings", "mountPath": "/settings"}]);
    manifest["spec"]["volumes"] = json!([
        {"name": "scratch", "emptyDir": {}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "host", "hostPath": {"path": "/"}},
    ]);
    world.run(&manifest).await
}

/// What the simulated runtime says, which is the same on every machine.
const FIXED: [&str; 7] = [
    "/pods/containers/memory/",
    "/pods/containers/rootfs/inodesUsed",
    "/pods/containers/rootfs/usedBytes",
    "/pods/containers/swap/",
    "/pods/memory/",
    "/pods/process_stats/",
    "/pods/swap/",
];

/// Times, and what the machine itself has, blurred.
fn blur(value: &Value, path: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let one = |(key, field): (&String, &Value)| {
                (key.clone(), blur(field, &format!("{path}/{key}")))
            };
            Value::Object(fields.iter().map(one).collect())
        }
        Value::Array(items) => items.iter().map(|item| blur(item, path)).collect(),
        Value::Number(_) if !FIXED.iter().any(|fixed| path.starts_with(fixed)) => "number".into(),
        Value::String(_) if path.to_lowercase().ends_with("time") || path.ends_with("/uid") => {
            "text".into()
        }
        Value::String(name) if name.starts_with("kube-api-access-") => "kube-api-access".into(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn the_summary_is_the_kubelets() {
    let (world, address) = serving().await;
    let pod = measured_pod(&world).await;
    let summary = json(address, "/stats/summary").await;
    let mut shown = blur(&summary, "");
    // which networks there are, and whether one leads elsewhere, is the machine's affair
    shown["node"]["network"] = "network".into();
    insta::assert_json_snapshot!("summary", shown);
    insta::assert_json_snapshot!(
        "summary_short",
        blur(
            &json(address, "/stats/summary?only_cpu_and_memory=true").await,
            ""
        )
    );
    let of_pod = &summary["pods"][0];
    assert_eq!(of_pod["podRef"]["uid"], uid(&pod));
    // the simulated runtime uses a hundredth of a core for each container
    let nano_cores = of_pod["cpu"]["usageNanoCores"].as_u64().unwrap();
    assert!(
        (9_999_000..=10_001_000).contains(&nano_cores),
        "{nano_cores}"
    );
    assert!(
        summary["node"]["cpu"]["usageNanoCores"].as_u64().is_some(),
        "{}",
        summary["node"]
    );
    let memory = &summary["node"]["memory"];
    assert!(
        memory["workingSetBytes"].as_u64() <= memory["usageBytes"].as_u64(),
        "{memory}"
    );
}

#[tokio::test]
async fn a_summary_without_pods_is_of_the_node() {
    let (_world, address) = serving().await;
    let summary = json(address, "/stats/summary").await;
    assert_eq!(
        (&summary["node"]["nodeName"], &summary["pods"]),
        (&"edge-1".into(), &json!([]))
    );
}

/// Each series as `name{labels}`, sorted and without values, so that the page's form can be compared.
fn form(samples: &[Sample]) -> Vec<String> {
    // the first is there only while the runtime's lists are compared, since it has no events to offer; the second once a call failed
    let sometimes = [
        "kubelet_pleg_last_seen_seconds",
        "kubelet_runtime_operations_errors_total",
    ];
    let always = |sample: &&Sample| !sometimes.contains(&sample.name.as_str());
    let form = |sample: &Sample| {
        let labels: Vec<_> = sample.labels.keys().map(String::as_str).collect();
        let at = if sample.at.is_some() {
            " at a time"
        } else {
            ""
        };
        format!("{}{{{}}}{at}", sample.name, labels.join(","))
    };
    samples
        .iter()
        .filter(always)
        .map(form)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

#[tokio::test]
async fn all_pages_have_the_kubelets_names() {
    let (world, address) = serving().await;
    measured_pod(&world).await;
    eventually("a probe was counted", async || {
        let page = samples(address, "/metrics/probes").await;
        let labels = [
            ("probe_type", "Readiness"),
            ("result", "successful"),
            ("pod", "web"),
        ];
        find(&page, "prober_probe_total", &labels)
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
    for (name, path) in [
        ("metrics", "/metrics"),
        ("metrics_resource", "/metrics/resource"),
        ("metrics_cadvisor", "/metrics/cadvisor"),
        ("metrics_probes", "/metrics/probes"),
    ] {
        insta::assert_json_snapshot!(name, form(&samples(address, path).await));
    }
    let own = samples(address, "/metrics").await;
    for (name, labels, value) in [
        ("kubelet_running_pods", vec![], 1.0),
        (
            "kubelet_running_containers",
            vec![("container_state", "running")],
            1.0,
        ),
        ("kubelet_desired_pods", vec![("static", "")], 1.0),
        ("kubelet_node_name", vec![("node", "edge-1")], 1.0),
        ("kubelet_started_pods_total", vec![], 1.0),
        ("kubelet_pod_start_duration_seconds_count", vec![], 1.0),
        (
            "kubelet_runtime_operations_total",
            vec![("operation_type", "create_container")],
            1.0,
        ),
    ] {
        assert_eq!(find(&own, name, &labels).unwrap().value, value, "{name}");
    }
    let cadvisor = samples(address, "/metrics/cadvisor").await;
    let main = [
        ("container", "main"),
        ("namespace", "default"),
        ("pod", "web"),
    ];
    let limit = find(&cadvisor, "container_spec_memory_limit_bytes", &main).unwrap();
    assert_eq!(limit.value, f64::from(64 << 20));
    assert_eq!(
        find(&cadvisor, "container_spec_cpu_quota", &main)
            .unwrap()
            .value,
        25_000.0
    );
}

/// What metrics-server's decoder (`pkg/scraper/client/resource/decode.go`) needs before it believes a node and a container.
#[tokio::test]
async fn metrics_server_can_read_it() {
    let (world, address) = serving().await;
    measured_pod(&world).await;
    let main = [
        ("container", "main"),
        ("namespace", "default"),
        ("pod", "web"),
    ];
    let mut times = Vec::new();
    for _ in 0..2 {
        let later = async || {
            let page = samples(address, "/metrics/resource").await;
            let at = find(&page, "container_cpu_usage_seconds_total", &main)
                .unwrap()
                .at
                .unwrap();
            if times.last().is_some_and(|last| at <= *last) {
                Err(at)
            } else {
                Ok((page, at))
            }
        };
        let (page, at) = eventually("a later figure", later).await;
        for (name, labels) in [
            ("node_cpu_usage_seconds_total", &[][..]),
            ("node_memory_working_set_bytes", &[]),
            ("container_cpu_usage_seconds_total", &main),
            ("container_memory_working_set_bytes", &main),
        ] {
            let sample = find(&page, name, labels).unwrap();
            assert!(sample.value > 0.0 && sample.at.is_some(), "{sample:?}");
        }
        assert!(
            find(&page, "container_start_time_seconds", &main)
                .unwrap()
                .value
                > 1.7e9
        );
        assert_eq!(
            find(&page, "resource_scrape_error", &[]).unwrap().value,
            0.0
        );
        times.push(at);
    }
}

#[tokio::test]
async fn pods_and_health_are_told() {
    let (world, address) = serving().await;
    let running = measured_pod(&world).await;
    let listed = eventually("the status of the pod", async || {
        let list = json(address, "/pods").await;
        if list["items"][0]["status"]["phase"] == "Running" {
            Ok(list)
        } else {
            Err(list)
        }
    })
    .await;
    assert_eq!(
        (&listed["kind"], &listed["apiVersion"]),
        (&"PodList".into(), &"v1".into())
    );
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(uid(&listed["items"][0]), uid(&running));
    for path in [
        "/healthz",
        "/healthz/",
        "/healthz/ping",
        "/healthz/log",
        "/healthz/syncloop",
    ] {
        assert_eq!(
            get(address, path).await.success().unwrap().body,
            "ok",
            "{path}"
        );
    }
    let verbose = get(address, "/healthz?verbose")
        .await
        .success()
        .unwrap()
        .body;
    assert!(
        verbose.contains("[+]syncloop ok\n") && verbose.ends_with("healthz check passed\n"),
        "{verbose}"
    );
}

#[tokio::test]
async fn bad_requests_are_answered() {
    let (_world, address) = serving().await;
    let long = format!("/{}", "a".repeat(100_000));
    let head = |first: &str| format!("{first}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    for (request, codes) in [
        (head("GET / HTTP/1.1"), &[404][..]),
        (head("GET /healthzz HTTP/1.1"), &[404]),
        (head("GET /healthz/other HTTP/1.1"), &[404]),
        (head("GET /metrics/other HTTP/1.1"), &[404]),
        (head("GET /pods/../metrics HTTP/1.1"), &[404]),
        (
            head("GET /exec/default/web/main?command=id HTTP/1.1"),
            &[404],
        ),
        (head("GET /containerLogs/default/web/main HTTP/1.1"), &[404]),
        (head("GET /%2e%2e/etc/passwd HTTP/1.1"), &[404]),
        (
            head("GET /stats/summary?only_cpu_and_memory=perhaps&&=& HTTP/1.1"),
            &[200],
        ),
        (head("POST /pods HTTP/1.1"), &[405]),
        (head("DELETE /pods HTTP/1.1"), &[405]),
        (head("PUT /stats/summary HTTP/1.1"), &[405]),
        (head("BREW /healthz HTTP/1.1"), &[405]),
        (head("OPTIONS * HTTP/1.1"), &[405]),
        (head(&format!("GET {long} HTTP/1.1")), &[400, 414, 431]),
        (
            head(&format!("GET /healthz HTTP/1.1\r\nX: {long}")),
            &[400, 431],
        ),
        (head("GET /healthz"), &[400]),
        ("\0\u{1}\u{2}\r\n\r\n".to_owned(), &[400]),
    ] {
        let shown = request
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(80)
            .collect::<String>();
        let asked = tokio::task::spawn_blocking(move || scrape::send(address, &request))
            .await
            .unwrap();
        let answer = asked.unwrap_or_else(|error| panic!("{shown}: {error:#}"));
        assert!(
            codes.contains(&answer.code),
            "{shown}: {} {}",
            answer.code,
            answer.body
        );
        if answer.code == 405 {
            assert_eq!(answer.header("allow"), "get", "{shown}");
        }
    }
    assert_eq!(get(address, "/healthz").await.success().unwrap().body, "ok");
}

#[tokio::test]
async fn the_settings_in_force_are_told() {
    let (_world, address) = serving().await;
    let told = json(address, "/configz").await["kubeletconfig"].clone();
    assert_eq!(told["maxPods"], 110);
    assert_eq!(told["readOnlyPort"], address.port());
    assert_eq!(
        told["imageGCHighThresholdPercent"], 100,
        "what a hollow node has for itself"
    );
    assert_eq!(told["evictionHard"]["memory.available"], "0%");
    for unused in ["podCIDR", "runtimeRequestTimeout", "authentication"] {
        assert_eq!(
            told[unused],
            Value::Null,
            "{unused} changes nothing, and is not told"
        );
    }
}

#[tokio::test]
async fn disks_of_claims_are_told() {
    let (world, address) = serving().await;
    let disk = world.directory().join("disk");
    fs::create_dir(&disk).unwrap();
    let common = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "slow"});
    let with = |more: Value| {
        let mut spec = common.clone();
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    let volume = with(json!({"capacity": {"storage": "1Gi"}, "hostPath": {"path": disk}}));
    let claim = with(json!({"resources": {"requests": {"storage": "1Gi"}}}));
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let mut volume = object("PersistentVolume", "disk", volume);
    volume["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    world.apply(&volume).await;
    world
        .apply(&object("PersistentVolumeClaim", "data", claim))
        .await;
    let mut user = pod("user", Some("edge-1"));
    user["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    user["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world.run(&user).await;
    let page = samples(address, "/metrics").await;
    let labels = [("namespace", "default"), ("persistentvolumeclaim", "data")];
    for name in [
        "capacity_bytes",
        "available_bytes",
        "used_bytes",
        "inodes",
        "inodes_free",
        "inodes_used",
    ] {
        let name = format!("kubelet_volume_stats_{name}");
        assert!(find(&page, &name, &labels).unwrap().value > 0.0, "{name}");
    }
}

#[tokio::test]
async fn a_runtime_that_fails_is_told_and_everything_else_still_served() {
    let (world, address) = serving().await;
    let runtime = &world.nodes[0].runtime;
    let broken = || tonic::Status::unavailable("out of order");
    runtime.fail_next("ListContainerStats", broken());
    let page = samples(address, "/metrics/resource").await;
    assert_eq!(
        find(&page, "resource_scrape_error", &[]).unwrap().value,
        1.0
    );
    runtime.fail_next("ListContainerStats", broken());
    let answer = get(address, "/stats/summary").await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.body.contains("ListContainerStats: out of order"),
        "{}",
        answer.body
    );
    let own = samples(address, "/metrics").await;
    let failed = [("operation_type", "list_container_stats")];
    assert_eq!(
        find(&own, "kubelet_runtime_operations_errors_total", &failed)
            .unwrap()
            .value,
        2.0
    );
    // what pods as a whole use may stay unknown; the agent itself asks now and then, too
    for call in ["ListPodSandboxStats", "ImageFsInfo"].repeat(8) {
        runtime.fail_next(call, tonic::Status::unimplemented("no such call"));
    }
    let summary = json(address, "/stats/summary").await;
    assert!(
        summary["node"]["runtime"].is_null() && summary["node"]["fs"].is_object(),
        "{summary}"
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let address = own_address();
    let _taken = std::net::TcpListener::bind(address).unwrap();
    let mut world = World::with(Setup {
        server: Some(address),
        ..Setup::default()
    })
    .await;
    let ended = world.nodes[0].wait_ended().await.unwrap_err();
    let causes = std::iter::successors(std::error::Error::source(&ended), |error| error.source());
    let told = causes.fold(ended.to_string(), |text, cause| format!("{text}: {cause}"));
    assert!(
        told.contains(&format!("{address} is in use by another program")),
        "{told}"
    );
    assert!(told.contains("readOnlyPort"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_reads_nothing_under_a_name_of_its_own() {
    let (_world, address) = serving().await;
    let first_line = async |headers: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /pods HTTP/1.1\r\nconnection: close\r\n{headers}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    for (headers, expected) in [
        (format!("host: {address}"), "200"),
        ("host: localhost:10350".to_owned(), "200"),
        ("host: attacker.example:10350".to_owned(), "421"),
        ("host: 0.0.0.0:10350".to_owned(), "421"),
        (
            "host: localhost\r\norigin: https://attacker.example".to_owned(),
            "403",
        ),
    ] {
        let line = first_line(&headers).await;
        assert!(line.contains(expected), "{headers:?}: {line}");
    }
}
