//! Tests of [`super`].

use serde_json::json;

use super::*;
use crate::edged::{env::Environment, names::Dirs};

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

fn dirs() -> Dirs {
    Dirs { root: "/var/lib/kubelet".into(), logs: "/var/log/pods".into() }
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
    let made = Made {
        environment: &Environment::default(),
        mounts: vec![],
        image_ref: "sha256:1".into(),
        attempt: 2,
        step: 1,
        memory: 1 << 30,
        target_id: None,
    };
    insta::assert_debug_snapshot!(container(&pod, spec, made));
}

#[test]
fn the_host_network_takes_the_hosts_name_and_ports() {
    let mut pod = pod();
    pod.spec.as_mut().unwrap().host_network = Some(true);
    let config = sandbox(&pod, 0, &dirs(), &NodeDns::default());
    assert!(config.port_mappings.is_empty());
    assert_eq!(config.hostname, "", "the host's name is not to be changed");
    let options = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!(options.network(), wire::cri::NamespaceMode::Node);
}

#[test]
fn the_hash_changes_with_the_image_only() {
    let mut container = pod().spec.unwrap().containers.remove(0);
    let before = hash(&container);
    assert_eq!(before.len(), 16);
    container.args = None;
    assert_eq!(hash(&container), before);
    container.image = Some("web:2".into());
    assert_ne!(hash(&container), before);
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
    let resources = resources::of_container(&pod, &container, 0);
    assert_eq!((resources.cpu_quota, resources.memory_limit_in_bytes, resources.cpu_shares), (0, 0, 2));
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let mut pod = pod();
    let refused = |pod: &Pod, uid, user: &str| {
        let spec = pod.spec.as_ref().unwrap();
        refuse_root(spec, &spec.containers[0], uid, user).is_err()
    };
    assert!(!refused(&pod, Some(0), ""), "not asked for");
    let context = pod.spec.as_mut().unwrap().security_context.as_mut().unwrap();
    context.run_as_non_root = Some(true);
    assert!(!refused(&pod, Some(0), ""), "runs as 1000");
    pod.spec.as_mut().unwrap().security_context.as_mut().unwrap().run_as_user = None;
    assert!(refused(&pod, Some(0), "") && refused(&pod, None, "") && refused(&pod, None, "www"));
    assert!(!refused(&pod, Some(33), ""));
}
