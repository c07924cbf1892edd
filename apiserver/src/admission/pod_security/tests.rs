//! Which pods violate which standard, and in which words; how labels are read.

use serde_json::{Value, json};

use super::{
    checks, existing,
    labels::{Level, Policy, Standard, Version},
    pod::Pod,
    update,
};

fn standard(text: &str) -> Standard {
    let (level, version) = text.split_once(':').unwrap_or((text, "latest"));
    let labels = json!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": version}}});
    let (policy, faults) = Policy::of(&labels);
    assert_eq!(faults, [], "{text}");
    policy.enforce
}

fn details(standard_of: &str, object: &Value) -> String {
    checks::evaluate(standard(standard_of), &Pod::of(object)).details()
}

/// A pod that keeps to `restricted`, with `context` added to that of its container.
fn hardened_pod(context: &Value) -> Value {
    let mut all = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    for (name, value) in context.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({"metadata": {"name": "p"}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "image": "i", "securityContext": all}],
    }})
}

/// A hardened pod with another value in its specification.
fn with(pointer: &str, value: &Value) -> Value {
    let mut pod = hardened_pod(&json!({}));
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    pod["spec"].pointer_mut(parent).unwrap()[name] = value.clone();
    pod
}

#[test]
fn a_plain_pod_is_told_all_that_restricted_asks_for() {
    let pod =
        json!({"spec": {"containers": [{"name": "x"}], "initContainers": [{"name": "first"}]}});
    assert_eq!(details("privileged", &pod), "");
    assert_eq!(details("baseline", &pod), "");
    let both = r#"containers "first", "x""#;
    assert_eq!(
        details("restricted", &pod),
        format!(
            "allowPrivilegeEscalation != false ({both} must set securityContext.allowPrivilegeEscalation=false), \
             unrestricted capabilities ({both} must set securityContext.capabilities.drop=[\"ALL\"]), \
             runAsNonRoot != true (pod or {both} must set securityContext.runAsNonRoot=true), \
             seccompProfile (pod or {both} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        )
    );
    assert_eq!(details("restricted", &hardened_pod(&json!({}))), "");
}

#[test]
fn what_a_container_sets_is_judged() {
    // (standard, its security context, what is told)
    let rows = [
        (
            "baseline",
            json!({"privileged": true}),
            r#"privileged (container "a" must not set securityContext.privileged=true)"#,
        ),
        (
            "baseline",
            json!({"capabilities": {"add": ["CHOWN", "KILL"]}}),
            "",
        ),
        (
            "baseline",
            json!({"capabilities": {"add": ["SYS_ADMIN", "NET_RAW"]}}),
            r#"non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            "restricted",
            json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
            "",
        ),
        (
            "restricted",
            json!({"capabilities": {"drop": ["KILL"], "add": ["CHOWN", "NET_RAW"]}}),
            r#"unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "CHOWN", "NET_RAW" in securityContext.capabilities.add)"#,
        ),
        // what is asked since 1.22 was not before, and what is asked instead of it was
        (
            "restricted:v1.21",
            json!({"capabilities": {"add": ["NET_RAW"]}}),
            r#"non-default capabilities (container "a" must not include "NET_RAW" in securityContext.capabilities.add)"#,
        ),
        (
            "restricted:v1.7",
            json!({"allowPrivilegeEscalation": true}),
            "",
        ),
        (
            "restricted:v1.8",
            json!({"allowPrivilegeEscalation": true}),
            r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
        (
            "restricted",
            json!({"runAsNonRoot": false}),
            r#"runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            "restricted",
            json!({"runAsUser": 0}),
            r#"runAsUser=0 (container "a" must not set runAsUser=0)"#,
        ),
        ("restricted:v1.22", json!({"runAsUser": 0}), ""),
        ("baseline", json!({"runAsUser": 0}), ""),
    ];
    for (standard, context, expected) in rows {
        assert_eq!(
            details(standard, &hardened_pod(&context)),
            expected,
            "{standard} {context}"
        );
    }
}

#[test]
fn the_profiles_of_a_container_are_judged() {
    let rows = [
        (
            "baseline",
            json!({"seccompProfile": {"type": "Unconfined"}}),
            r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            "restricted",
            json!({"seccompProfile": {"type": "Unconfined"}}),
            r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            "baseline",
            json!({"procMount": "Unmasked"}),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            "baseline",
            json!({"appArmorProfile": {"type": "Unconfined"}}),
            r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            "baseline",
            json!({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}}),
            r#"seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)"#,
        ),
        (
            "baseline",
            json!({"seLinuxOptions": {"type": "container_engine_t", "level": "s0"}}),
            "",
        ),
        (
            "baseline:v1.30",
            json!({"seLinuxOptions": {"type": "container_engine_t"}}),
            r#"seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "container_engine_t")"#,
        ),
        (
            "baseline",
            json!({"windowsOptions": {"hostProcess": true}}),
            r#"hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
    ];
    for (standard, context, expected) in rows {
        assert_eq!(
            details(standard, &hardened_pod(&context)),
            expected,
            "{standard} {context}"
        );
    }
}

#[test]
fn what_a_pod_sets_is_judged() {
    let sysctls = |names: &[&str]| {
        Value::from(
            names
                .iter()
                .map(|name| json!({"name": name, "value": "1"}))
                .collect::<Vec<_>>(),
        )
    };
    let volumes = json!([
        {"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}, {"name": "x", "emptyDir": {}}, {"name": "y"}]);
    let probe = json!({"httpGet": {"host": "example.org", "port": 80}});
    let rows = [
        (
            "baseline",
            "/hostNetwork",
            json!(true),
            "host namespaces (hostNetwork=true)",
        ),
        (
            "baseline",
            "/hostPID",
            json!(true),
            "host namespaces (hostPID=true)",
        ),
        (
            "baseline",
            "/volumes",
            volumes.clone(),
            r#"hostPath volumes (volume "v")"#,
        ),
        (
            "restricted",
            "/volumes",
            volumes,
            r#"restricted volume types (volumes "v", "w", "y" use restricted volume types "hostPath", "nfs", "unknown")"#,
        ),
        (
            "baseline",
            "/containers/0/ports",
            json!([{"containerPort": 1, "hostPort": 0}, {"hostPort": 80}, {"hostPort": 443}]),
            r#"hostPort (container "a" uses hostPorts 443, 80)"#,
        ),
        (
            "baseline",
            "/containers/0/livenessProbe",
            probe.clone(),
            r#"probe or lifecycle host (container "a" uses probe or lifecycle host "example.org")"#,
        ),
        ("baseline:v1.33", "/containers/0/livenessProbe", probe, ""),
        (
            "baseline",
            "/securityContext/sysctls",
            sysctls(&["net.ipv4.tcp_rmem", "kernel.shm_rmid_forced"]),
            "",
        ),
        (
            "baseline:v1.31",
            "/securityContext/sysctls",
            sysctls(&[
                "net.ipv4.tcp_rmem",
                "kernel.shm_rmid_forced",
                "kernel.msgmax",
            ]),
            "forbidden sysctls (net.ipv4.tcp_rmem, kernel.msgmax)",
        ),
        (
            "restricted",
            "/securityContext/runAsNonRoot",
            json!(false),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "restricted",
            "/securityContext/runAsUser",
            json!(0),
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
        (
            "restricted",
            "/securityContext/seccompProfile",
            json!({"type": "Unconfined"}),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            "restricted",
            "/ephemeralContainers",
            json!([{"name": "debug", "securityContext": {"privileged": true, "capabilities": {"drop": ["ALL"]}}}]),
            r#"privileged (container "debug" must not set securityContext.privileged=true), allowPrivilegeEscalation != false (container "debug" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
    ];
    for (standard, pointer, value, expected) in rows {
        assert_eq!(
            details(standard, &with(pointer, &value)),
            expected,
            "{standard} {pointer} {value}"
        );
    }
}

/// Pods of Windows, and pods whose users are not the host's, are asked less since some version.
#[test]
fn some_pods_are_asked_less() {
    let plain = json!({"spec": {"containers": [{"name": "a"}], "os": {"name": "windows"}}});
    assert_eq!(
        details("restricted", &plain),
        r#"runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#
    );
    assert!(details("restricted:v1.24", &plain).starts_with("allowPrivilegeEscalation != false"));
    let mut own = hardened_pod(&json!({"runAsUser": 0, "procMount": "Unmasked"}));
    own["spec"]["hostUsers"] = json!(false);
    assert_eq!(details("baseline", &own), "");
    assert_eq!(
        details("restricted", &own),
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#
    );
    assert_eq!(
        details("restricted:v1.34", &own),
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked"), runAsUser=0 (container "a" must not set runAsUser=0)"#
    );
}

#[test]
fn annotations_of_old_are_judged() {
    let mut pod = hardened_pod(&json!({}));
    pod["metadata"]["annotations"] = json!({
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/other": "unconfined",
        "seccomp.security.alpha.kubernetes.io/pod": "docker/default",
    });
    let armor = r#"forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/a="unconfined"")"#;
    assert_eq!(details("baseline", &pod), armor);
    assert_eq!(
        details("baseline:v1.18", &pod),
        format!(
            r#"{armor}, seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/a="unconfined")"#
        )
    );
}

#[test]
fn labels_say_what_is_asked() {
    let at = |level, version| Standard { level, version };
    let rows = [
        (
            json!({}),
            "privileged:latest privileged:latest privileged:latest",
        ),
        // whoever enforces is told as well
        (
            json!({"enforce": "restricted"}),
            "restricted:latest privileged:latest restricted:latest",
        ),
        (
            json!({"enforce": "baseline", "enforce-version": "v1.30"}),
            "baseline:v1.30 privileged:latest baseline:v1.30",
        ),
        (
            json!({"enforce": "baseline", "enforce-version": "v1.30", "warn-version": "v1.31"}),
            "baseline:v1.30 privileged:latest baseline:v1.31",
        ),
        (
            json!({"enforce": "baseline", "warn": "restricted", "audit": "restricted"}),
            "baseline:latest restricted:latest restricted:latest",
        ),
        (
            json!({"enforce": "baseline", "warn": "privileged"}),
            "baseline:latest privileged:latest privileged:latest",
        ),
    ];
    for (labels, expected) in rows {
        let (
            Policy {
                enforce,
                audit,
                warn,
            },
            faults,
        ) = Policy::of(&labelled_pod(&labels));
        assert_eq!(faults, [], "{labels}");
        assert_eq!(format!("{enforce} {audit} {warn}"), expected, "{labels}");
    }
    for version in ["v1.0", "v1.10"] {
        assert!(
            standard(&format!("baseline:{version}")).version < Version::Latest,
            "{version}"
        );
    }
    for said in [
        json!({"enforce": "strict"}),
        json!({"warn": ""}),
        json!({"audit-version": "1.30"}),
    ] {
        assert_eq!(Policy::of(&labelled_pod(&said)).1.len(), 1, "{said}");
    }
    for version in [
        "v1.01",
        "v2.0",
        "v1.",
        "v1.+1",
        "v1.99999999999",
        "Latest",
        "",
    ] {
        assert_eq!(
            Policy::of(&labelled_pod(&json!({"enforce-version": version})))
                .1
                .len(),
            1,
            "{version}"
        );
    }
    // what cannot be read is enforced at its strictest
    let (policy, _) = Policy::of(&labelled_pod(
        &json!({"enforce": "x", "enforce-version": "y", "warn": "z"}),
    ));
    assert_eq!(policy.enforce, at(Level::Restricted, Version::Latest));
    assert_eq!(policy.warn, at(Level::Privileged, Version::Latest));
}

fn labelled_pod(labels: &Value) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()))
        .collect();
    json!({"metadata": {"labels": labels}})
}

#[test]
fn pods_that_are_there_are_told_of_once_for_each_finding() {
    let pod = |name: &str, pointer: &str, value: Value| {
        let mut pod = with(pointer, &value);
        pod["metadata"]["name"] = json!(name);
        pod
    };
    let pods = vec![
        pod("c", "/hostNetwork", json!(true)),
        pod("b", "/hostNetwork", json!(true)),
        pod("a", "/hostPID", json!(true)),
        pod("lone", "/containers/0/ports", json!([{"hostPort": 1}])),
        pod("good", "/hostNetwork", json!(false)),
        pod("y", "/securityContext/runAsUser", json!(0)),
        pod("x", "/securityContext/runAsUser", json!(0)),
    ];
    let warnings = existing::of_pods("ns", standard("restricted:v1.30"), pods.clone(), || false);
    assert_eq!(
        warnings,
        [
            r#"existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:v1.30""#,
            "a (and 2 other pods): host namespaces",
            "lone: hostPort",
            "x (and 1 other pod): runAsUser=0",
        ]
    );
    assert_eq!(
        existing::of_pods("ns", standard("baseline"), pods[4..].to_vec(), || false),
        [""; 0]
    );
    assert_eq!(
        existing::of_pods("ns", standard("baseline"), pods, || true),
        [
            "new PodSecurity enforce level only checked against the first 1 of 7 existing pods",
            r#"existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest""#,
            "c: host namespaces",
        ]
    );
}

#[test]
fn only_other_images_and_further_containers_are_judged_anew() {
    let pod = hardened_pod(&json!({}));
    let changed =
        |pointer: &str, value: Value| update::is_significant(&pod, &with(pointer, &value));
    assert!(!changed("/activeDeadlineSeconds", json!(1)));
    assert!(!changed("/tolerations", json!([{"operator": "Exists"}])));
    assert!(changed("/containers/0/image", json!("other")));
    assert!(changed("/initContainers", json!([{"name": "more"}])));
    let more = with(
        "/ephemeralContainers",
        &json!([{"name": "debug", "image": "i"}]),
    );
    assert!(update::is_significant(&pod, &more));
    assert!(!update::is_significant(&more, &more));
}
