//! Tests of [`super`].

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::observed::Health;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(restart: &str) -> k8s_openapi::api::core::v1::Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "restartPolicy": restart,
        "initContainers": [
            {"name": "first", "image": "init"},
            {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "web", "image": "web:1"}, {"name": "log", "image": "log"}]
    }}))
    .unwrap()
}

fn desired_pod(restart: &str) -> DesiredPod {
    DesiredPod::of(&pod(restart), at(NOW))
}

fn sandbox(id: &str, attempt: u32, ready: bool) -> Sandbox {
    Sandbox {
        id: id.into(),
        attempt,
        ready,
        created_at: at(NOW - 5000 + i64::from(attempt)),
        ips: vec![],
    }
}

fn container(sandbox: &str, name: &str, attempt: u32, state: ObservedState) -> Container {
    let hash = desired_pod("Always")
        .containers
        .iter()
        .find(|wanted| wanted.name == name)
        .map(|w| w.hash.clone());
    Container {
        id: format!("{name}{attempt}"),
        sandbox_id: sandbox.into(),
        name: name.into(),
        attempt,
        hash,
        restart_step: attempt,
        image: String::new(),
        image_id: String::new(),
        created_at: at(NOW - 4000),
        state,
        recursive_read_only: Vec::new(),
        termination_message: None,
        health: Health::default(),
        replaced: false,
    }
}

fn running() -> ObservedState {
    ObservedState::Running {
        started_at: at(NOW - 3000),
    }
}

/// Ended `ago` seconds ago after running for `ran` seconds.
fn exited_state(exit_code: i32, ago: i64, ran: i64) -> ObservedState {
    let finished_at = at(NOW - ago);
    let started_at = Some(at(NOW - ago - ran));
    ObservedState::Exited {
        started_at,
        finished_at,
        exit_code,
        reason: String::new(),
        message: String::new(),
    }
}

/// The plan in one line per step.
fn lines(restart: &str, sandboxes: Vec<Sandbox>, containers: Vec<Container>) -> Vec<String> {
    let plan = plan(
        &desired_pod(restart),
        &ObservedPod::new(sandboxes, containers),
        at(NOW),
    );
    let wake = plan
        .replan_at
        .map(|wake| format!("wake +{}", wake.as_second() - NOW));
    plan.actions
        .into_iter()
        .map(|action| match action {
            Action::StopContainer {
                id,
                why: StopReason::HealthFailure(failure),
            } => {
                format!("stop {id} for {failure:?}")
            }
            Action::StopContainer { id, .. } => format!("stop {id}"),
            Action::RemoveContainer { id } => format!("remove {id}"),
            Action::StopSandbox { id } => format!("stop sandbox {id}"),
            Action::RemoveSandbox { id } => format!("remove sandbox {id}"),
            Action::CreateSandbox { attempt } => format!("sandbox {attempt}"),
            Action::Start {
                name,
                attempt,
                restart_step,
            } => {
                format!("start {name} {attempt} step {restart_step}")
            }
        })
        .chain(wake)
        .collect()
}

fn s() -> Vec<Sandbox> {
    vec![sandbox("s", 0, true)]
}

fn c(name: &str, attempt: u32, state: ObservedState) -> Container {
    container("s", name, attempt, state)
}

#[test]
fn a_pod_starts_step_by_step() {
    assert_eq!(lines("Always", vec![], vec![]), ["sandbox 0"]);
    assert_eq!(lines("Always", s(), vec![]), ["start first 0 step 0"]);
    assert_eq!(
        lines("Always", s(), vec![c("first", 0, running())]),
        [""; 0]
    );
    let mut so_far = vec![c("first", 0, exited_state(0, 1, 1))];
    assert_eq!(
        lines("Always", s(), so_far.clone()),
        ["start proxy 0 step 0"]
    );
    so_far.push(c("proxy", 0, running()));
    assert_eq!(
        lines("Always", s(), so_far.clone()),
        ["start web 0 step 0", "start log 0 step 0"]
    );
    so_far.extend([c("web", 0, running()), c("log", 0, running())]);
    assert_eq!(lines("Always", s(), so_far), [""; 0]);
}

#[test]
fn init_containers_that_fail_are_retried_unless_the_policy_is_never() {
    let failed = vec![c("first", 0, exited_state(1, 1, 1))];
    assert_eq!(
        lines("Always", s(), failed.clone()),
        ["start first 1 step 1"]
    );
    assert_eq!(
        lines("OnFailure", s(), failed.clone()),
        ["start first 1 step 1"]
    );
    assert_eq!(lines("Never", s(), failed), ["stop sandbox s"]);
    let again = vec![c("first", 1, exited_state(1, 4, 1))];
    assert_eq!(lines("Always", s(), again), ["wake +6"]);
}

/// A pod that got as far as its main containers.
fn up(web: ObservedState, log: ObservedState) -> Vec<Container> {
    vec![
        c("first", 0, exited_state(0, 3500, 1)),
        c("proxy", 0, running()),
        c("web", 0, web),
        c("log", 0, log),
    ]
}

#[test]
fn ended_containers_follow_the_restart_policy() {
    let one_done = up(exited_state(0, 1, 1), running());
    assert_eq!(
        lines("Always", s(), one_done.clone()),
        ["start web 1 step 1"]
    );
    assert_eq!(lines("OnFailure", s(), one_done.clone()), [""; 0]);
    assert_eq!(lines("Never", s(), one_done), [""; 0]);
    assert_eq!(
        lines("OnFailure", s(), up(exited_state(2, 1, 1), running())),
        ["start web 1 step 1"]
    );
    let all_done = up(exited_state(0, 1, 1), exited_state(0, 1, 1));
    assert_eq!(
        lines("OnFailure", s(), all_done.clone()),
        ["stop proxy0"],
        "the sidecar ends last"
    );
    let mut wound_down = all_done;
    wound_down[1].state = exited_state(0, 0, 9);
    assert_eq!(
        lines("OnFailure", s(), wound_down.clone()),
        ["stop sandbox s"]
    );
    assert_eq!(
        lines("OnFailure", vec![sandbox("s", 0, false)], wound_down),
        [""; 0]
    );
}

#[test]
fn a_sidecar_that_ends_is_started_again_beside_the_running_pod() {
    let mut pod = up(running(), running());
    pod[1].state = exited_state(0, 1, 1);
    assert_eq!(lines("Never", s(), pod), ["start proxy 1 step 1"]);
}

#[test]
fn back_off_doubles_to_five_minutes_and_is_forgotten_after_ten_good_ones() {
    let crashed = |restart_step: u32, ago, ran| {
        let mut pod = up(exited_state(1, ago, ran), running());
        (pod[2].attempt, pod[2].restart_step) = (restart_step, restart_step);
        lines("Always", s(), pod)
    };
    assert_eq!(crashed(0, 0, 1), ["start web 1 step 1"]);
    assert_eq!(crashed(1, 0, 1), ["wake +10"]);
    assert_eq!(crashed(1, 10, 1), ["start web 2 step 2"]);
    assert_eq!(crashed(2, 0, 1), ["wake +20"]);
    assert_eq!(crashed(5, 0, 1), ["wake +160"]);
    assert_eq!(crashed(6, 0, 1), ["wake +300"]);
    assert_eq!(crashed(4_000_000_000, 0, 1), ["wake +300"]);
    assert_eq!(crashed(6, 0, 600), ["start web 7 step 1"]);
    assert_eq!(
        crashed(6, -400, 1),
        ["start web 7 step 7"],
        "a clock that was set back"
    );
}

#[test]
fn an_image_change_restarts_that_container_only() {
    let mut pod = up(running(), running());
    pod[2].hash = Some("0123456789abcdef".into());
    assert_eq!(lines("Always", s(), pod.clone()), ["stop web0"]);
    pod[2].state = exited_state(137, 0, 1);
    pod[2].restart_step = 5;
    assert_eq!(lines("Never", s(), pod.clone()), ["start web 1 step 0"]);
    pod[2].state = running();
    pod[2].hash = Some("8f3a".into());
    assert_eq!(
        lines("Always", s(), pod.clone()),
        [""; 0],
        "another agent's hash"
    );
    pod[2].hash = None;
    assert_eq!(lines("Always", s(), pod), [""; 0]);
}

#[test]
fn a_container_that_ends_for_its_resize_is_restarted_whatever_its_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        for code in [0, 137] {
            let mut pod = up(exited_state(code, 0, 1), running());
            (pod[2].replaced, pod[2].restart_step) = (true, 5);
            assert_eq!(
                lines(policy, s(), pod),
                ["start web 1 step 0"],
                "{policy} {code}"
            );
        }
    }
}

#[test]
fn a_dead_sandbox_is_replaced_and_the_containers_follow() {
    let dead = vec![sandbox("s", 0, false)];
    let stray = up(running(), exited_state(137, 1, 3000));
    assert_eq!(
        lines("Always", dead.clone(), stray),
        ["stop proxy0", "stop web0"]
    );
    let mut gone = up(exited_state(137, 1, 3000), exited_state(137, 1, 3000));
    gone[1].state = exited_state(137, 1, 3000);
    assert_eq!(lines("Always", dead.clone(), gone.clone()), ["sandbox 1"]);
    assert_eq!(lines("Never", dead, gone.clone()), [""; 0]);
    let two = vec![sandbox("s", 0, false), sandbox("t", 1, true)];
    assert_eq!(
        lines("Always", two.clone(), gone.clone()),
        ["start first 1 step 1"]
    );
    gone.extend([
        container("t", "first", 1, exited_state(0, 0, 0)),
        container("t", "proxy", 1, running()),
    ]);
    assert_eq!(
        lines("Always", two.clone(), gone.clone()),
        ["start web 1 step 1", "start log 1 step 1"]
    );
    gone.retain(|container| container.sandbox_id == "t");
    gone.extend([
        container("t", "web", 1, running()),
        container("t", "log", 1, running()),
    ]);
    assert_eq!(lines("Always", two, gone), ["remove sandbox s"]);
}

#[test]
fn created_but_not_started_container_is_recreated() {
    let half = up(ObservedState::Created, running());
    assert_eq!(
        lines("Always", s(), half),
        ["remove web0", "start web 0 step 0"]
    );
    assert_eq!(
        lines("Always", s(), up(ObservedState::Unknown, running())),
        ["stop web0"]
    );
    let two_ready = vec![sandbox("s", 0, true), sandbox("t", 1, true)];
    assert_eq!(
        lines("Always", two_ready, vec![]),
        ["stop sandbox s", "start first 0 step 0"]
    );
}

#[test]
fn ended_containers_are_kept_and_foreign_ones_stopped() {
    let mut pod = up(running(), running());
    pod[2].attempt = 3;
    pod[2].id = "web3".into();
    pod.extend([
        c("web", 2, exited_state(1, 1, 1)),
        c("web", 1, exited_state(1, 2, 1)),
        c("old", 0, running()),
    ]);
    assert_eq!(lines("Always", s(), pod), ["stop old0"]);
}

#[test]
fn a_pod_that_is_over_never_starts_again() {
    let mut pod = pod("Always");
    pod.status = serde_json::from_value(json!({"phase": "Failed"})).unwrap();
    let plan = plan(
        &DesiredPod::of(&pod, at(NOW)),
        &ObservedPod::default(),
        at(NOW),
    );
    assert_eq!(plan, Plan::default());
}

#[test]
fn ending_a_pod_stops_its_sidecars_after_the_others_and_then_its_sandbox() {
    let stops = |observed: &ObservedPod| terminate(&desired_pod("Always"), observed).actions;
    let stop = |id: &str| {
        vec![Action::StopContainer {
            id: id.into(),
            why: StopReason::Ending,
        }]
    };
    assert_eq!(
        stops(&ObservedPod::new(s(), up(running(), exited_state(0, 1, 1)))),
        stop("web0")
    );
    assert_eq!(
        stops(&ObservedPod::new(
            s(),
            up(exited_state(0, 1, 1), exited_state(0, 1, 1))
        )),
        stop("proxy0")
    );
    assert_eq!(
        stops(&ObservedPod::new(s(), vec![])),
        [Action::StopSandbox { id: "s".into() }]
    );
    assert!(stops(&ObservedPod::new(vec![sandbox("s", 0, false)], vec![])).is_empty());
}

#[test]
fn unhealthy_containers_of_any_role_are_stopped() {
    let mut pod = up(running(), running());
    pod[2].health.failure = Some(HealthFailure::Liveness);
    pod[1].health.failure = Some(HealthFailure::Startup);
    assert_eq!(
        lines("Never", s(), pod),
        ["stop proxy0 for Startup", "stop web0 for Liveness"]
    );
}

#[test]
fn later_containers_wait_for_sidecar_startup_probes_and_hooks() {
    let mut so_far = vec![
        c("first", 0, exited_state(0, 1, 1)),
        c("proxy", 0, running()),
    ];
    so_far[1].health.started = false;
    assert_eq!(lines("Always", s(), so_far.clone()), [""; 0]);
    so_far[1].health = Health {
        starting: true,
        ..Health::default()
    };
    assert_eq!(lines("Always", s(), so_far.clone()), [""; 0]);
    so_far[1].health = Health::default();
    so_far.push(c("web", 0, running()));
    so_far[2].health.starting = true;
    assert_eq!(lines("Always", s(), so_far.clone()), [""; 0]);
    so_far[2].health = Health {
        started: false,
        ready: false,
        ..Health::default()
    };
    assert_eq!(lines("Always", s(), so_far), ["start log 0 step 0"]);
}

#[test]
fn a_pod_ends_at_its_deadline() {
    let plan_with = |seconds: i64| {
        let mut pod = pod("Always");
        pod.spec.as_mut().unwrap().active_deadline_seconds = Some(seconds);
        pod.status =
            Some(serde_json::from_value(json!({"startTime": at(NOW - 100).to_string()})).unwrap());
        plan(
            &DesiredPod::of(&pod, at(NOW)),
            &ObservedPod::new(s(), up(running(), running())),
            at(NOW),
        )
    };
    assert_eq!(
        plan_with(130),
        Plan {
            replan_at: Some(at(NOW + 30)),
            ..Plan::default()
        }
    );
    let stop = |id: &str| Action::StopContainer {
        id: id.into(),
        why: StopReason::Ending,
    };
    assert_eq!(
        plan_with(100),
        Plan {
            actions: vec![stop("web0"), stop("log0")],
            ..Plan::default()
        }
    );
}

#[test]
fn a_containers_own_policy_wins() {
    let mut pod = pod("Always");
    pod.spec.as_mut().unwrap().containers[0].restart_policy = Some("Never".into());
    let actions = |web: ObservedState| {
        let observed = ObservedPod::new(s(), up(web, exited_state(0, 1, 1)));
        plan(&DesiredPod::of(&pod, at(NOW)), &observed, at(NOW)).actions
    };
    assert_eq!(
        actions(exited_state(1, 1, 1)),
        [Action::Start {
            name: "log".into(),
            attempt: 1,
            restart_step: 1
        }]
    );
}

#[test]
fn an_ephemeral_container_is_started_once() {
    let mut pod = pod("Always");
    let ephemeral = json!([{"name": "debug", "image": "busybox"}]);
    pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_value(ephemeral).unwrap();
    let actions = |debug: Option<ObservedState>| {
        let mut containers = up(running(), running());
        containers.extend(debug.map(|state| c("debug", 0, state)));
        plan(
            &DesiredPod::of(&pod, at(NOW)),
            &ObservedPod::new(s(), containers),
            at(NOW),
        )
        .actions
    };
    assert_eq!(
        actions(None),
        [Action::Start {
            name: "debug".into(),
            attempt: 0,
            restart_step: 0
        }]
    );
    assert_eq!(actions(Some(running())), []);
    assert_eq!(actions(Some(exited_state(1, 1, 1))), []);
}

#[test]
fn attempts_continue_after_the_runtime_lost_containers() {
    let mut pod = pod("Always");
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 3, "containerID": "containerd://web3"},
        {"name": "log", "image": "", "imageID": "", "ready": false, "restartCount": 0}]});
    pod.status = serde_json::from_value(status).unwrap();
    let mut so_far = vec![
        c("first", 0, exited_state(0, 1, 1)),
        c("proxy", 0, running()),
    ];
    let starts = |containers: &[Container]| {
        plan(
            &DesiredPod::of(&pod, at(NOW)),
            &ObservedPod::new(s(), containers.to_vec()),
            at(NOW),
        )
        .actions
    };
    let start = |name: &str, attempt, restart_step| Action::Start {
        name: name.into(),
        attempt,
        restart_step,
    };
    assert_eq!(starts(&so_far), [start("web", 4, 0), start("log", 0, 0)]);
    so_far.push(c("web", 7, exited_state(1, 500, 1)));
    assert_eq!(
        starts(&so_far),
        [start("web", 8, 8), start("log", 0, 0)],
        "the runtime knows better"
    );
}

#[test]
fn terminated_container_is_not_restarted_after_the_runtime_lost_it() {
    let finished = |restart: &str, web: serde_json::Value| {
        let mut pod = pod(restart);
        let known = |name: &str, state: &serde_json::Value| {
            json!({"name": name, "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "containerID": "containerd://1", "state": state})
        };
        let ended = json!({"terminated": {"exitCode": 0}});
        let status = json!({"phase": "Running", "containerStatuses": [known("web", &web), known("log", &ended)]});
        pod.status = serde_json::from_value(status).unwrap();
        DesiredPod::of(&pod, at(NOW)).is_finished(&ObservedPod::new(s(), Vec::new()))
    };
    let (ran, failed, waits) = (
        json!({"running": {}}),
        json!({"terminated": {"exitCode": 1}}),
        json!({"waiting": {}}),
    );
    assert_eq!(
        ["Always", "OnFailure", "Never"].map(|policy| finished(policy, ran.clone())),
        [false, false, true]
    );
    assert_eq!(
        ["OnFailure", "Never"].map(|policy| finished(policy, failed.clone())),
        [false, true]
    );
    assert!(!finished("Never", waits), "it has not run");
}
