//! Tests the lives of sandboxes and containers step by step, with a simulated time in nanoseconds.

use std::time::Duration;

use wire::cri::{
    ContainerConfig, ContainerEventType as Event, ContainerFilter, ContainerMetadata,
    ContainerState, ContainerStateValue, ContainerStatus, CreateContainerRequest, ImageSpec,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxFilter, PodSandboxMetadata,
};

use super::*;

const SECOND: Nanos = 1_000_000_000;

fn config(pod: &str, annotations: &[(&str, &str)]) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: pod.into(),
            uid: format!("uid-{pod}"),
            namespace: "default".into(),
            attempt: 0,
        }),
        labels: BTreeMap::from([("app".into(), pod.into())]),
        annotations: annotations
            .iter()
            .map(|(key, value)| (format!("sim.outrigger.dev/{key}"), (*value).to_owned()))
            .collect(),
        ..Default::default()
    }
}

fn request(sandbox: &str, name: &str, attempt: u32) -> CreateContainerRequest {
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: name.into(),
            attempt,
        }),
        image: Some(ImageSpec {
            image: "nginx".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    CreateContainerRequest {
        pod_sandbox_id: sandbox.into(),
        config: Some(config),
        ..Default::default()
    }
}

/// Returns a state with a sandbox `s` and a started container `c`, whose changes were taken.
fn running(annotations: &[(&str, &str)]) -> RuntimeState {
    let mut state = RuntimeState::default();
    state.add_image(Reference::parse("nginx").unwrap());
    state
        .run_sandbox("s".into(), config("pod", annotations), String::new(), 0)
        .unwrap();
    state
        .create_container("c".into(), request("s", "web", 0), 1)
        .unwrap();
    state.start_container("c", 2).unwrap();
    state.take_changes();
    state
}

fn status(state: &RuntimeState, id: &str) -> ContainerStatus {
    state.container(id).unwrap().status()
}

/// Returns kinds and ids of the events since the last call.
fn events(state: &mut RuntimeState) -> Vec<(Event, String)> {
    let events = state.take_changes().events;
    events
        .into_iter()
        .map(|e| (e.container_event_type(), e.container_id))
        .collect()
}

#[test]
fn a_life_tells_its_events() {
    let mut state = RuntimeState::default();
    state.add_image(Reference::parse("nginx").unwrap());
    state
        .run_sandbox("s".into(), config("pod", &[]), String::new(), 0)
        .unwrap();
    state
        .create_container("c".into(), request("s", "web", 0), 1)
        .unwrap();
    assert_eq!(
        status(&state, "c").state(),
        ContainerState::ContainerCreated
    );
    state.start_container("c", 2).unwrap();
    assert_eq!(
        status(&state, "c").state(),
        ContainerState::ContainerRunning
    );
    state
        .stop_container("c", Duration::from_secs(30), 3)
        .unwrap();
    let ended = status(&state, "c");
    assert_eq!((ended.exit_code, ended.reason.as_str()), (0, "Completed"));
    assert_eq!(
        (ended.created_at, ended.started_at, ended.finished_at),
        (1, 2, 3)
    );
    state.remove_sandbox("s", 4);
    let all: Vec<_> = events(&mut state)
        .into_iter()
        .map(|(kind, id)| (kind.as_str_name(), id))
        .collect();
    insta::assert_debug_snapshot!(all, @r#"
    [
        (
            "CONTAINER_CREATED_EVENT",
            "s",
        ),
        (
            "CONTAINER_STARTED_EVENT",
            "s",
        ),
        (
            "CONTAINER_CREATED_EVENT",
            "c",
        ),
        (
            "CONTAINER_STARTED_EVENT",
            "c",
        ),
        (
            "CONTAINER_STOPPED_EVENT",
            "c",
        ),
        (
            "CONTAINER_STOPPED_EVENT",
            "s",
        ),
        (
            "CONTAINER_DELETED_EVENT",
            "c",
        ),
        (
            "CONTAINER_DELETED_EVENT",
            "s",
        ),
    ]
    "#);
}

#[test]
fn containers_end_as_they_are_asked_and_as_they_behave() {
    let grace = Duration::from_secs(30);
    for (annotations, grace, end, code, reason) in [
        (&[][..], grace, 10, 0, "Completed"),
        (&[("web.stop-code", "143")], grace, 10, 143, "Error"),
        (
            &[("web.stop-time", "3s")],
            grace,
            10 + 3 * SECOND,
            0,
            "Completed",
        ),
        (
            &[("web.stop-time", "31s")],
            grace,
            10 + 30 * SECOND,
            137,
            "Error",
        ),
        (
            &[("web.stop-time", "never")],
            grace,
            10 + 30 * SECOND,
            137,
            "Error",
        ),
        (
            &[("web.stop-time", "never")],
            Duration::MAX,
            Nanos::MAX,
            137,
            "Error",
        ),
        (&[], Duration::ZERO, 10, 137, "Error"),
        // A container that would end by itself earlier does so.
        (
            &[("web.stop-time", "never"), ("web.exit-after", "5s")],
            grace,
            2 + 5 * SECOND,
            0,
            "Completed",
        ),
    ] {
        let mut state = running(annotations);
        state.stop_container("c", grace, 10).unwrap();
        state.advance(end - 1);
        assert_eq!(state.is_running("c"), end > 10, "{annotations:?}");
        state.advance(end);
        let ended = status(&state, "c");
        assert_eq!(
            (ended.finished_at, ended.exit_code, ended.reason.as_str()),
            (end, code, reason)
        );
        assert_eq!(state.next_deadline(), None);
    }
}

#[test]
fn a_second_stop_can_only_hurry() {
    let mut state = running(&[("web.stop-time", "never")]);
    state
        .stop_container("c", Duration::from_secs(30), 10)
        .unwrap();
    state
        .stop_container("c", Duration::from_secs(60), 11)
        .unwrap();
    assert_eq!(state.next_deadline(), Some(10 + 30 * SECOND));
    state
        .stop_container("c", Duration::from_secs(1), 12)
        .unwrap();
    assert_eq!(state.next_deadline(), Some(12 + SECOND));
    state.remove_container("c", 13);
    assert_eq!(state.next_deadline(), None);
}

#[test]
fn exits_by_itself_at_its_time_even_when_seen_late() {
    let annotations = [
        ("web.exit-after", "2s"),
        ("web.exit-code", "7"),
        ("web.exit-attempts", "1"),
    ];
    let mut state = running(&annotations);
    assert_eq!(state.next_deadline(), Some(2 + 2 * SECOND));
    state.advance(100 * SECOND);
    let ended = status(&state, "c");
    assert_eq!(
        (ended.finished_at, ended.exit_code, ended.reason.as_str()),
        (2 + 2 * SECOND, 7, "Error")
    );
    state
        .create_container("d".into(), request("s", "web", 1), 101 * SECOND)
        .unwrap();
    state.start_container("d", 101 * SECOND).unwrap();
    assert_eq!(state.next_deadline(), None);
    assert_eq!(state.container_ids_of("uid-pod"), ["c", "d"]);
}

#[test]
fn a_failed_start_is_an_exit_that_never_ran() {
    let mut state = running(&[]);
    state
        .create_container("d".into(), request("s", "job", 0), 3)
        .unwrap();
    state.fail_start("d", "no such device", 4);
    let ended = status(&state, "d");
    assert_eq!(
        (ended.started_at, ended.finished_at, ended.exit_code),
        (0, 4, 128)
    );
    assert_eq!(
        (ended.reason.as_str(), ended.message.as_str()),
        ("StartError", "no such device")
    );
    // A running container has not failed to start.
    state.fail_start("c", "late", 5);
    assert!(state.is_running("c"));
}

#[test]
fn what_is_not_there_is_not_found_or_already_gone() {
    let mut state = running(&[]);
    state.take_changes();
    for id in ["", "x", "s/../c"] {
        assert!(matches!(state.container(id), Err(Refusal::NotFound { .. })));
        assert!(matches!(state.sandbox(id), Err(Refusal::NotFound { .. })));
        assert!(matches!(
            state.start_container(id, 5),
            Err(Refusal::NotFound { .. })
        ));
        assert!(matches!(state.running(id), Err(Refusal::NotFound { .. })));
        assert_eq!(state.stop_container(id, Duration::ZERO, 5), Ok(()));
        state.remove_container(id, 5);
        state.stop_sandbox(id, 5);
        state.remove_sandbox(id, 5);
        state.remove_image(id);
    }
    assert!(state.take_changes().is_empty());
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut state = running(&[("bad.exit-code", "x")]);
    let run = |state: &mut RuntimeState, config, handler: &str| {
        state.run_sandbox("t".into(), config, handler.into(), 5)
    };
    assert!(matches!(
        run(&mut state, config("pod", &[]), ""),
        Err(Refusal::NameTaken { .. })
    ));
    assert!(matches!(
        run(&mut state, config("", &[]), ""),
        Err(Refusal::Invalid(_))
    ));
    assert!(matches!(
        run(&mut state, config("other", &[]), "kata"),
        Err(Refusal::Invalid(_))
    ));
    let create = |state: &mut RuntimeState, request| state.create_container("d".into(), request, 5);
    assert!(matches!(
        create(&mut state, request("s", "web", 0)),
        Err(Refusal::NameTaken { .. })
    ));
    assert!(matches!(
        create(&mut state, request("s", "bad", 0)),
        Err(Refusal::Annotation(_))
    ));
    assert!(matches!(
        create(&mut state, request("s", "", 0)),
        Err(Refusal::Invalid(_))
    ));
    assert!(matches!(
        create(&mut state, request("x", "web", 0)),
        Err(Refusal::NotFound { .. })
    ));
    assert!(matches!(
        state.start_container("c", 5),
        Err(Refusal::WrongState { .. })
    ));
    state.remove_image("nginx");
    state.take_changes();
    assert!(matches!(
        create(&mut state, request("s", "web", 1)),
        Err(Refusal::NoImage(_))
    ));
    assert!(state.take_changes().is_empty());
}

#[test]
fn a_stopped_sandbox_starts_nothing_and_frees_its_address() {
    let mut state = running(&[]);
    state
        .create_container("d".into(), request("s", "job", 0), 3)
        .unwrap();
    let ip = |state: &RuntimeState, id| state.sandbox(id).unwrap().status().network.unwrap().ip;
    assert_eq!(ip(&state, "s"), "10.88.0.2");
    state.stop_sandbox("s", 4);
    assert_eq!(ip(&state, "s"), "");
    assert_eq!(status(&state, "c").exit_code, 137);
    assert!(matches!(
        state.start_container("d", 5),
        Err(Refusal::WrongState {
            kind: "sandbox",
            ..
        })
    ));
    assert!(matches!(
        state.create_container("e".into(), request("s", "late", 0), 5),
        Err(Refusal::WrongState {
            kind: "sandbox",
            ..
        })
    ));
    let node = NamespaceOption {
        network: NamespaceMode::Node.into(),
        ..Default::default()
    };
    let security = LinuxSandboxSecurityContext {
        namespace_options: Some(node),
        ..Default::default()
    };
    let linux = LinuxPodSandboxConfig {
        security_context: Some(security),
        ..Default::default()
    };
    let on_host = PodSandboxConfig {
        linux: Some(linux),
        ..config("host", &[])
    };
    state
        .run_sandbox("h".into(), on_host, String::new(), 6)
        .unwrap();
    assert_eq!(ip(&state, "h"), "");
}

#[test]
fn lists_are_filtered_by_all_conditions() {
    let mut state = running(&[]);
    state
        .run_sandbox("t".into(), config("other", &[]), String::new(), 3)
        .unwrap();
    state.stop_sandbox("t", 4);
    let sandboxes = |filter: PodSandboxFilter| -> Vec<String> {
        state
            .list_sandboxes(&filter)
            .into_iter()
            .map(|sandbox| sandbox.id)
            .collect()
    };
    let app = |name: &str| BTreeMap::from([("app".to_owned(), name.to_owned())]);
    assert_eq!(sandboxes(PodSandboxFilter::default()), ["s", "t"]);
    assert_eq!(
        sandboxes(PodSandboxFilter {
            label_selector: app("pod"),
            ..Default::default()
        }),
        ["s"]
    );
    assert_eq!(
        sandboxes(PodSandboxFilter {
            state: Some(Default::default()),
            ..Default::default()
        }),
        ["s"]
    );
    assert!(
        sandboxes(PodSandboxFilter {
            id: "t".into(),
            label_selector: app("pod"),
            ..Default::default()
        })
        .is_empty()
    );
    let containers = |filter: ContainerFilter| state.list_containers(&filter).len();
    let exited = Some(ContainerStateValue {
        state: ContainerState::ContainerExited.into(),
    });
    assert_eq!(
        containers(ContainerFilter {
            pod_sandbox_id: "s".into(),
            ..Default::default()
        }),
        1
    );
    assert_eq!(
        containers(ContainerFilter {
            state: exited,
            ..Default::default()
        }),
        0
    );
    assert_eq!(
        containers(ContainerFilter {
            label_selector: app("pod"),
            ..Default::default()
        }),
        0
    );
}

#[test]
fn images_are_found_by_every_name() {
    let mut state = RuntimeState::default();
    let nginx = Reference::parse("nginx").unwrap();
    state.add_image(nginx.clone());
    for name in [
        "nginx",
        "nginx:latest",
        "docker.io/library/nginx",
        &nginx.id(),
        nginx.id().trim_start_matches("sha256:"),
    ] {
        assert_eq!(state.find_image(name), Some(&nginx), "{name}");
    }
    assert_eq!(state.find_image("nginx:1"), None);
    state.remove_image(&nginx.id());
    assert_eq!(state.images().count(), 0);
}

#[test]
fn churn_leaves_nothing_behind() {
    let mut state = running(&[]);
    state.remove_sandbox("s", 3);
    for n in 0..1000 {
        let id = format!("s{n}");
        let busy = config(&id, &[("web.exit-after", "1h")]);
        state
            .run_sandbox(id.clone(), busy, String::new(), n)
            .unwrap();
        state
            .create_container(format!("c{n}"), request(&id, "web", 0), n)
            .unwrap();
        state.start_container(&format!("c{n}"), n).unwrap();
        state.remove_sandbox(&id, n);
        state.take_changes();
    }
    assert!(
        state.sandboxes.is_empty() && state.containers.is_empty() && state.deadlines.is_empty()
    );
    assert_eq!(state.addresses.used_count(), 0);
}
