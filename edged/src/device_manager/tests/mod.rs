//! Tests of the decisions: which devices the Node reports, and who gets which.

mod servers;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use wire::device_plugin::ContainerAllocateResponse;

use super::state::{AllocateError, Candidates, Device, DeviceState};

const RESOURCE: &str = "example.com/sensor";

fn devices(ids: &[&str]) -> std::collections::BTreeMap<String, Device> {
    let device = |id: &&str| {
        (
            id.trim_start_matches('!').to_owned(),
            Device {
                is_healthy: !id.starts_with('!'),
                numa_nodes: Vec::new(),
            },
        )
    };
    ids.iter().map(device).collect()
}

fn state(ids: &[&str]) -> DeviceState {
    let mut state = DeviceState::default();
    assert!(state.connect(RESOURCE, 1));
    assert!(state.update(RESOURCE, 1, devices(ids)));
    state
}

/// A pod whose containers, as `(kind, name, count)`, request devices.
fn pod(uid: &str, containers: &[(&str, &str, u32)]) -> Pod {
    let of = |wanted: &[&str]| -> Vec<Value> {
        let chosen = containers.iter().filter(|(kind, ..)| wanted.contains(kind));
        chosen
            .map(|(kind, name, count)| {
                json!({"name": name, "resources": {"limits": {RESOURCE: count.to_string(), "cpu": "1"}},
                    "restartPolicy": (*kind == "sidecar").then_some("Always")})
            })
            .collect()
    };
    serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": {
        "initContainers": of(&["init", "sidecar"]), "containers": of(&["app"])}}))
    .unwrap()
}

fn container(pod: &Pod, name: &str) -> Container {
    let mut all = crate::specs::containers_of(pod);
    all.find(|one| one.name == name).unwrap().clone()
}

/// Allocates without a plugin's preference and returns the devices.
fn allocate(state: &mut DeviceState, pod: &Pod, name: &str) -> Result<Vec<String>, String> {
    let container = container(pod, name);
    let requests = state.missing_requests(pod, &container);
    let request = requests.first().expect("a request");
    let candidates = state
        .candidates(request)
        .map_err(|error| error.to_string())?;
    let ids = candidates.choose(&[]);
    state.allocate(request, ids.clone(), ContainerAllocateResponse::default());
    Ok(ids)
}

fn counts(state: &DeviceState) -> (Option<i64>, Option<i64>) {
    let counts = state.counts();
    (
        counts.capacity.get(RESOURCE).copied(),
        counts.allocatable.get(RESOURCE).copied(),
    )
}

#[test]
fn node_reports_devices_while_their_plugin_comes_and_goes() {
    let mut state = state(&["a", "b", "!c"]);
    assert_eq!(counts(&state), (Some(3), Some(2)));
    assert!(
        !state.update(RESOURCE, 1, devices(&["a", "b", "!c"])),
        "the same"
    );
    assert!(state.connect(RESOURCE, 2), "the plugin was restarted");
    assert!(!state.update(RESOURCE, 1, devices(&[])) && !state.disconnect(RESOURCE, 1));
    assert_eq!(counts(&state), (Some(3), Some(2)));
    assert!(state.disconnect(RESOURCE, 2));
    assert_eq!(counts(&state), (Some(3), Some(0)));
    assert!(!state.remove(RESOURCE, Some(1)) && !state.remove(RESOURCE, None));
    assert!(state.remove(RESOURCE, Some(2)));
    assert_eq!(counts(&state), (Some(0), Some(0)));
    assert!(state.connect(RESOURCE, 3));
    assert!(state.update(RESOURCE, 3, devices(&["a"])));
    assert_eq!(counts(&state), (Some(1), Some(1)));
    for number in 0..1000 {
        state.connect(&format!("example.com/{number}"), number);
    }
    assert_eq!(
        state.counts().capacity.len(),
        256,
        "no plugin fills the memory"
    );
}

#[test]
fn pods_share_no_device_and_get_back_what_was_freed() {
    let mut state = state(&["a", "b", "!c"]);
    let (one, two) = (
        pod("1", &[("app", "main", 1)]),
        pod("2", &[("app", "main", 2)]),
    );
    assert_eq!(allocate(&mut state, &one, "main").unwrap(), ["a"]);
    assert_eq!(
        allocate(&mut state, &two, "main").unwrap_err(),
        "requested number of devices unavailable for example.com/sensor. Requested: 2, Available: 1"
    );
    assert!(
        state
            .missing_requests(&one, &container(&one, "main"))
            .is_empty()
    );
    assert!(state.free("1") && !state.free("1"));
    assert_eq!(allocate(&mut state, &two, "main").unwrap(), ["a", "b"]);
    state.update(RESOURCE, 1, devices(&["!a"]));
    assert_eq!(
        allocate(&mut state, &one, "main").unwrap_err(),
        "no healthy devices present; cannot allocate unhealthy devices example.com/sensor"
    );
    assert!(
        DeviceState::default()
            .missing_requests(&one, &container(&one, "main"))
            .is_empty()
    );
}

#[test]
fn containers_reuse_devices_of_init_containers_but_not_of_sidecars() {
    let mut state = state(&["a", "b", "c", "d"]);
    let pod = pod(
        "1",
        &[
            ("init", "first", 3),
            ("sidecar", "proxy", 1),
            ("init", "second", 2),
            ("app", "main", 2),
            ("app", "other", 1),
        ],
    );
    let wanted: [(&str, &[&str]); 5] = [
        ("first", &["a", "b", "c"]),
        ("proxy", &["a"]),
        ("second", &["b", "c"]),
        ("main", &["b", "c"]),
        ("other", &["d"]),
    ];
    for (name, ids) in wanted {
        assert_eq!(allocate(&mut state, &pod, name).unwrap(), ids, "{name}");
    }
}

#[test]
fn preferred_devices_are_chosen_first_if_they_are_free() {
    let choose = |preferred: &[&str]| {
        let candidates = Candidates {
            reused: vec!["x".into()],
            available: ["a", "b", "c"].map(String::from).into(),
            missing: 2,
        };
        let preferred: Vec<_> = preferred.iter().map(|id| (*id).to_owned()).collect();
        candidates.choose(&preferred).join(" ")
    };
    assert_eq!(choose(&[]), "x a b");
    assert_eq!(choose(&["c", "x", "foreign"]), "x c a");
    assert_eq!(choose(&["c", "c", "b", "a"]), "x a b");
}

#[test]
fn users_and_resources_survive_a_restart() {
    let mut before = state(&["a", "b"]);
    let (one, two) = (
        pod("1", &[("app", "main", 1)]),
        pod("2", &[("app", "main", 1)]),
    );
    allocate(&mut before, &one, "main").unwrap();
    let mut data = before.checkpoint();
    let mut broken = data.pod_device_entries.clone().unwrap().remove(0);
    broken.alloc_resp = Some("AA==".into());
    broken.container_name = "broken".into();
    data.pod_device_entries.as_mut().unwrap().push(broken);
    let (mut after, unreadable) = DeviceState::restore(data);
    assert_eq!(unreadable, ["1/broken"]);
    assert_eq!(counts(&after), (Some(0), Some(0)));
    assert_eq!(after.awaited_resources(), [RESOURCE]);
    let spec = container(&two, "main");
    let requests = after.missing_requests(&two, &spec);
    let awaited = Err(AllocateError::Awaited(RESOURCE.into()));
    assert_eq!(after.candidates(&requests[0]), awaited);
    after.connect(RESOURCE, 1);
    after.update(RESOURCE, 1, devices(&["a", "b"]));
    assert!(after.awaited_resources().is_empty() && !after.remove(RESOURCE, None));
    assert_eq!(allocate(&mut after, &two, "main").unwrap(), ["b"]);
    assert_eq!(after.pods(), ["1".to_owned(), "2".to_owned()].into());
}
