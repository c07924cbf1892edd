//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;
use crate::observed::{Container, Health, ObservedState, Sandbox};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn pod(restart: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "restartPolicy": restart,
        "initContainers": [{"name": "init", "image": "init"}],
        "containers": [{"name": "web", "image": "web:1"}]
    }}))
    .unwrap()
}

fn container(name: &str, attempt: u32, state: ObservedState) -> Container {
    Container {
        id: format!("{name}{attempt}"),
        sandbox_id: "s".into(),
        name: name.into(),
        attempt,
        hash: None,
        restart_step: 0,
        image: String::new(),
        image_id: "sha256:1".into(),
        created_at: at(0),
        state,
        recursive_read_only: Vec::new(),
        termination_message: None,
        health: Health::default(),
        replaced: false,
    }
}

fn running() -> ObservedState {
    ObservedState::Running { started_at: at(2) }
}

fn exited_state(exit_code: i32) -> ObservedState {
    ObservedState::Exited {
        started_at: Some(at(2)),
        finished_at: at(4),
        exit_code,
        reason: String::new(),
        message: String::new(),
    }
}

fn observed_pod(containers: Vec<Container>) -> ObservedPod {
    let sandbox = Sandbox {
        id: "s".into(),
        attempt: 0,
        ready: true,
        created_at: at(0),
        ips: vec!["10.1.0.2".into()],
    };
    ObservedPod::new(vec![sandbox], containers)
}

struct Case {
    pod: Pod,
    observed: ObservedPod,
    waiting: Vec<(&'static str, Waiting)>,
    held_up: Option<Waiting>,
    resize: Option<ResizeStatus>,
    failed: Option<Waiting>,
    disrupted: Option<&'static str>,
    ended: bool,
    now: i64,
}

impl Case {
    fn new(restart: &str, containers: Vec<Container>) -> Self {
        let observed = observed_pod(containers);
        Self {
            pod: pod(restart),
            observed,
            waiting: vec![],
            held_up: None,
            resize: None,
            failed: None,
            disrupted: None,
            ended: false,
            now: 10,
        }
    }

    fn status(&self) -> PodStatus {
        of(&PodStatusInputs {
            pod: &self.pod,
            observed: &self.observed,
            waiting: &self
                .waiting
                .iter()
                .map(|(name, waiting)| ((*name).to_owned(), waiting.clone()))
                .collect(),
            held_up: self.held_up.as_ref(),
            resources: &KnownResources::new(),
            resize: self.resize.as_ref(),
            host_ips: &["192.168.1.5".to_owned()],
            runtime_name: "containerd",
            ended: self.ended,
            failed: self.failed.as_ref(),
            disrupted: self.disrupted,
            now: at(self.now),
        })
    }

    /// The status after the API has stored it.
    fn json(&self) -> Value {
        serde_json::to_value(self.status()).unwrap()
    }

    fn phase(&self) -> String {
        self.status().phase.unwrap()
    }
}

fn init_done() -> Container {
    container("init", 0, exited_state(0))
}

#[test]
fn a_running_pod() {
    let case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_pod_in_a_crash_loop_keeps_its_phase_and_its_count() {
    let mut case = Case::new(
        "Always",
        vec![init_done(), container("web", 3, exited_state(1))],
    );
    case.waiting.push((
        "web",
        Waiting::new(
            "CrashLoopBackOff",
            "back-off 20s restarting failed container=web",
        ),
    ));
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_start_that_failed_is_a_wait_only_when_there_will_be_another() {
    for (policy, state) in [
        ("Never", "terminated"),
        ("OnFailure", "waiting"),
        ("Always", "waiting"),
    ] {
        let mut case = Case::new(
            policy,
            vec![init_done(), container("web", 0, exited_state(128))],
        );
        case.waiting
            .push(("web", Waiting::new("RunContainerError", "no such file")));
        let status = case.json();
        assert!(
            status["containerStatuses"][0]["state"][state].is_object(),
            "{policy}: {status}"
        );
    }
}

#[test]
fn a_pod_whose_volume_is_missing() {
    let mut case = Case::new("Always", vec![]);
    case.observed = ObservedPod::default();
    case.held_up = Some(Waiting::new(
        "ContainerCreating",
        "MountVolume.SetUp failed for volume \"v\"",
    ));
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_restarted_container_shows_how_the_one_before_it_ended() {
    let case = Case::new(
        "Always",
        vec![
            init_done(),
            container("web", 1, running()),
            container("web", 0, exited_state(137)),
        ],
    );
    let status = case.json();
    assert_eq!(
        status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        137
    );
    assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(status["containerStatuses"][0]["ready"], true);
}

#[test]
fn phases_follow_the_restart_policy() {
    for (restart, web, wanted) in [
        ("Always", running(), "Running"),
        ("Always", exited_state(0), "Running"),
        ("Never", exited_state(0), "Succeeded"),
        ("Never", exited_state(3), "Failed"),
        ("OnFailure", exited_state(0), "Succeeded"),
        ("OnFailure", exited_state(3), "Running"),
    ] {
        let case = Case::new(restart, vec![init_done(), container("web", 0, web)]);
        assert_eq!(case.phase(), wanted, "{restart}");
    }
    assert_eq!(
        Case::new("Never", vec![container("init", 0, exited_state(1))]).phase(),
        "Failed"
    );
    assert_eq!(
        Case::new("OnFailure", vec![container("init", 0, exited_state(1))]).phase(),
        "Pending"
    );
    assert_eq!(
        Case::new("Always", vec![container("init", 0, running())]).phase(),
        "Pending"
    );
}

#[test]
fn a_deleted_pod_ends_as_succeeded_or_failed() {
    for (code, wanted) in [(0, "Succeeded"), (137, "Failed")] {
        let mut case = Case::new(
            "Always",
            vec![init_done(), container("web", 0, exited_state(code))],
        );
        case.ended = true;
        assert_eq!(case.phase(), wanted);
        case.pod.status = Some(case.status());
        case.observed = ObservedPod::default();
        let after = case.json();
        assert_eq!(
            after["containerStatuses"][0]["state"]["terminated"]["exitCode"],
            code
        );
        assert_eq!(
            after["podIP"], "10.1.0.2",
            "a pod that is over keeps its address"
        );
    }
}

#[test]
fn transitions_are_timed_once_and_foreign_conditions_are_left_alone() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    case.pod.status = serde_json::from_value(json!({"qosClass": "Burstable", "conditions": [
        {"type": "example.com/gate", "status": "False"},
        {"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    ]}))
    .unwrap();
    let first = case.status();
    assert_eq!(first.qos_class.as_deref(), Some("Burstable"));
    assert_eq!(
        first.conditions.as_ref().unwrap()[0].type_,
        "example.com/gate"
    );
    case.pod.status = Some(first.clone());
    case.now = 500;
    let second = case.status();
    assert_eq!(
        difference(&first, &second).unwrap(),
        None,
        "nothing happened, so there is nothing to report"
    );
    case.observed = observed_pod(vec![init_done(), container("web", 0, exited_state(1))]);
    let third = serde_json::to_value(case.status()).unwrap();
    let since = |kind: &str| {
        let conditions = third["conditions"].as_array().unwrap();
        conditions.iter().find(|c| c["type"] == kind).unwrap()["lastTransitionTime"].clone()
    };
    assert_ne!(since("Ready"), since("PodScheduled"));
}

#[test]
fn readiness_gates_hold_the_pod_back() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    let spec = case.pod.spec.as_mut().unwrap();
    spec.readiness_gates =
        serde_json::from_value(json!([{"conditionType": "example.com/gate"}])).unwrap();
    let status = case.status();
    let ready = status
        .conditions
        .unwrap()
        .into_iter()
        .find(|c| c.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
}

#[test]
fn pods_on_the_hosts_network_have_its_address() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    case.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(case.status().pod_ip.as_deref(), Some("192.168.1.5"));
}

#[test]
fn running_status_follows_probes_and_hooks() {
    let status_with = |health: Health| {
        let mut web = container("web", 0, running());
        web.health = health;
        let status = Case::new("Always", vec![container("init", 0, exited_state(0)), web]).status();
        let web = status.container_statuses.unwrap().remove(0);
        let waits = web
            .state
            .unwrap()
            .waiting
            .and_then(|waiting| waiting.reason);
        (status.phase.unwrap(), web.started, web.ready, waits)
    };
    let running = "Running".to_owned();
    assert_eq!(
        status_with(Health::default()),
        (running.clone(), Some(true), true, None)
    );
    let unready = Health {
        ready: false,
        ..Health::default()
    };
    assert_eq!(
        status_with(unready.clone()),
        (running.clone(), Some(true), false, None)
    );
    let unstarted = Health {
        started: false,
        ..unready
    };
    assert_eq!(status_with(unstarted), (running, Some(false), false, None));
    let starting = Health {
        starting: true,
        ..Health::default()
    };
    let waits = Some("PodInitializing".to_owned());
    assert_eq!(
        status_with(starting),
        ("Pending".into(), Some(false), false, waits)
    );
}

#[test]
fn a_pod_whose_time_is_up_fails_when_its_containers_have_ended() {
    let told = |state: ObservedState| {
        let mut case = Case::new(
            "Always",
            vec![
                container("init", 0, exited_state(0)),
                container("web", 0, state),
            ],
        );
        case.failed = Some(Waiting::new("DeadlineExceeded", "too long"));
        let status = case.status();
        (status.phase.unwrap(), status.reason, status.message)
    };
    assert_eq!(told(running()), ("Running".into(), None, None));
    let failed = (
        "Failed".into(),
        Some("DeadlineExceeded".into()),
        Some("too long".into()),
    );
    assert_eq!(told(exited_state(137)), failed);
}

#[test]
fn a_sidecar_initialises_once_it_has_started() {
    let phase = |started: bool| {
        let mut case = Case::new("Always", vec![container("init", 0, running())]);
        case.pod
            .spec
            .as_mut()
            .unwrap()
            .init_containers
            .as_mut()
            .unwrap()[0]
            .restart_policy = Some("Always".into());
        case.observed.containers[0].health = Health {
            started,
            ready: started,
            ..Health::default()
        };
        let conditions = case.status().conditions.unwrap();
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "Initialized")
            .unwrap()
            .status
    };
    assert_eq!((phase(false), phase(true)), ("False".into(), "True".into()));
}

#[test]
fn a_pod_is_over_when_its_last_sidecar_has_ended() {
    let phase = |sidecar: ObservedState, code: i32| {
        let mut case = Case::new(
            "Never",
            vec![
                container("init", 0, sidecar),
                container("web", 0, exited_state(code)),
            ],
        );
        case.pod
            .spec
            .as_mut()
            .unwrap()
            .init_containers
            .as_mut()
            .unwrap()[0]
            .restart_policy = Some("Always".into());
        case.phase()
    };
    assert_eq!(
        (phase(running(), 0), phase(running(), 1)),
        ("Running".into(), "Running".into())
    );
    assert_eq!(
        (phase(exited_state(143), 0), phase(exited_state(143), 1)),
        ("Succeeded".into(), "Failed".into())
    );
}

#[test]
fn a_containers_own_policy_decides_whether_the_pod_goes_on() {
    let phase = |own: Option<&str>, code: i32| {
        let mut case = Case::new(
            "Always",
            vec![
                container("init", 0, exited_state(0)),
                container("web", 0, exited_state(code)),
            ],
        );
        case.pod.spec.as_mut().unwrap().containers[0].restart_policy = own.map(str::to_owned);
        case.status().phase.unwrap()
    };
    assert_eq!(phase(None, 0), "Running");
    assert_eq!(phase(Some("Never"), 0), "Succeeded");
    assert_eq!(phase(Some("OnFailure"), 1), "Running");
    assert_eq!(phase(Some("Never"), 1), "Failed");
}

#[test]
fn ephemeral_containers_have_a_list_of_their_own() {
    let mut case = Case::new(
        "Always",
        vec![
            container("web", 0, running()),
            container("debug", 0, running()),
        ],
    );
    let ephemeral = json!([{"name": "debug", "image": "busybox"}]);
    case.pod.spec.as_mut().unwrap().ephemeral_containers =
        serde_json::from_value(ephemeral).unwrap();
    let status = case.status();
    let debug = status.ephemeral_container_statuses.unwrap().remove(0);
    assert!(debug.state.unwrap().running.is_some() && !debug.ready && debug.started.is_none());
    assert_eq!(status.container_statuses.unwrap().len(), 1);
}

#[test]
fn mounts_say_whether_what_is_below_them_can_be_written() {
    let mut newest = container("web", 0, running());
    newest.recursive_read_only = vec!["/b".into()];
    let mut case = Case::new("Always", vec![init_done(), newest]);
    let mounts = json!([
        {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "readOnly": true},
        {"name": "v", "mountPath": "/c", "readOnly": true},
    ]);
    case.pod.spec.as_mut().unwrap().containers[0].volume_mounts =
        serde_json::from_value(mounts).unwrap();
    assert_eq!(
        case.json()["containerStatuses"][0]["volumeMounts"],
        json!([
            {"name": "v", "mountPath": "/a"},
            {"name": "v", "mountPath": "/b", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "v", "mountPath": "/c", "readOnly": true, "recursiveReadOnly": "Disabled"},
        ])
    );
}

#[test]
fn ended_container_shows_why_its_restart_waits() {
    let mut case = Case::new(
        "Always",
        vec![init_done(), container("web", 0, exited_state(1))],
    );
    case.held_up = Some(Waiting::new(
        "ContainerCreating",
        "/data is not a directory",
    ));
    let web = |case: &Case| case.status().container_statuses.unwrap().remove(0);
    let waits = web(&case).state.unwrap().waiting.unwrap();
    assert_eq!(waits.message.as_deref(), Some("/data is not a directory"));
    assert_eq!(
        web(&case).last_state.unwrap().terminated.unwrap().exit_code,
        1
    );
    case.observed = observed_pod(vec![init_done(), container("web", 0, running())]);
    assert!(web(&case).ready, "one that runs is not disturbed");
    case.observed = observed_pod(vec![init_done(), container("web", 0, exited_state(1))]);
    case.pod.metadata.deletion_timestamp =
        Some(crate::timestamps::to_api(jiff::Timestamp::UNIX_EPOCH));
    assert!(
        web(&case).state.unwrap().terminated.is_some(),
        "there is no next one"
    );
}

#[test]
fn opened_readiness_gate_makes_the_pod_ready() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    let spec = case.pod.spec.as_mut().unwrap();
    spec.readiness_gates =
        serde_json::from_value(json!([{"conditionType": "example.com/gate"}])).unwrap();
    for (gate, ready) in [("False", "False"), ("True", "True")] {
        let conditions = json!({"conditions": [{"type": "example.com/gate", "status": gate}]});
        case.pod.status = serde_json::from_value(conditions).unwrap();
        let conditions = case.status().conditions.unwrap();
        let status = |kind: &str| {
            conditions
                .iter()
                .find(|c| c.type_ == kind)
                .unwrap()
                .status
                .clone()
        };
        assert_eq!(
            (status("Ready"), status("example.com/gate")),
            (ready.to_owned(), gate.to_owned())
        );
    }
}

#[test]
fn a_sidecar_that_is_not_ready_holds_the_pod_back() {
    let condition = |ready: bool| {
        let mut case = Case::new(
            "Always",
            vec![
                container("init", 0, running()),
                container("web", 0, running()),
            ],
        );
        case.pod
            .spec
            .as_mut()
            .unwrap()
            .init_containers
            .as_mut()
            .unwrap()[0]
            .restart_policy = Some("Always".into());
        case.observed
            .containers
            .iter_mut()
            .find(|one| one.name == "init")
            .unwrap()
            .health
            .ready = ready;
        let conditions = case.status().conditions.unwrap();
        let ready = conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready")
            .unwrap();
        (ready.status, ready.message.unwrap_or_default())
    };
    assert_eq!(condition(true).0, "True");
    assert_eq!(
        condition(false),
        (
            "False".into(),
            "containers with unready status: [init]".into()
        )
    );
}

#[test]
fn a_container_that_has_vanished_is_told_as_killed_and_counted_once() {
    let before = Case::new("Always", vec![init_done(), container("web", 2, running())]);
    let mut case = Case::new("Always", vec![]);
    case.pod.status = Some(before.status());
    let after = case.json();
    let web = &after["containerStatuses"][0];
    assert_eq!(web["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(
        web["lastState"]["terminated"]["reason"],
        "ContainerStatusUnknown"
    );
    assert_eq!(
        (
            &web["lastState"]["terminated"]["exitCode"],
            &web["restartCount"]
        ),
        (&json!(137), &json!(3))
    );
    assert_eq!(after["phase"], "Running", "it has been initialised");
    let init = &after["initContainerStatuses"][0];
    assert_eq!(
        init["state"]["terminated"]["exitCode"], 0,
        "what has ended stays told"
    );
    case.pod.status = serde_json::from_value(after.clone()).unwrap();
    assert_eq!(case.json()["containerStatuses"], after["containerStatuses"]);
    // and when there is a pod no more, it is not started again
    case.pod.status = Some(before.status());
    case.ended = true;
    let web = &case.json()["containerStatuses"][0];
    assert_eq!(
        (
            &web["state"]["terminated"]["exitCode"],
            &web["restartCount"]
        ),
        (&json!(137), &json!(2))
    );
}

#[test]
fn resize_conditions_come_and_go() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    let resized = |case: &Case| {
        let status = case.status();
        let conditions = status.conditions.iter().flatten();
        let conditions = conditions.filter(|condition| condition.type_.starts_with("PodResize"));
        let conditions: Vec<_> = conditions
            .map(|condition| {
                json!([
                    condition.type_,
                    condition.status,
                    condition.reason,
                    condition.message
                ])
            })
            .collect();
        (conditions, status)
    };
    assert_eq!(resized(&case).0, Vec::<Value>::new());
    let states = [
        (
            Some(ResizeStatus::Pending {
                reason: "Deferred",
                message: "full".into(),
            }),
            vec![json!(["PodResizePending", "True", "Deferred", "full"])],
        ),
        (
            Some(ResizeStatus::InProgress { error: None }),
            vec![json!(["PodResizeInProgress", "True", null, null])],
        ),
        (
            Some(ResizeStatus::InProgress {
                error: Some("no".into()),
            }),
            vec![json!(["PodResizeInProgress", "True", "Error", "no"])],
        ),
        (None, vec![]),
    ];
    for (state, expected) in states {
        case.resize = state;
        let (conditions, status) = resized(&case);
        assert_eq!(conditions, expected);
        case.pod.status = Some(status);
    }
}
