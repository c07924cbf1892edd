//! Lists of runtimes, and what becomes of them.

use super::*;

fn labels(pod: &str, container: Option<&str>) -> BTreeMap<String, String> {
    let pairs = [
        (names::POD_NAME, Some(pod)),
        (names::POD_NAMESPACE, Some("default")),
        (names::POD_UID, Some(pod)),
        (names::CONTAINER_NAME, container),
    ];
    pairs
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect()
}

fn sandbox(id: &str, pod: &str, ready: bool, created_at: i64) -> cri::PodSandbox {
    let state = if ready {
        cri::PodSandboxState::SandboxReady
    } else {
        cri::PodSandboxState::SandboxNotready
    };
    cri::PodSandbox {
        id: id.into(),
        state: state.into(),
        created_at,
        labels: labels(pod, None),
        ..Default::default()
    }
}

fn container(
    id: &str,
    sandbox: &str,
    name: &str,
    running: bool,
    created_at: i64,
) -> cri::Container {
    let state = if running {
        cri::ContainerState::ContainerRunning
    } else {
        cri::ContainerState::ContainerExited
    };
    cri::Container {
        id: id.into(),
        pod_sandbox_id: sandbox.into(),
        state: state.into(),
        created_at,
        labels: labels("any", Some(name)),
        ..Default::default()
    }
}

fn container_stats(id: &str, cpu: u64, memory: u64, available: u64) -> cri::ContainerStats {
    let value = |value| Some(cri::UInt64Value { value });
    cri::ContainerStats {
        attributes: Some(cri::ContainerAttributes {
            id: id.into(),
            ..Default::default()
        }),
        cpu: Some(cri::CpuUsage {
            timestamp: 5,
            usage_core_nano_seconds: value(cpu),
            ..Default::default()
        }),
        memory: Some(cri::MemoryUsage {
            timestamp: 5,
            working_set_bytes: value(memory),
            available_bytes: value(available),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Pods with their containers' ids.
fn display_lists(lists: RuntimeLists) -> Vec<(String, Vec<String>)> {
    let ids = |pod: PodStats| {
        pod.containers
            .into_iter()
            .map(|container| container.id)
            .collect()
    };
    from_lists(lists)
        .into_iter()
        .map(|pod| (pod.pod_ref.name.clone(), ids(pod)))
        .collect()
}

#[test]
fn running_container_counts_or_else_the_newest() {
    let lists = RuntimeLists {
        sandboxes: vec![
            sandbox("s1", "b", false, 9),
            sandbox("s2", "b", true, 2),
            sandbox("s3", "a", false, 1),
            sandbox("s4", "a", false, 3),
        ],
        containers: vec![
            container("c1", "s2", "web", false, 9),
            container("c2", "s2", "web", true, 1),
            container("c3", "s4", "web", false, 1),
            container("c4", "s4", "web", false, 2),
            container("c5", "s1", "web", true, 1),
        ],
        stats: ["c1", "c2", "c3", "c4", "c5"]
            .map(|id| container_stats(id, 1, 1, 0))
            .into(),
    };
    let expected = [
        ("a".to_owned(), vec!["c4".to_owned()]),
        ("b".to_owned(), vec!["c2".to_owned()]),
    ];
    assert_eq!(display_lists(lists), expected);
}

#[test]
fn foreign_and_unmeasured_containers_are_omitted() {
    let foreign = cri::PodSandbox {
        labels: BTreeMap::new(),
        ..sandbox("s0", "x", true, 1)
    };
    let unnamed = cri::Container {
        labels: BTreeMap::new(),
        ..container("c2", "s1", "x", true, 1)
    };
    let lists = RuntimeLists {
        sandboxes: vec![
            foreign,
            sandbox("s1", "a", true, 1),
            sandbox("s2", "b", true, 1),
        ],
        containers: vec![
            container("c0", "s0", "web", true, 1),
            container("c1", "s1", "web", true, 1),
            unnamed,
            container("c3", "s1", "ended", false, 1),
            container("c4", "s2", "late", true, 1),
            container("c5", "gone", "web", true, 1),
        ],
        stats: vec![
            container_stats("c0", 1, 1, 0),
            container_stats("c1", 1, 1, 0),
            container_stats("c2", 1, 1, 0),
            cri::ContainerStats {
                cpu: None,
                memory: None,
                ..container_stats("c3", 1, 1, 0)
            },
            container_stats("c5", 1, 1, 0),
            cri::ContainerStats::default(),
        ],
    };
    assert_eq!(
        display_lists(lists),
        [("a".to_owned(), vec!["c1".to_owned()])]
    );
}

#[test]
fn a_pod_uses_what_its_containers_use() {
    let lists = |available| RuntimeLists {
        sandboxes: vec![sandbox("s1", "a", true, 1)],
        containers: vec![
            container("c1", "s1", "one", true, 1),
            container("c2", "s1", "two", true, 1),
        ],
        stats: vec![
            container_stats("c1", 100, 10, 90),
            container_stats("c2", 200, 20, available),
        ],
    };
    let of = |available| {
        let pod = from_lists(lists(available)).remove(0);
        let all = pod.containers.iter();
        (
            cpu(all.clone().filter_map(|one| one.cpu.as_ref())),
            memory(all.filter_map(|one| one.memory.as_ref())),
        )
    };
    let (cpu, memory) = of(80);
    let cpu = cpu.unwrap();
    assert_eq!(
        (cpu.usage_core_nano_seconds, cpu.usage_nano_cores),
        (Some(300), None)
    );
    let memory = memory.unwrap();
    assert_eq!(
        (memory.working_set_bytes, memory.available_bytes),
        (Some(30), Some(170))
    );
    assert_eq!(memory.rss_bytes, None, "nobody knows it");
    assert_eq!(of(0).1.unwrap().available_bytes, None, "one has no limit");
}

#[test]
fn default_interface_is_listed_once() {
    let interface = |name: &str| cri::NetworkInterfaceUsage {
        name: name.into(),
        ..Default::default()
    };
    for others in [vec!["net1"], vec!["eth0", "net1"]] {
        let usage = cri::NetworkUsage {
            default_interface: Some(interface("eth0")),
            interfaces: others.into_iter().map(interface).collect(),
            ..Default::default()
        };
        let found = network(&usage).unwrap().interfaces;
        let names: Vec<_> = found.into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["eth0", "net1"]);
    }
}
