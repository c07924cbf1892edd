//! Tests of [`super`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;

mod workloads;

fn now() -> Timestamp {
    "2025-06-01T12:00:00Z".parse().unwrap()
}

/// Returns the visible part of the table: the columns (those of `-o wide` in brackets) and the cells.
fn print_table(table: &Value) -> String {
    let column = |column: &Value| {
        let name = column["name"].as_str().unwrap();
        if column["priority"] == 0 {
            name.to_owned()
        } else {
            format!("[{name}]")
        }
    };
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(column)
        .collect();
    let mut lines = vec![columns.join(" | ")];
    for row in table["rows"].as_array().unwrap() {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), columns.len());
        let cells: Vec<_> = cells
            .iter()
            .map(|cell| {
                cell.as_str()
                    .map_or_else(|| cell.to_string(), str::to_owned)
            })
            .collect();
        lines.push(cells.join(" | "));
    }
    lines.join("\n")
}

fn print(plural: &str, objects: &[Value]) -> String {
    let registry = Registry::builtin();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    print_table(&table(
        kind,
        objects,
        json!({}),
        IncludeObject::None,
        true,
        now(),
    ))
}

fn pod(name: &str, spec: Value, status: Value) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "creationTimestamp": "2025-06-01T11:55:00Z"},
        "spec": spec, "status": status,
    })
}

fn one() -> Value {
    json!({"containers": [{"name": "a"}], "nodeName": "edge-1"})
}

fn running() -> Value {
    json!({"name": "a", "ready": true, "restartCount": 0, "state": {"running": {}}})
}

/// Returns the state of a container that succeeded after one restart.
fn succeeded_state() -> Value {
    json!({"name": "b", "ready": false, "restartCount": 1, "state": {"terminated": {"reason": "Completed"}},
        "lastState": {"terminated": {"finishedAt": "2025-06-01T11:59:00Z"}}})
}

fn waiting(reason: &str) -> Value {
    json!({"name": "a", "state": {"waiting": {"reason": reason}}})
}

fn with_containers(name: &str, phase: &str, statuses: Value) -> Value {
    pod(
        name,
        one(),
        json!({"phase": phase, "containerStatuses": statuses}),
    )
}

fn delete(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2025-06-01T12:00:00Z");
    pod
}

#[test]
fn pods() {
    let addresses = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}],
        "containerStatuses": [running()]});
    let gate = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let half = json!({"phase": "Running", "containerStatuses": [succeeded_state(), running()]});
    let ended = |state: Value| json!([{"name": "a", "state": {"terminated": state}}]);
    let report = print(
        "pods",
        &[
            pod(
                "pending",
                json!({"containers": [{"name": "a"}]}),
                json!({"phase": "Pending"}),
            ),
            pod("running", one(), addresses),
            with_containers("pulling", "Pending", json!([waiting("ImagePullBackOff")])),
            with_containers("succeeded", "Succeeded", json!([succeeded_state()])),
            with_containers("killed", "Failed", ended(json!({"signal": 9}))),
            with_containers("exited", "Failed", ended(json!({"exitCode": 3}))),
            pod(
                "evicted",
                one(),
                json!({"phase": "Failed", "reason": "Evicted"}),
            ),
            pod("not-ready", two, half),
            pod(
                "gated",
                one(),
                json!({"phase": "Pending", "conditions": [gate]}),
            ),
            delete(with_containers(
                "terminating",
                "Running",
                json!([running()]),
            )),
            delete(with_containers(
                "ended",
                "Succeeded",
                json!([succeeded_state()]),
            )),
            delete(pod(
                "lost",
                one(),
                json!({"phase": "Running", "reason": "NodeLost"}),
            )),
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn pods_with_init_containers() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}],
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]});
    let sidecar = json!({"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}});
    let through = json!({"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}});
    let running = json!({"phase": "Running", "initContainerStatuses": [through, sidecar],
        "containerStatuses": [running(), succeeded_state()],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "x", "status": "True"}]});
    let initialised = json!({"phase": "Running", "initContainerStatuses": [waiting("Restarting")],
        "containerStatuses": [waiting("CrashLoopBackOff")], "conditions": [{"type": "Initialized", "status": "True"}]});
    let at_init = |status: Value| json!({"phase": "Pending", "initContainerStatuses": [status]});
    let report = print(
        "pods",
        &[
            pod("sidecar", spec.clone(), running),
            pod("first", spec.clone(), at_init(waiting("PodInitializing"))),
            pod("crash", spec.clone(), at_init(waiting("CrashLoopBackOff"))),
            pod(
                "failed",
                spec.clone(),
                at_init(json!({"state": {"terminated": {"exitCode": 2}}})),
            ),
            pod(
                "oom",
                spec.clone(),
                at_init(json!({"state": {"terminated": {"exitCode": 2, "reason": "OOMKilled"}}})),
            ),
            pod("initialised", spec, initialised),
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn nodes() {
    let node = |name: &str, labels: Value, spec: Value, status: Value| {
        json!({"metadata": {"name": name, "labels": labels, "creationTimestamp": "2025-05-01T00:00:00Z"},
            "spec": spec, "status": status})
    };
    let ready = json!({
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        "addresses": [{"type": "Hostname", "address": "e"}, {"type": "InternalIP", "address": "192.0.2.1"}],
        "nodeInfo": {"kubeletVersion": "v1.33.0", "osImage": "Debian", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2"},
    });
    let roles = json!({"node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": "", "kubernetes.io/role": "x"});
    let report = print(
        "nodes",
        &[
            node("ready", roles, json!({}), ready.clone()),
            node("cordoned", json!({}), json!({"unschedulable": true}), ready),
            node(
                "gone",
                json!({}),
                json!({}),
                json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}),
            ),
            node("new", json!({}), json!({}), json!({})),
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn services_and_endpoints() {
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name, "creationTimestamp": "2025-05-01T00:00:00Z"}, "spec": spec});
    let services = [
        service(
            "plain",
            json!({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"}}),
        ),
        service(
            "headless",
            json!({"type": "ClusterIP", "clusterIP": "None"}),
        ),
        service(
            "node-port",
            json!({"type": "NodePort", "externalIPs": ["1.2.3.4"], "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}),
        ),
        service("balanced", json!({"type": "LoadBalancer"})),
        service(
            "named",
            json!({"type": "ExternalName", "externalName": "example.com"}),
        ),
    ];
    let endpoints = [
        json!({"metadata": {"name": "none"}}),
        json!({"metadata": {"name": "many"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fe80::1"}], "ports": [{"port": 80}, {"port": 81}]}]}),
        json!({"metadata": {"name": "headless"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
    ];
    let slices = [
        json!({"metadata": {"name": "empty"}, "addressType": "IPv4", "endpoints": [], "ports": []}),
        json!({"metadata": {"name": "full"}, "addressType": "IPv4", "ports": [{"port": 80}, {}],
            "endpoints": [{"addresses": ["1"]}, {"addresses": ["2"]}, {"addresses": ["3"]}, {"addresses": ["4"]}]}),
    ];
    let tables = [
        print("services", &services),
        print("endpoints", &endpoints),
        print("endpointslices", &slices),
    ];
    insta::assert_snapshot!(tables.join("\n\n"));
}

#[test]
fn smaller_kinds() {
    let metadata = json!({"name": "a", "creationTimestamp": "2025-06-01T11:59:50Z"});
    let event = |event: Value| {
        let mut object = json!({"metadata": {"name": "a.1"}, "type": "Normal", "reason": "Pulled", "message": " text \n",
            "involvedObject": {"kind": "Pod", "name": "a", "fieldPath": "spec.containers{a}"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(event.as_object().unwrap().clone());
        object
    };
    let tables = [
        print(
            "namespaces",
            &[json!({"metadata": metadata, "status": {"phase": "Active"}})],
        ),
        print(
            "configmaps",
            &[json!({"metadata": metadata, "data": {"a": "1"}, "binaryData": {"b": ""}})],
        ),
        print(
            "secrets",
            &[json!({"metadata": metadata, "type": "Opaque", "data": {"a": "", "b": ""}})],
        ),
        print("serviceaccounts", &[json!({"metadata": metadata})]),
        print(
            "leases",
            &[json!({"metadata": metadata, "spec": {"holderIdentity": "edge-1"}})],
        ),
        print(
            "customresourcedefinitions",
            &[json!({"metadata": metadata})],
        ),
        print(
            "events",
            &[
                event(
                    json!({"firstTimestamp": "2025-06-01T11:00:00Z", "lastTimestamp": "2025-06-01T11:58:00Z", "count": 7,
                    "source": {"component": "kubelet", "host": "edge-1"}}),
                ),
                event(
                    json!({"eventTime": "2025-06-01T11:59:00.000000Z", "reportingComponent": "agent",
                    "lastTimestamp": null}),
                ),
                event(
                    json!({"eventTime": "2025-06-01T11:00:00.000000Z", "involvedObject": {"kind": "Node"},
                    "series": {"count": 3, "lastObservedTime": "2025-06-01T11:59:30.000000Z"}}),
                ),
            ],
        ),
    ];
    insta::assert_snapshot!(tables.join("\n\n"));
}

#[test]
fn kinds_from_definitions_have_their_own_columns() {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                {"name": "Nodes", "type": "string", "jsonPath": ".spec.nodes"},
                {"name": "Seen", "type": "date", "jsonPath": ".status.seen"},
                {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
            ]}, {"name": "v1beta1", "served": true, "storage": false}],
        },
    }))
    .unwrap();
    let registry = Registry::builtin().with_crds(&[definition]);
    let objects = [
        json!({"metadata": {"name": "full", "creationTimestamp": "2025-06-01T11:00:00Z"},
            "spec": {"size": 4, "nodes": ["a", "b"], "on": true},
            "status": {"seen": "2025-06-01T11:00:00Z", "conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"metadata": {"name": "empty"}, "spec": {"size": "large"}}),
    ];
    let print = |version| {
        let kind = registry.find("example.com", version, "widgets").unwrap();
        print_table(&table(
            kind,
            &objects,
            json!({}),
            IncludeObject::Metadata,
            true,
            now(),
        ))
    };
    insta::assert_snapshot!([print("v1"), print("v1beta1")].join("\n\n"));
}

#[test]
fn rows_carry_what_was_asked_for() {
    let registry = Registry::builtin();
    let kind = registry.find("", "v1", "pods").unwrap();
    let object = pod("a", one(), json!({"phase": "Succeeded"}));
    let objects = [object.clone()];
    let table = |include, with_columns| {
        table(
            kind,
            &objects,
            json!({"resourceVersion": "7"}),
            include,
            with_columns,
            now(),
        )
    };
    let metadata = table(IncludeObject::Metadata, false);
    insta::assert_json_snapshot!(metadata);
    assert_eq!(
        table(IncludeObject::None, true)["rows"][0]["object"],
        Value::Null
    );
    assert_eq!(
        table(IncludeObject::Object, true)["rows"][0]["object"],
        object
    );
}

#[test]
fn what_to_include_is_read_from_the_query() {
    assert_eq!(IncludeObject::parse(None).unwrap(), IncludeObject::Metadata);
    assert_eq!(
        IncludeObject::parse(Some("None")).unwrap(),
        IncludeObject::None
    );
    assert_eq!(
        IncludeObject::parse(Some("Object")).unwrap(),
        IncludeObject::Object
    );
    assert!(IncludeObject::parse(Some("Everything")).is_err());
}
