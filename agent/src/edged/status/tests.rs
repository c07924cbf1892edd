use serde_json::{Value, json};

use super::*;
use crate::edged::observed::{Container, Sandbox, State};

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

fn container(name: &str, attempt: u32, state: State) -> Container {
    Container {
        id: format!("{name}{attempt}"),
        sandbox_id: "s".into(),
        name: name.into(),
        attempt,
        hash: None,
        step: 0,
        image: String::new(),
        image_id: "sha256:1".into(),
        created_at: at(0),
        state,
    }
}

fn running() -> State {
    State::Running { started_at: at(2) }
}

fn exited(exit_code: i32) -> State {
    State::Exited {
        started_at: Some(at(2)),
        finished_at: at(4),
        exit_code,
        reason: String::new(),
        message: String::new(),
    }
}

fn observed(containers: Vec<Container>) -> Observed {
    let sandbox =
        Sandbox { id: "s".into(), attempt: 0, ready: true, created_at: at(0), ips: vec!["10.1.0.2".into()] };
    Observed::new(vec![sandbox], containers)
}

struct Case {
    pod: Pod,
    observed: Observed,
    waiting: Vec<(&'static str, Waiting)>,
    held_up: Option<Waiting>,
    ended: bool,
    now: i64,
}

impl Case {
    fn new(restart: &str, containers: Vec<Container>) -> Self {
        let observed = observed(containers);
        Self { pod: pod(restart), observed, waiting: vec![], held_up: None, ended: false, now: 10 }
    }

    fn status(&self) -> PodStatus {
        of(&View {
            pod: &self.pod,
            observed: &self.observed,
            waiting: &self
                .waiting
                .iter()
                .map(|(name, waiting)| ((*name).to_owned(), waiting.clone()))
                .collect(),
            held_up: self.held_up.as_ref(),
            host_ips: &["192.168.1.5".to_owned()],
            runtime_name: "containerd",
            ended: self.ended,
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
    container("init", 0, exited(0))
}

#[test]
fn a_running_pod() {
    let case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_pod_in_a_crash_loop_keeps_its_phase_and_its_count() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 3, exited(1))]);
    case.waiting
        .push(("web", Waiting::new("CrashLoopBackOff", "back-off 20s restarting failed container=web")));
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_pod_whose_volume_is_missing() {
    let mut case = Case::new("Always", vec![]);
    case.observed = Observed::default();
    case.held_up = Some(Waiting::new("ContainerCreating", "MountVolume.SetUp failed for volume \"v\""));
    insta::assert_json_snapshot!(case.json());
}

#[test]
fn a_restarted_container_shows_how_the_one_before_it_ended() {
    let case = Case::new(
        "Always",
        vec![init_done(), container("web", 1, running()), container("web", 0, exited(137))],
    );
    let status = case.json();
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(status["containerStatuses"][0]["ready"], true);
}

#[test]
fn phases_follow_the_restart_policy() {
    for (restart, web, wanted) in [
        ("Always", running(), "Running"),
        ("Always", exited(0), "Running"),
        ("Never", exited(0), "Succeeded"),
        ("Never", exited(3), "Failed"),
        ("OnFailure", exited(0), "Succeeded"),
        ("OnFailure", exited(3), "Running"),
    ] {
        let case = Case::new(restart, vec![init_done(), container("web", 0, web)]);
        assert_eq!(case.phase(), wanted, "{restart}");
    }
    assert_eq!(Case::new("Never", vec![container("init", 0, exited(1))]).phase(), "Failed");
    assert_eq!(Case::new("OnFailure", vec![container("init", 0, exited(1))]).phase(), "Pending");
    assert_eq!(Case::new("Always", vec![container("init", 0, running())]).phase(), "Pending");
}

#[test]
fn a_deleted_pod_ends_as_succeeded_or_failed() {
    for (code, wanted) in [(0, "Succeeded"), (137, "Failed")] {
        let mut case = Case::new("Always", vec![init_done(), container("web", 0, exited(code))]);
        case.ended = true;
        assert_eq!(case.phase(), wanted);
        case.pod.status = Some(case.status());
        case.observed = Observed::default();
        let after = case.json();
        assert_eq!(after["containerStatuses"][0]["state"]["terminated"]["exitCode"], code);
        assert_eq!(after["podIP"], "10.1.0.2", "a pod that is over keeps its address");
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
    assert_eq!(first.conditions.as_ref().unwrap()[0].type_, "example.com/gate");
    case.pod.status = Some(first.clone());
    case.now = 500;
    let second = case.status();
    assert_eq!(difference(&first, &second).unwrap(), None, "nothing happened, so there is nothing to report");
    case.observed = observed(vec![init_done(), container("web", 0, exited(1))]);
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
    spec.readiness_gates = serde_json::from_value(json!([{"conditionType": "example.com/gate"}])).unwrap();
    let status = case.status();
    let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
}

#[test]
fn pods_on_the_hosts_network_have_its_address() {
    let mut case = Case::new("Always", vec![init_done(), container("web", 0, running())]);
    case.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(case.status().pod_ip.as_deref(), Some("192.168.1.5"));
}
