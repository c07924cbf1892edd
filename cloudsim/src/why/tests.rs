//! Each step of a pod, a node and a device, missing.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    device::{self, DeviceFacts},
    node::{self, NodeFacts},
    pod::{self, PodFacts},
    step::Chain,
};
use crate::sessions::{Count, DuplicateAgent, NodeSession, Transport};

fn now() -> Timestamp {
    "2025-06-01T12:00:00Z".parse().unwrap()
}

fn decode<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Merges a change into a document, as `kubectl patch --type merge` does.
fn merge_into(mut value: Value, change: Value) -> Value {
    fn merge(value: &mut Value, change: Value) {
        match (value, change) {
            (Value::Object(fields), Value::Object(changes)) => {
                for (name, change) in changes {
                    merge(fields.entry(name).or_insert(Value::Null), change);
                }
            }
            (value, change) => *value = change,
        }
    }
    merge(&mut value, change);
    value
}

fn session() -> NodeSession {
    NodeSession {
        node: "edge-1".to_owned(),
        since: "2025-06-01T11:57:00Z".parse().unwrap(),
        address: ([192, 0, 2, 7], 4711).into(),
        transport: Transport::WebSocket,
        replica: 1,
        queue: 0,
        sent: Count::default(),
        received: Count::default(),
        tunnel: Some(now()),
        started: None,
        rival: None,
    }
}

fn node_object() -> Value {
    json!({
        "metadata": {"name": "edge-1", "creationTimestamp": "2025-06-01T11:00:00Z", "labels": {"node-role.kubernetes.io/edge": ""}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A node at which nothing is missing.
fn node() -> NodeFacts {
    NodeFacts {
        name: "edge-1".to_owned(),
        node: Some(decode(node_object())),
        session: Some(session()),
        are_sessions_complete: true,
        lease: Some(decode(
            json!({"spec": {"renewTime": "2025-06-01T11:59:50.000000Z"}}),
        )),
        fault: None,
        others: Vec::new(),
        rejection: None,
    }
}

fn changed_node(change: Value) -> NodeFacts {
    NodeFacts {
        node: Some(decode(merge_into(node_object(), change))),
        ..node()
    }
}

fn assert_missing(chain: &Chain, step: Option<&str>, text: &str) {
    let found = chain.missing();
    assert_eq!(found.map(|step| step.name), step, "{chain:?}");
    if let Some(found) = found {
        assert!(found.text.contains(text), "{step:?}: {found:?}");
        assert!(found.fix.is_some(), "{step:?}");
    }
}

#[test]
fn first_missing_step_of_a_node_is_found() {
    let unregistered = NodeFacts {
        node: None,
        ..node()
    };
    let unknown = NodeFacts {
        session: None,
        node: None,
        others: vec!["edge-11".to_owned()],
        ..node()
    };
    let uncertain = NodeFacts {
        session: None,
        are_sessions_complete: false,
        ..node()
    };
    let rival = DuplicateAgent {
        address: ([192, 0, 2, 9], 4712).into(),
        started: "2025-06-01T10:00:00Z".to_owned(),
        refused: 3,
        last: "2025-06-01T11:59:30Z".parse().unwrap(),
    };
    let two = NodeFacts {
        session: Some(NodeSession {
            rival: Some(rival),
            ..session()
        }),
        ..node()
    };
    let fast = NodeFacts {
        lease: Some(
            serde_json::from_value(json!({"spec": {"renewTime": "2025-06-01T14:00:05.000000Z"}}))
                .unwrap(),
        ),
        ..node()
    };
    let ready = |status: &str, message: &str| {
        let conditions =
            json!([{"type": "Ready", "status": status, "reason": "R", "message": message}]);
        changed_node(json!({"status": {"conditions": conditions}}))
    };
    let pressure =
        json!([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]);
    let rejected = NodeFacts {
        rejection: Some((
            "2025-06-01T11:59:55Z".parse().unwrap(),
            "this certificate was revoked; join again".to_owned(),
        )),
        session: None,
        node: None,
        ..node()
    };
    for (facts, step, text) in [
        (node(), None, ""),
        (uncertain, None, ""),
        (
            rejected,
            Some("registered"),
            "rejected 5s ago: this certificate was revoked",
        ),
        (unknown, Some("registered"), "did you mean edge-11?"),
        (unregistered, Some("registered"), "has not registered"),
        (two, Some("agent"), "192.0.2.9:4712"),
        (fast, Some("ready"), "clock of the node is 2h fast"),
        (
            ready("False", "runtime is down"),
            Some("ready"),
            "runtime is down",
        ),
        (
            ready("Unknown", "stopped posting"),
            Some("ready"),
            "stopped posting",
        ),
        (
            changed_node(json!({"status": {"conditions": []}})),
            Some("ready"),
            "no status yet",
        ),
        (
            changed_node(json!({"status": {"conditions": pressure}})),
            Some("pods"),
            "DiskPressure",
        ),
        (
            changed_node(json!({"spec": {"unschedulable": true}})),
            Some("pods"),
            "cordoned",
        ),
    ] {
        assert_missing(&node::chain(&facts, now()), step, text);
    }
}

#[test]
fn missing_stream_tunnel_is_found_for_a_node_and_its_pods() {
    let with_session = |since: &str, tunnel: Option<Timestamp>| NodeFacts {
        session: Some(NodeSession {
            since: since.parse().unwrap(),
            tunnel,
            ..session()
        }),
        ..node()
    };
    let old = "2025-06-01T11:57:00Z";
    let kubelet = NodeFacts {
        node: Some(decode(merge_into(
            node_object(),
            json!({"metadata": {"labels": null}}),
        ))),
        ..with_session(old, None)
    };
    let completed = json!({"status": {"phase": "Succeeded"}});
    for (facts, of_node, change, of_pod) in [
        (with_session(old, Some(now())), None, json!({}), None),
        (
            with_session(old, None),
            Some("streams"),
            json!({}),
            Some("streams"),
        ),
        (with_session(old, None), Some("streams"), completed, None),
        (
            with_session("2025-06-01T11:59:58Z", None),
            None,
            json!({}),
            None,
        ),
        (kubelet, None, json!({}), None),
    ] {
        let text = of_node.map_or("", |_| "edge-1 has no stream tunnel");
        assert_missing(&node::chain(&facts, now()), of_node, text);
        let facts = PodFacts {
            node: Some(facts),
            ..pod(change)
        };
        let text = of_pod.map_or("", |_| "edge-1 has no stream tunnel");
        assert_missing(&pod::chain(&facts, now()), of_pod, text);
    }
}

#[test]
fn cause_of_a_node_that_is_not_connected_is_found() {
    let away = NodeFacts {
        session: None,
        ..node()
    };
    let cut = NodeFacts {
        session: None,
        fault: Some("link: cut".to_owned()),
        ..node()
    };
    let rejected = |time: &str| NodeFacts {
        session: None,
        rejection: Some((
            time.parse().unwrap(),
            "the certificate expired; join again".to_owned(),
        )),
        ..node()
    };
    let reset = NodeFacts {
        session: None,
        ..changed_node(json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "message": wire::session::RESET_MESSAGE},
        ]}}))
    };
    let silent = NodeFacts {
        lease: Some(decode(
            json!({"spec": {"renewTime": "2025-06-01T11:59:29.000000Z"}}),
        )),
        ..node()
    };
    for (facts, step, text) in [
        (away, Some("connected"), "last heartbeat 10s ago"),
        (
            cut,
            Some("connected"),
            "this cloud has a fault for it: link: cut",
        ),
        (
            rejected("2025-06-01T11:59:55Z"),
            Some("connected"),
            "rejected 5s ago: the certificate expired; join again",
        ),
        // it was connected later
        (
            rejected("2025-06-01T11:59:45Z"),
            Some("connected"),
            "edge-1 is not connected; last heartbeat 10s ago",
        ),
        (reset, Some("connected"), "the machine was reset"),
        (silent, Some("connected"), "without a heartbeat for 31s"),
    ] {
        assert_missing(&node::chain(&facts, now()), step, text);
    }
}

fn pod_object() -> Value {
    json!({
        "metadata": {"name": "hello", "namespace": "default", "creationTimestamp": "2025-06-01T11:50:00Z", "uid": "u"},
        "spec": {"nodeName": "edge-1", "schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "busybox"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "image": "busybox", "imageID": "", "containerID": "containerd://1", "ready": true,
                "restartCount": 0, "state": {"running": {}}}],
        },
    })
}

fn acknowledged_sync() -> Value {
    json!({"metadata": {"name": "edge-1.u"}, "spec": {}, "status": {"objectResourceVersion": "12"}})
}

fn pod(change: Value) -> PodFacts {
    PodFacts {
        pod: decode(merge_into(pod_object(), change)),
        node: Some(node()),
        sync: Some(decode(acknowledged_sync())),
        events: Vec::new(),
        needs: Vec::new(),
    }
}

/// A pod whose container is in this state; it has not started.
fn waiting(state: &Value, last: &Value) -> PodFacts {
    pod(
        json!({"status": {"phase": "Pending", "conditions": [], "containerStatuses": [{
            "name": "c", "image": "busybox", "imageID": "", "ready": false, "restartCount": 3, "state": state, "lastState": last,
        }]}}),
    )
}

fn with_event(facts: PodFacts, reason: &str, message: &str) -> PodFacts {
    let event = |time: &str, message: &str| {
        decode(
            json!({"metadata": {}, "involvedObject": {}, "reason": reason, "message": message, "lastTimestamp": time}),
        )
    };
    PodFacts {
        events: vec![
            event("2025-06-01T11:58:00Z", message),
            event("2025-06-01T11:51:00Z", "an older message"),
        ],
        ..facts
    }
}

#[test]
fn first_missing_step_of_a_pod_is_found() {
    let unscheduled = |change: Value| PodFacts {
        node: None,
        sync: None,
        ..pod(merge_into(
            json!({"spec": {"nodeName": null}, "status": {"conditions": []}}),
            change,
        ))
    };
    let no_node =
        json!([{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]);
    let away = PodFacts {
        node: Some(NodeFacts {
            session: None,
            ..node()
        }),
        ..pod(json!({}))
    };
    let not_sent = PodFacts {
        sync: None,
        ..pod(json!({}))
    };
    let unacknowledged = PodFacts {
        sync: Some(decode(
            json!({"metadata": {}, "spec": {}, "status": {"objectResourceVersion": "0"}}),
        )),
        ..pod(json!({}))
    };
    let needs = PodFacts {
        needs: vec!["the ConfigMap c1 does not exist in default".to_owned()],
        ..pod(json!({}))
    };
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory", "containerStatuses": null}});
    let deleted = json!({"metadata": {"deletionTimestamp": "2025-06-01T11:59:00Z"}});
    let kept = merge_into(
        deleted.clone(),
        json!({"metadata": {"finalizers": ["example.com/keep"]}}),
    );
    let gates = json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}});
    for (facts, step, text) in [
        (
            unscheduled(json!({})),
            Some("scheduled"),
            "\"default-scheduler\" has not",
        ),
        (
            unscheduled(json!({"status": {"conditions": no_node}})),
            Some("scheduled"),
            "0/2 nodes",
        ),
        (unscheduled(gates), Some("scheduled"), "example.com/wait"),
        (pod(evicted), Some("admitted"), "Evicted: low on memory"),
        (away, Some("node"), "edge-1 is not connected"),
        (not_sent, Some("delivered"), "not sent to edge-1"),
        (unacknowledged, Some("delivered"), "has not acknowledged"),
        (needs, Some("objects"), "the ConfigMap c1"),
        (pod(deleted), Some("removed"), "edge-1 has not confirmed"),
        (pod(kept), Some("removed"), "example.com/keep"),
    ] {
        assert_missing(&pod::chain(&facts, now()), step, text);
    }
}

#[test]
fn first_missing_step_of_a_pod_on_its_node_is_found() {
    let none = json!({});
    let creating = || waiting(&json!({"waiting": {"reason": "ContainerCreating"}}), &none);
    let image = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "containers not ready: [c]"}]}});
    let completed = json!({"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}});
    let held = json!({"status": {"phase": "Pending", "conditions": [{"type": "HeldUpgrade", "status": "True"}]}});
    for (facts, step, text) in [
        (pod(json!({})), None, ""),
        (pod(completed), None, ""),
        (
            pod(held),
            Some("admitted"),
            "somebody releases it on the node",
        ),
        (
            with_event(creating(), "FailedMount", "no such directory"),
            Some("objects"),
            "no such directory",
        ),
        (
            with_event(creating(), "FailedCreatePodSandBox", "no CNI"),
            Some("network"),
            "no CNI",
        ),
        (
            waiting(&image, &none),
            Some("image"),
            "ImagePullBackOff of busybox for container c: not found",
        ),
        (creating(), Some("started"), "ContainerCreating"),
        (
            waiting(&crash, &ended),
            Some("started"),
            "before: Error, exit code 3",
        ),
        (waiting(&crash, &killed), Some("started"), "OOMKilled"),
        (
            with_event(
                waiting(&crash, &ended),
                "Unhealthy",
                "Liveness probe failed: refused",
            ),
            Some("started"),
            "Liveness probe failed: refused",
        ),
        (
            with_event(
                creating(),
                "Failed",
                "failed to pull and unpack image busybox: not found",
            ),
            Some("image"),
            "failed to pull",
        ),
        (waiting(&ended, &none), Some("started"), "exit code 3"),
        (
            pod(json!({"status": {"containerStatuses": null}})),
            Some("started"),
            "nothing about its containers",
        ),
        (
            pod(not_ready.clone()),
            Some("ready"),
            "containers not ready: [c]",
        ),
        (
            with_event(pod(not_ready), "Unhealthy", "Readiness probe failed"),
            Some("ready"),
            "Readiness probe failed",
        ),
    ] {
        assert_missing(&pod::chain(&facts, now()), step, text);
    }
    let pause = "failed to get sandbox image pause:3.6";
    let not_root = json!({"waiting": {"reason": "CreateContainerConfigError", "message": "container has runAsNonRoot"}});
    for (facts, expected) in [
        (waiting(&crash, &killed), "raise resources.limits.memory"),
        (
            with_event(creating(), "FailedCreatePodSandBox", pause),
            "sandbox_image",
        ),
        (waiting(&not_root, &none), "securityContext.runAsUser"),
    ] {
        let chain = pod::chain(&facts, now());
        let fix = chain.missing().and_then(|step| step.fix.clone());
        assert!(
            fix.as_ref().is_some_and(|fix| fix.contains(expected)),
            "{fix:?}"
        );
    }
}

#[test]
fn first_missing_step_of_a_device_is_found() {
    let object = json!({
        "metadata": {"name": "thermometer", "namespace": "default", "creationTimestamp": "2025-06-01T11:50:00Z"},
        "spec": {
            "deviceModelRef": {"name": "model"}, "nodeName": "edge-1", "protocol": {"protocolName": "modbus"},
            "properties": [{"name": "target", "desired": {"value": "25"}}],
        },
    });
    let status = |state: Value, reported: Value| {
        json!({"metadata": {"name": "thermometer"}, "spec": {}, "status": {
            "state": state, "lastOnlineTime": "2025-06-01T11:59:00Z",
            "twins": [{"propertyName": "target", "reported": reported}]}})
    };
    let model =
        json!({"metadata": {"name": "model"}, "spec": {"properties": [{"name": "target"}]}});
    let facts = |change: Value| DeviceFacts {
        device: decode(merge_into(object.clone(), change)),
        model: Some(decode(model.clone())),
        node: Some(node()),
        sync: Some(decode(acknowledged_sync())),
        status: Some(decode(status(json!("online"), json!({"value": "25"})))),
    };
    let fine = || facts(json!({}));
    let reported = |state: Value, value: Value| DeviceFacts {
        status: Some(decode(status(state, value))),
        ..fine()
    };
    let no_model = DeviceFacts {
        model: None,
        ..fine()
    };
    let no_node = DeviceFacts {
        node: None,
        ..fine()
    };
    let not_sent = DeviceFacts {
        sync: None,
        ..fine()
    };
    let silent = DeviceFacts {
        status: None,
        ..fine()
    };
    let other = json!({"spec": {"properties": [{"name": "humidity"}]}});
    for (facts, step, text) in [
        (fine(), None, ""),
        (no_model, Some("model"), "no DeviceModel model"),
        (
            facts(json!({"spec": {"deviceModelRef": null}})),
            Some("model"),
            "names no model",
        ),
        (facts(other), Some("model"), "humidity is not in the model"),
        (no_node, Some("node"), "names no node"),
        (not_sent, Some("delivered"), "not acknowledged"),
        (silent, Some("mapper"), "ever reported"),
        (
            reported(json!("offline"), json!({"value": "25"})),
            Some("mapper"),
            "the device is offline",
        ),
        (
            reported(json!("online"), json!({"value": "20"})),
            Some("desired"),
            "desired as 25, and 20 is reported",
        ),
        (
            reported(json!("online"), json!(null)),
            Some("desired"),
            "no value is reported",
        ),
    ] {
        assert_missing(&device::chain(&facts, now()), step, text);
    }
}
