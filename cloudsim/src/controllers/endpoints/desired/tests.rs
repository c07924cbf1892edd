//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "n", "uid": "1", "labels": {"team": "a"}}, "spec": spec})).unwrap()
}

fn pod(name: &str, ip: &str, ready: bool, port: i32) -> Arc<Pod> {
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "labels": {"app": "web"}},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "a", "ports": [{"name": "http", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIP": ip, "conditions": conditions}})).unwrap())
}

fn text(slice: &EndpointSlice) -> String {
    let ports: Vec<_> = slice
        .ports
        .iter()
        .flatten()
        .map(|port| port.port.unwrap().to_string())
        .collect();
    let endpoints = slice.endpoints.iter().map(|endpoint| {
        let ready = endpoint.conditions.as_ref().unwrap().ready == Some(true);
        format!("{}{}", endpoint.addresses[0], if ready { "" } else { "!" })
    });
    format!(
        "{} {} {}",
        slice.address_type,
        ports.join(","),
        endpoints.collect::<Vec<_>>().join(",")
    )
}

#[test]
fn pods_are_grouped_by_the_ports_that_they_have() {
    let service =
        service(json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}));
    let pods = [
        pod("a", "10.0.0.1", true, 8080),
        pod("b", "10.0.0.2", false, 8080),
        pod("c", "10.0.0.3", true, 9090),
        pod("d", "", true, 8080),
    ];
    let texts: Vec<_> = slices(&service, &pods).iter().map(text).collect();
    assert_eq!(
        texts,
        ["IPv4 8080 10.0.0.1,10.0.0.2!", "IPv4 9090 10.0.0.3"]
    );
    let subsets = endpoints(&service, &pods).subsets.unwrap();
    assert_eq!(subsets.len(), 2);
    assert_eq!(
        subsets[0].not_ready_addresses.as_ref().unwrap()[0].ip,
        "10.0.0.2"
    );
    assert_eq!(subsets[0].ports.as_ref().unwrap()[0].name, None);
}

#[test]
fn a_service_without_pods_has_an_empty_slice() {
    let slices = slices(
        &service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
        &[],
    );
    assert_eq!(slices.iter().map(text).collect::<Vec<_>>(), ["IPv4  "]);
    assert_eq!(slices[0].labels()[SERVICE_NAME], "web");
    assert_eq!(slices[0].labels()["team"], "a");
}

#[test]
fn large_services_have_several_slices() {
    let pods: Vec<_> = (0..250)
        .map(|number| pod(&number.to_string(), &format!("10.0.0.{number}"), true, 1))
        .collect();
    let slices = slices(
        &service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
        &pods,
    );
    assert_eq!(
        slices
            .iter()
            .map(|slice| slice.endpoints.len())
            .collect::<Vec<_>>(),
        [100, 100, 50]
    );
}

#[test]
fn headless_services_may_publish_those_that_are_not_ready() {
    let service = service(
        json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "web"}}),
    );
    let slices = slices(&service, &[pod("a", "10.0.0.1", false, 1)]);
    assert_eq!(text(&slices[0]), "IPv4  10.0.0.1");
    assert!(slices[0].labels().contains_key(HEADLESS));
}

#[test]
fn only_what_is_told_of_a_pod_matters() {
    let change = |before: &Arc<Pod>, object: &Arc<Pod>| Change {
        before: Some(Arc::clone(before)),
        object: Arc::clone(object),
        gone: false,
    };
    let pods = [
        pod("a", "10.0.0.1", false, 1),
        pod("a", "10.0.0.1", true, 1),
        pod("a", "10.0.0.1", false, 1),
    ];
    assert!(matters(&change(&pods[0], &pods[1])));
    assert!(!matters(&change(&pods[0], &pods[2])));
}

/// A node reports the addresses of its pods.
#[test]
fn a_pod_at_an_address_that_leads_every_node_to_itself_is_no_endpoint() {
    let service = service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    let lies = [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::ffff:127.0.0.1",
        "x",
    ];
    let mut pods: Vec<_> = lies
        .iter()
        .map(|address| pod(address, address, true, 80))
        .collect();
    pods.push(pod("a", "10.0.0.1", true, 80));
    assert_eq!(
        slices(&service, &pods).iter().map(text).collect::<Vec<_>>(),
        ["IPv4 80 10.0.0.1"]
    );
    let subsets = endpoints(&service, &pods).subsets.unwrap();
    let addresses = subsets[0]
        .addresses
        .iter()
        .flatten()
        .map(|address| &*address.ip);
    assert_eq!(addresses.collect::<Vec<_>>(), ["10.0.0.1"]);
}

/// A node creates mirror pods with any labels, and reports their addresses.
#[test]
fn a_mirror_pod_is_no_services() {
    let service = service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    let mut mirror = (*pod("m", "10.96.0.1", true, 80)).clone();
    assert!(selects(&service, &mirror));
    mirror.metadata.annotations =
        Some([("kubernetes.io/config.mirror".to_owned(), String::new())].into());
    assert!(!selects(&service, &mirror));
}
