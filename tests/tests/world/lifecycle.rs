//! Probes, hooks, deadlines, last words, events: what becomes of containers beside starting and ending by themselves.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use tests::{
    WAIT_TIMEOUT, World, condition, eventually,
    manifests::{pod, pod_that},
    runs, uid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};

fn main_status(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn exec(command: &[&str]) -> Value {
    json!({"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 1})
}

/// A pod whose container has these fields beside its image.
fn with(name: &str, behaviour: &[(&str, &str)], fields: Value) -> Value {
    let mut pod = pod_that(name, "edge-1", behaviour);
    let container = pod["spec"]["containers"][0].as_object_mut().unwrap();
    container.extend(fields.as_object().unwrap().clone());
    pod
}

/// A server that answers with the status that stands there now, and waits while it is 0.
async fn server(status: &watch::Sender<u16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let status = status.subscribe();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut status = status.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let Ok(status) = status
                    .wait_for(|status| *status > 0)
                    .await
                    .map(|status| *status)
                else {
                    return;
                };
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

/// Reasons and messages; those that were told again say so.
async fn events(world: &World) -> Vec<(String, String)> {
    let api = Api::<Event>::namespaced(world.client(), "default");
    let list = api.list(&ListParams::default()).await.unwrap();
    list.items
        .into_iter()
        .map(|event| {
            let again = if event.count.unwrap_or_default() > 1 {
                " (again)"
            } else {
                ""
            };
            (
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default() + again,
            )
        })
        .collect()
}

async fn until_event(world: &World, reason: &str, text: &str) {
    eventually(&format!("an event {reason} {text}"), async || {
        let all = events(world).await;
        if all.iter().any(|(r, t)| r == reason && t.contains(text)) {
            Ok(())
        } else {
            Err(format!("{all:#?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_liveness_probe_that_fails_restarts_its_container() {
    let world = World::new(1).await;
    world
        .apply(&with(
            "sick",
            &[],
            json!({"livenessProbe": exec(&["false"])}),
        ))
        .await;
    let again = |pod: &Value| main_status(pod)["restartCount"] == 1;
    let pod = world.pod("sick").until("restarted", again).await;
    assert_eq!(
        main_status(&pod)["lastState"]["terminated"]["exitCode"],
        143
    );
    until_event(&world, "Unhealthy", "Liveness probe failed").await;
    until_event(
        &world,
        "Killing",
        "Container main failed liveness probe, will be restarted",
    )
    .await;
    until_event(&world, "Started", "Started container main (again)").await;
    for (reason, text) in [
        ("Pulling", "Pulling image"),
        ("Pulled", "Successfully pulled image"),
        ("Created", "Created container: main"),
        ("Started", "Started container main"),
    ] {
        until_event(&world, reason, text).await;
    }
}

#[tokio::test]
async fn readiness_follows_its_probe_and_startup_comes_first() {
    let world = World::new(1).await;
    let (ready, started) = (watch::Sender::new(200), watch::Sender::new(500));
    let get = |port: u16| json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "failureThreshold": 1});
    let mut startup = get(server(&started).await);
    startup["failureThreshold"] = 100.into();
    let fields = json!({"readinessProbe": get(server(&ready).await), "startupProbe": startup});
    world.apply(&with("web", &[], fields)).await;
    let pod = world
        .pod("web")
        .until("running", |pod| {
            main_status(pod)["state"]["running"].is_object()
        })
        .await;
    assert_eq!(
        (&main_status(&pod)["started"], &main_status(&pod)["ready"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(condition(&pod, "Ready"), Some("False"));
    started.send_replace(204);
    world
        .pod("web")
        .until("ready", |pod| condition(pod, "Ready") == Some("True"))
        .await;
    ready.send_replace(503);
    let pod = world
        .pod("web")
        .until("not ready", |pod| condition(pod, "Ready") == Some("False"))
        .await;
    assert_eq!(
        (
            &main_status(&pod)["started"],
            &main_status(&pod)["restartCount"]
        ),
        (&json!(true), &json!(0))
    );
    ready.send_replace(200);
    world
        .pod("web")
        .until("ready", |pod| condition(pod, "Ready") == Some("True"))
        .await;
}

#[tokio::test]
async fn readiness_survives_a_restart_of_the_agent() {
    let mut world = World::new(1).await;
    let answers = watch::Sender::new(200);
    let port = server(&answers).await;
    let probe = json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 3600});
    world
        .apply(&with("web", &[], json!({"readinessProbe": probe})))
        .await;
    world
        .pod("web")
        .until("ready", |pod| condition(pod, "Ready") == Some("True"))
        .await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    world.run(&pod("other", Some("edge-1"))).await;
    let pod = world.pod("web").get().await;
    assert_eq!(condition(&pod, "Ready"), Some("True"));
}

#[tokio::test]
async fn a_post_start_hook_goes_before_the_next_container() {
    let world = World::new(1).await;
    let answers = watch::Sender::new(0);
    let get = json!({"httpGet": {"host": "127.0.0.1", "port": server(&answers).await}});
    let mut pod = with("pair", &[], json!({"lifecycle": {"postStart": get}}));
    let second = json!({"name": "second", "image": "registry.example/app:1"});
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(second);
    world.apply(&pod).await;
    let waits = |pod: &Value| {
        main_status(pod)["containerID"].is_string()
            && main_status(pod)["state"]["waiting"].is_object()
    };
    world.pod("pair").until("waiting for its hook", waits).await;
    assert_eq!(world.running(0).len(), 1, "the second one waits too");
    answers.send_replace(200);
    world.pod("pair").until("running", runs).await;
    assert_eq!(world.running(0).len(), 2);
}

#[tokio::test]
async fn a_container_whose_post_start_hook_fails_is_restarted() {
    let world = World::new(1).await;
    world
        .apply(&with(
            "bad",
            &[],
            json!({"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}),
        ))
        .await;
    world
        .pod("bad")
        .until("restarted", |pod| main_status(pod)["restartCount"] == 1)
        .await;
    until_event(&world, "FailedPostStartHook", "PostStartHook failed").await;
    until_event(&world, "Killing", "FailedPostStartHook").await;
}

#[tokio::test]
async fn a_pre_stop_hook_has_its_time_before_the_container_ends() {
    let world = World::new(1).await;
    let hook = json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}});
    let pod = world.run(&with("slow", &[], hook)).await;
    let since = Instant::now();
    // more than a test has patience: that it ends at all shows that it did not take its whole time
    world
        .pod("slow")
        .delete(Some(2 * WAIT_TIMEOUT.as_secs() as u32))
        .await;
    world.pod("slow").until_gone().await;
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}");
    world.until_nothing_is_left(0, &pod).await;
}

#[tokio::test]
async fn sidecars_end_after_the_containers_that_they_serve() {
    let world = World::new(1).await;
    let answers = watch::Sender::new(0);
    let get = json!({"httpGet": {"host": "127.0.0.1", "port": server(&answers).await}});
    let mut manifest = pod("served", Some("edge-1"));
    manifest["spec"]["initContainers"] = json!([{"name": "proxy", "image": "registry.example/proxy:1",
        "restartPolicy": "Always", "lifecycle": {"preStop": get}}]);
    manifest["spec"]["terminationGracePeriodSeconds"] = 100.into();
    world.run(&manifest).await;
    world.pod("served").delete(None).await;
    let alone = |pod: &Value| {
        pod["status"]["initContainerStatuses"][0]["state"]["running"].is_object()
            && main_status(pod)["state"]["terminated"].is_object()
    };
    world.pod("served").until("served to the end", alone).await;
    answers.send_replace(200);
    world.pod("served").until_gone().await;
}

#[tokio::test]
async fn a_pod_whose_time_is_up_fails() {
    let world = World::new(1).await;
    let mut manifest = pod("short", Some("edge-1"));
    // the time of its start has whole seconds: with one, it might be over before a container runs
    manifest["spec"]["activeDeadlineSeconds"] = 3.into();
    world.apply(&manifest).await;
    let pod = world
        .pod("short")
        .until("Failed", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    assert!(
        main_status(&pod)["state"]["terminated"].is_object(),
        "{pod:#}"
    );
    assert_eq!(world.running(0).len(), 0);
}

#[tokio::test]
async fn last_words_reach_the_status() {
    let world = World::new(1).await;
    let behaviour = [("log-lines", "one\ntwo"), ("exit-code", "3")];
    let fields = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    let mut manifest = with("logs", &behaviour, fields);
    manifest["spec"]["restartPolicy"] = "Never".into();
    world.apply(&manifest).await;
    let pod = world
        .pod("logs")
        .until("Failed", |pod| pod["status"]["phase"] == "Failed")
        .await;
    let words = main_status(&pod)["state"]["terminated"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(words.ends_with("\none\ntwo\n"), "{words}");
    manifest = pod_that("file", "edge-1", &[]);
    manifest["spec"]["restartPolicy"] = "Never".into();
    let pod = world.run(&manifest).await;
    let words = world.nodes[0]
        .directory()
        .join("kubelet/pods")
        .join(uid(&pod))
        .join("containers/main/0");
    std::fs::write(words, "out of paper").unwrap();
    let id = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&id, 1));
    let pod = world
        .pod("file")
        .until("Failed", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(
        main_status(&pod)["state"]["terminated"]["message"],
        "out of paper"
    );
}

#[tokio::test]
async fn a_pod_that_takes_anothers_name_does_not_run_beside_it() {
    let world = World::new(1).await;
    let first = world.run(&pod("twin", Some("edge-1"))).await;
    world.pod("twin").delete(Some(0)).await;
    let second = world.run(&pod("twin", Some("edge-1"))).await;
    assert_ne!(uid(&first), uid(&second));
    world.until_nothing_is_left(0, &first).await;
    assert_eq!(world.running(0).len(), 1);
}

#[tokio::test]
async fn events_count_and_follow_a_crash_loop() {
    let world = World::new(1).await;
    world
        .apply(&pod_that("loop", "edge-1", &[("exit-code", "2")]))
        .await;
    until_event(
        &world,
        "BackOff",
        "Back-off restarting failed container main in pod loop_default(",
    )
    .await;
    let mut missing = pod("missing", Some("edge-1"));
    missing["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "none"}}]);
    world.apply(&missing).await;
    until_event(&world, "FailedMount", "configmap \"none\" not found").await;
    let mut image = pod("image", Some("edge-1"));
    image["spec"]["containers"][0]["image"] = "absent.sim/a:1".into();
    world.apply(&image).await;
    until_event(&world, "Failed", "Failed to pull image \"absent.sim/a:1\"").await;
    until_event(&world, "Failed", "Error: ErrImagePull").await;
}
