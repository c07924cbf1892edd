//! Tests probes, images and generations of pods on a simulated node, as the cloud's objects show them.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use testkit::{WAIT_TIMEOUT, eventually};

use super::*;

struct World {
    cloud: Cloud,
    fleet: Fleet,
    _directory: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(cloudsim::Options::default().any_ports(), |options| options).await
    }

    async fn with(cloud: cloudsim::Options, nodes: impl FnOnce(Options) -> Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let cloud = Cloud::start(cloud).await.unwrap();
        let options = nodes(Options::new(1, directory.path().join("fleet")));
        let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options)
            .await
            .unwrap();
        Self {
            cloud,
            fleet,
            _directory: directory,
        }
    }

    fn pods(&self) -> Api<Pod> {
        let client: Client = self.cloud.client();
        Api::default_namespaced(client)
    }

    /// Creates a pod with one container, with these fields and annotations for it.
    async fn create(&self, name: &str, container: Value, annotations: Value) {
        let annotations: serde_json::Map<String, Value> = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (format!("sim.outrigger.dev/a.{key}"), value.clone()))
            .collect();
        let mut pod = json!({"metadata": {"name": name, "annotations": annotations},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "one"}]}});
        for (key, value) in container.as_object().unwrap() {
            pod["spec"]["containers"][0][key] = value.clone();
        }
        self.pods()
            .create(
                &PostParams::default(),
                &serde_json::from_value(pod).unwrap(),
            )
            .await
            .unwrap();
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let condition = |pod: Option<&Pod>| pod.is_some_and(&holds);
        match tokio::time::timeout(WAIT_TIMEOUT, await_condition(self.pods(), name, condition))
            .await
        {
            Ok(pod) => pod.unwrap().unwrap(),
            Err(_) => {
                let last = self.pods().get(name).await.unwrap();
                panic!(
                    "{name} {what}: not within {WAIT_TIMEOUT:?}; last seen: {}",
                    serde_json::to_string_pretty(&last.status).unwrap()
                )
            }
        }
    }

    async fn end(self) {
        self.fleet.stop().await;
        self.cloud.stop().await.unwrap();
    }
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn waits(pod: &Pod) -> Option<&str> {
    container(pod)?
        .state
        .as_ref()?
        .waiting
        .as_ref()?
        .reason
        .as_deref()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let mut all = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    all.find(|condition| condition.type_ == kind)
        .map(|condition| condition.status.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_find_what_a_pods_annotations_say() {
    let world = World::new().await;
    let port = json!([{"containerPort": 8080, "name": "web"}]);
    let quick = |mut probe: Value| {
        probe["periodSeconds"] = json!(1);
        probe["failureThreshold"] = json!(1);
        probe
    };
    let good = [
        (
            "http",
            json!({"httpGet": {"port": "web", "path": "/ready"}}),
        ),
        (
            "https",
            json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}}),
        ),
        ("tcp", json!({"tcpSocket": {"port": 8080}})),
        (
            "undeclared",
            json!({"httpGet": {"port": 17472, "path": "/ready"}}),
        ),
        ("grpc", json!({"grpc": {"port": 8080, "service": "db"}})),
    ];
    for (name, probe) in &good {
        let probe = quick(probe.clone());
        let probes = json!({"ports": port, "readinessProbe": probe, "livenessProbe": probe, "startupProbe": probe});
        world.create(name, probes, json!({})).await;
    }
    let down = [
        (
            "unready-http",
            json!({"httpGet": {"port": 8080, "path": "/ready"}}),
            json!({"http": "{\"/ready\": {\"status\": 503}}"}),
        ),
        (
            "unready-tcp",
            json!({"tcpSocket": {"port": 8080}}),
            json!({"ports": "none"}),
        ),
        (
            "unready-grpc",
            json!({"grpc": {"port": 8080}}),
            json!({"grpc": "{\"\": \"NOT_SERVING\"}"}),
        ),
        (
            "unready-port",
            json!({"tcpSocket": {"port": 8081}}),
            json!({"ports": "8080"}),
        ),
    ];
    for (name, probe, annotations) in &down {
        let spec = json!({"ports": port, "readinessProbe": quick(probe.clone())});
        world.create(name, spec, annotations.clone()).await;
    }
    let liveness = json!({"ports": port, "livenessProbe": quick(json!({"httpGet": {"port": 8080, "path": "/healthz"}}))});
    let failing = json!({"http": "{\"/healthz\": {\"status\": 500, \"after\": \"1s\"}}"});
    world.create("hung", liveness, failing).await;
    for (name, _) in &good {
        let ready = |pod: &Pod| condition(pod, "Ready") == Some("True");
        let pod = world.until(name, "becomes ready", ready).await;
        assert_eq!(container(&pod).unwrap().restart_count, 0);
        assert_eq!(container(&pod).unwrap().started, Some(true));
    }
    let hung = world
        .until("hung", "is restarted", |pod| {
            container(pod).is_some_and(|one| one.restart_count > 0)
        })
        .await;
    let last = container(&hung)
        .unwrap()
        .last_state
        .clone()
        .unwrap()
        .terminated;
    assert!(last.is_some(), "{hung:?}");
    for (name, ..) in &down {
        // By now the probes of all pods have run.
        let pod = world
            .until(name, "runs", |pod| {
                container(pod).is_some_and(|one| one.started == Some(true))
            })
            .await;
        assert_eq!(condition(&pod, "Ready"), Some("False"), "{name}");
        assert_eq!(condition(&pod, "ContainersReady"), Some("False"), "{name}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_do_not_exist_are_waited_for() {
    let world = World::new().await;
    for (name, image) in [
        ("host", "invalid.registry.k8s.io/a:1"),
        ("tag", "foo:non-existent"),
        ("name", "Not/An Image"),
    ] {
        world.create(name, json!({"image": image}), json!({})).await;
    }
    for name in ["host", "tag"] {
        world
            .until(name, "fails to pull", |pod| {
                waits(pod) == Some("ErrImagePull")
            })
            .await;
        let pod = world
            .until(name, "backs off", |pod| {
                waits(pod) == Some("ImagePullBackOff")
            })
            .await;
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    }
    world
        .until("name", "has no image's name", |pod| {
            waits(pod) == Some("InvalidImageName")
        })
        .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_says_which_generation_it_is_of() {
    let world = World::new().await;
    world.create("p", json!({}), json!({})).await;
    let observed = |generation: i64| {
        move |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            status.phase.as_deref() == Some("Running")
                && pod.metadata.generation == Some(generation)
                && status.observed_generation == Some(generation)
                && conditions.len() >= 5
                && conditions
                    .iter()
                    .all(|condition| condition.observed_generation == Some(generation))
        }
    };
    world.until("p", "is of the first", observed(1)).await;
    let toleration = json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}});
    let api = world.pods();
    api.patch("p", &PatchParams::default(), &Patch::Strategic(toleration))
        .await
        .unwrap();
    world.until("p", "is of the second", observed(2)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_node_that_is_gone_are_not_ready_until_it_is_back() {
    let grace = Duration::from_secs(5);
    let cloud = cloudsim::Options {
        lease_grace: grace,
        ..cloudsim::Options::default().any_ports()
    };
    let mut world = World::with(cloud, |options| Options {
        lease: Duration::from_secs(4),
        ..options
    })
    .await;
    world.create("p", json!({}), json!({})).await;
    let ready = |pod: &Pod| condition(pod, "Ready") == Some("True");
    let before = world.until("p", "becomes ready", ready).await;
    let mut fleet = std::mem::replace(&mut world.fleet, Fleet { nodes: Vec::new() });
    fleet.nodes[0].stop().await;
    let gone = world
        .until("p", "is not ready", |pod| {
            condition(pod, "Ready") == Some("False")
        })
        .await;
    assert_eq!(
        condition(&gone, "ContainersReady"),
        Some("True"),
        "its containers are as they were last heard of"
    );
    let events = Api::<k8s_openapi::api::core::v1::Event>::default_namespaced(world.cloud.client());
    let of_pod =
        kube::api::ListParams::default().fields("involvedObject.name=p,reason=NodeNotReady");
    let told = async || {
        events
            .list(&of_pod)
            .await
            .unwrap()
            .items
            .pop()
            .ok_or("no event")
    };
    let event = eventually("an event of the pod", told).await;
    assert_eq!(
        (event.message.as_deref(), event.type_.as_deref()),
        (Some("Node is not ready"), Some("Warning"))
    );
    fleet.nodes[0].start().await.unwrap();
    let back = world.until("p", "is ready again", ready).await;
    assert_eq!(back.metadata.uid, before.metadata.uid);
    assert_eq!(
        container(&back).unwrap().container_id,
        container(&before).unwrap().container_id
    );
    fleet.stop().await;
    world.end().await;
}
