//! Tests of [`super`].

use serde_json::json;

use super::*;
use crate::{env::Environment, names::Dirs};

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"},
            "annotations": {"example.com/a": "b"}},
        "spec": {
            "dnsConfig": {"searches": ["corp"], "options": [{"name": "timeout", "value": "2"}]},
            "securityContext": {"runAsUser": 1000, "fsGroup": 2000, "sysctls": [{"name": "net.core.somaxconn", "value": "9"}]},
            "hostAliases": [{"ip": "10.9.9.9", "hostnames": ["db", "db.local"]}],
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "web", "image": "web:1", "command": ["/web"], "args": ["--name=$(NAME)"],
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}],
                "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"}}
            }]
        }
    }))
    .unwrap()
}

/// An image that asks for this user, by number or by name.
fn image(uid: Option<i64>, name: &str) -> wire::cri::Image {
    let uid = uid.map(|value| wire::cri::Int64Value { value });
    wire::cri::Image {
        id: "sha256:1".into(),
        uid,
        username: name.into(),
        ..Default::default()
    }
}

fn dirs() -> Dirs {
    Dirs {
        root: "/var/lib/kubelet".into(),
        logs: "/var/log/pods".into(),
        secrets_in_memory: false,
    }
}

#[test]
fn a_sandbox_says_whose_it_is_and_how_it_is_connected() {
    let dns = NodeDns {
        servers: vec!["169.254.96.16".into()],
        domain: "cluster.local".into(),
        ..NodeDns::default()
    };
    insta::assert_debug_snapshot!(sandbox(&pod(), 1, &dirs(), &dns));
}

#[test]
fn a_container_says_what_it_was_made_from() {
    let pod = pod();
    let spec = &pod.spec.as_ref().unwrap().containers[0];
    let inputs = ContainerInputs {
        environment: &Environment::default(),
        mounts: vec![],
        devices: Default::default(),
        image: image(None, ""),
        attempt: 2,
        restart_step: 1,
        machine_resources: &MachineResources {
            memory: 1 << 30,
            page_sizes: vec![2 << 20],
            ..MachineResources::default()
        },
        target_id: None,
        profiles: std::path::Path::new("/var/lib/kubelet/seccomp"),
        boot_id: "b-1",
    };
    insta::assert_debug_snapshot!(container(&pod, spec, inputs));
}

#[test]
fn a_container_gets_its_devices_but_not_other_labels_of_its_own() {
    use wire::cri::{CdiDevice, Device, Mount};

    let pod = pod();
    let spec = &pod.spec.as_ref().unwrap().containers[0];
    let mount = |path: &str| Mount {
        container_path: path.into(),
        ..Mount::default()
    };
    let devices = crate::device_manager::ContainerDevices {
        mounts: vec![mount("/of-device")],
        devices: vec![Device {
            container_path: "/dev/camera".into(),
            host_path: "/dev/video0".into(),
            permissions: "rw".into(),
        }],
        annotations: [
            ("example.com/camera".to_owned(), "0".to_owned()),
            (names::RESTART_COUNT.to_owned(), "77".to_owned()),
        ]
        .into(),
        cdi_devices: vec![CdiDevice {
            name: "example.com/camera=0".into(),
        }],
        ..Default::default()
    };
    let inputs = ContainerInputs {
        environment: &Environment::default(),
        mounts: vec![mount("/of-volume")],
        devices: devices.clone(),
        image: image(None, ""),
        attempt: 2,
        restart_step: 1,
        machine_resources: &MachineResources::default(),
        target_id: None,
        profiles: std::path::Path::new("/var/lib/kubelet/seccomp"),
        boot_id: "b-1",
    };
    let config = container(&pod, spec, inputs);
    assert_eq!(config.mounts, [mount("/of-device"), mount("/of-volume")]);
    assert_eq!(config.devices, devices.devices);
    assert_eq!(config.cdi_devices, devices.cdi_devices);
    assert_eq!(config.annotations["example.com/camera"], "0");
    assert_eq!(config.annotations[names::RESTART_COUNT], "2");
}

#[test]
fn the_host_network_takes_the_hosts_name_and_ports() {
    let mut pod = pod();
    pod.spec.as_mut().unwrap().host_network = Some(true);
    let config = sandbox(&pod, 0, &dirs(), &NodeDns::default());
    assert!(config.port_mappings.is_empty());
    assert_eq!(config.hostname, "", "the host's name is not to be changed");
    let options = config
        .linux
        .unwrap()
        .security_context
        .unwrap()
        .namespace_options
        .unwrap();
    assert_eq!(options.network(), wire::cri::NamespaceMode::Node);
}

#[test]
fn the_hash_changes_with_the_image_only() {
    let mut container = pod().spec.unwrap().containers.remove(0);
    let before = container_hash(&container);
    assert_eq!(before.len(), 16);
    container.args = None;
    assert_eq!(container_hash(&container), before);
    container.image = Some("web:2".into());
    assert_ne!(container_hash(&container), before);
}

#[test]
fn bad_quantities_limit_nothing() {
    let mut pod = pod();
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.resources = serde_json::from_value(
        json!({"limits": {"cpu": "lots", "memory": "-5"}, "requests": {"memory": "1e99"}}),
    )
    .unwrap();
    let container = container.clone();
    let resources = resources::of_container(&pod, &container, &MachineResources::default());
    assert_eq!(
        (
            resources.cpu_quota,
            resources.memory_limit_in_bytes,
            resources.cpu_shares
        ),
        (0, 0, 2)
    );
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let mut pod = pod();
    let refused = |pod: &Pod, uid, user: &str| {
        let spec = pod.spec.as_ref().unwrap();
        refuse_root(spec, &spec.containers[0], &image(uid, user)).is_err()
    };
    assert!(!refused(&pod, Some(0), ""), "not asked for");
    let context = pod
        .spec
        .as_mut()
        .unwrap()
        .security_context
        .as_mut()
        .unwrap();
    context.run_as_non_root = Some(true);
    assert!(!refused(&pod, Some(0), ""), "runs as 1000");
    pod.spec
        .as_mut()
        .unwrap()
        .security_context
        .as_mut()
        .unwrap()
        .run_as_user = None;
    assert!(refused(&pod, Some(0), "") && refused(&pod, None, "") && refused(&pod, None, "www"));
    assert!(!refused(&pod, Some(33), ""));
}

/// What the runtime is told of the only container of a pod with this specification.
fn confine(
    spec: serde_json::Value,
    annotations: serde_json::Value,
) -> wire::cri::LinuxContainerSecurityContext {
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec}),
    )
    .unwrap();
    let container = &pod.spec.as_ref().unwrap().containers[0];
    security::of_container(&pod, container, &image(None, ""), None, &dirs().seccomp())
}

#[test]
fn apparmor_profiles_have_a_field_and_an_annotation() {
    let local =
        |name: &str| json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": name}});
    let wanted = |pod: serde_json::Value, own: serde_json::Value, annotation: &str| {
        let key = "container.apparmor.security.beta.kubernetes.io/c";
        let annotations = if annotation.is_empty() {
            json!({})
        } else {
            json!({ key: annotation })
        };
        let spec =
            json!({"securityContext": pod, "containers": [{"name": "c", "securityContext": own}]});
        let profile = confine(spec, annotations).apparmor?;
        Some((
            profile.profile_type().as_str_name().to_owned(),
            profile.localhost_ref,
        ))
    };
    let is = |kind: &str, name: &str| Some((kind.to_owned(), name.to_owned()));
    assert_eq!(wanted(json!({}), json!({}), ""), None);
    assert_eq!(
        wanted(local("of-pod"), json!({}), ""),
        is("Localhost", "of-pod")
    );
    assert_eq!(
        wanted(local("of-pod"), local("own"), "unconfined"),
        is("Localhost", "own")
    );
    assert_eq!(
        wanted(json!({}), json!({}), "localhost/old"),
        is("Localhost", "old")
    );
    assert_eq!(
        wanted(json!({}), json!({}), "runtime/default"),
        is("RuntimeDefault", "")
    );
    assert_eq!(
        wanted(json!({}), json!({}), "unconfined"),
        is("Unconfined", "")
    );
}

#[test]
fn selinux_options_reach_the_runtime() {
    let options = |level: &str| json!({"seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": level}});
    let level = |pod: serde_json::Value, own: serde_json::Value| {
        let spec =
            json!({"securityContext": pod, "containers": [{"name": "c", "securityContext": own}]});
        let told = confine(spec, json!({})).selinux_options?;
        assert_eq!(
            (told.user.as_str(), told.role.as_str(), told.r#type.as_str()),
            ("u", "r", "t")
        );
        Some(told.level)
    };
    assert_eq!(level(json!({}), json!({})), None);
    assert_eq!(level(options("s0"), json!({})).as_deref(), Some("s0"));
    assert_eq!(level(options("s0"), options("s1")).as_deref(), Some("s1"));
}

#[test]
fn a_port_of_the_node_has_address_and_protocol() {
    let mut pod = pod();
    pod.spec.as_mut().unwrap().containers[0].ports = serde_json::from_value(json!([
        {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
        {"containerPort": 9, "protocol": "SCTP"}
    ]))
    .unwrap();
    let ports = sandbox(&pod, 0, &dirs(), &NodeDns::default()).port_mappings;
    let told = |port: &wire::cri::PortMapping| {
        (
            port.protocol().as_str_name().to_owned(),
            port.container_port,
            port.host_port,
            port.host_ip.clone(),
        )
    };
    let told: Vec<_> = ports.iter().map(told).collect();
    let row = |protocol: &str, container, host, ip: &str| {
        (protocol.to_owned(), container, host, ip.to_owned())
    };
    assert_eq!(
        told,
        [
            row("TCP", 80, 8080, "10.0.0.1"),
            row("UDP", 53, 53, ""),
            row("SCTP", 9, 0, "")
        ]
    );
}

/// An ephemeral container is written as a container with one field more: each field that both have arrives.
#[test]
fn an_ephemeral_container_is_a_container() {
    let all = json!({"name": "debug", "image": "i", "args": ["a"], "command": ["c"], "workingDir": "/w", "imagePullPolicy": "Never",
        "envFrom": [{"prefix": "P"}], "securityContext": {"runAsUser": 7}, "stdin": true, "stdinOnce": true, "tty": true,
        "terminationMessagePath": "/t", "terminationMessagePolicy": "FallbackToLogsOnError"});
    let mut ephemeral = all.clone();
    ephemeral["targetContainerName"] = "web".into();
    let mut pod = pod();
    pod.spec.as_mut().unwrap().ephemeral_containers =
        serde_json::from_value(json!([ephemeral])).unwrap();
    let found = crate::plan::spec_of(&pod, "debug").unwrap();
    assert_eq!(found, serde_json::from_value(all).unwrap());
}

#[test]
fn a_full_name_that_is_too_long_is_refused() {
    let of = |subdomain: usize, full: bool| {
        let mut pod = pod();
        let spec = pod.spec.as_mut().unwrap();
        (spec.subdomain, spec.set_hostname_as_fqdn) = (Some("s".repeat(subdomain)), Some(full));
        check_hostname(&pod, "cluster.local")
    };
    assert_eq!((of(10, true), of(60, false)), (Ok(()), Ok(())));
    assert!(
        of(60, true)
            .unwrap_err()
            .contains("is too long (64 is the max")
    );
}

#[test]
fn a_group_goes_with_the_images_user_where_no_other_is_named() {
    let told = |context: serde_json::Value, image: wire::cri::Image| {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "securityContext": context}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let security = security::of_container(&pod, container, &image, None, &dirs().seccomp());
        let number = |value: Option<wire::cri::Int64Value>| value.map(|value| value.value);
        (
            number(security.run_as_user),
            security.run_as_username,
            number(security.run_as_group),
        )
    };
    let group = json!({"runAsGroup": 2000});
    assert_eq!(
        told(group.clone(), image(None, "")),
        (Some(0), String::new(), Some(2000))
    );
    assert_eq!(
        told(group.clone(), image(Some(33), "")),
        (Some(33), String::new(), Some(2000))
    );
    assert_eq!(
        told(group, image(None, "www")),
        (None, "www".into(), Some(2000))
    );
    assert_eq!(
        told(json!({"runAsUser": 7}), image(None, "www")),
        (Some(7), String::new(), None)
    );
}

#[test]
fn who_goes_first_when_memory_runs_out() {
    let score = |spec: serde_json::Value, name: &str| {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        let spec = pod.spec.as_ref().unwrap();
        let container = crate::specs::containers(spec)
            .find(|container| container.name == name)
            .unwrap();
        let machine_resources = MachineResources {
            memory: 1000,
            ..MachineResources::default()
        };
        resources::of_container(&pod, container, &machine_resources).oom_score_adj
    };
    let asks = |name: &str, memory: &str| json!({"name": name, "resources": {"requests": {"memory": memory}}});
    let limits =
        json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}});
    let mut sidecar = asks("side", "100");
    sidecar["restartPolicy"] = json!("Always");
    let served = json!({"containers": [asks("a", "300"), asks("b", "600")], "initContainers": [asks("i", "1"), sidecar]});
    assert_eq!(score(json!({"containers": [{"name": "a"}]}), "a"), 1000);
    assert_eq!(
        score(
            json!({"containers": [{"name": "a", "resources": limits}]}),
            "a"
        ),
        -997
    );
    let critical =
        json!({"containers": [{"name": "a"}], "priorityClassName": "system-node-critical"});
    assert_eq!(score(critical, "a"), -997);
    assert_eq!(
        ["a", "b", "i", "side"].map(|name| score(served.clone(), name)),
        [700, 400, 999, 400]
    );
    assert_eq!(score(json!({"containers": [asks("a", "5000")]}), "a"), 3);
}

#[test]
fn what_is_not_asked_for_of_huge_pages_and_swap_is_not_given() {
    let limits = json!({"limits": {"memory": "8Mi", "hugepages-1Gi": "2Gi"}});
    let pod: Pod = serde_json::from_value(
        json!({"spec": {"containers": [{"name": "c", "resources": limits}]}}),
    )
    .unwrap();
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let of = |unified, swap| {
        let machine_resources = MachineResources {
            memory: 1 << 30,
            page_sizes: vec![2 << 20, 1 << 30],
            unified,
            swap,
        };
        resources::of_container(&pod, container, &machine_resources)
    };
    let pages = of(false, false)
        .hugepage_limits
        .into_iter()
        .map(|limit| (limit.page_size, limit.limit));
    assert_eq!(
        pages.collect::<Vec<_>>(),
        [("2MB".to_owned(), 0), ("1GB".to_owned(), 2 << 30)]
    );
    let told = |unified, swap| {
        let resources = of(unified, swap);
        let files: Vec<_> = resources
            .unified
            .into_iter()
            .map(|(file, text)| format!("{file}={text}"))
            .collect();
        (resources.memory_swap_limit_in_bytes, files.join(" "))
    };
    assert_eq!(told(false, false), (0, String::new()));
    assert_eq!(told(false, true), (8 << 20, String::new()));
    assert_eq!(told(true, false), (0, "memory.oom.group=1".into()));
    assert_eq!(
        told(true, true),
        (0, "memory.oom.group=1 memory.swap.max=0".into())
    );
}
