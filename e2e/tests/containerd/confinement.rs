//! What a container may do beyond its user and its capabilities.

use std::fs;

use anyhow::{Context, ensure};
use e2e::{
    Cloud,
    containerd::{IMAGE, RealRig},
};
use serde_json::{Value, json};
use wire::cri::{PodSandbox, PodSandboxStatusRequest};

use crate::{
    case::{Case, apply, check, leaves_nothing, pod},
    probes::wait_event,
};

fn own(context: Value) -> Value {
    json!({"containers": [{"securityContext": context}]})
}

/// Waits until the first container waits with this text.
pub(crate) fn waits_with(
    cloud: &impl AsRef<Cloud>,
    name: &str,
    reason: &str,
    text: &str,
) -> anyhow::Result<()> {
    cloud
        .as_ref()
        .wait_pod(name, |pod| {
            let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
            let said = waiting["message"].as_str().unwrap_or_default();
            match waiting["reason"] == reason && said.contains(text) {
                true => Ok(()),
                false => Err(format!("waiting is not {reason} with {text:?}")),
            }
        })
        .map(drop)
}

#[test]
fn profiles_devices_and_groups() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let profiles = rig.directory.path().join("node/kubelet/seccomp");
    fs::create_dir_all(profiles.join("deep"))?;
    // chmod fails with EPERM, all else is as ever
    let profile = json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["chmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO"}]});
    fs::write(profiles.join("deep/no-chmod.json"), profile.to_string())?;
    let local = json!({"type": "Localhost", "localhostProfile": "deep/no-chmod.json"});
    let masked = "grep -c ' /proc/sys ' /proc/mounts || true";
    check(
        &rig,
        &[
            Case {
                name: "local",
                spec: own(json!({"seccompProfile": local})),
                inside: vec![
                    ("chmod 700 /tmp 2>/dev/null || echo refused", "refused"),
                    ("grep ^Seccomp: /proc/1/status | cut -f2", "2"),
                ],
            },
            Case {
                name: "local-pod",
                spec: json!({"securityContext": {"seccompProfile": local}, "containers": [{}]}),
                inside: vec![("chmod 700 /tmp 2>/dev/null || echo refused", "refused")],
            },
            Case {
                name: "unconfined",
                spec: own(
                    json!({"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}),
                ),
                inside: vec![("grep ^Seccomp: /proc/1/status | cut -f2", "0")],
            },
            Case {
                name: "masked",
                spec: own(json!({"procMount": "Default"})),
                inside: vec![(masked, "1")],
            },
            Case {
                name: "devices",
                spec: json!({
                    "volumes": [{"name": "kmsg", "hostPath": {"path": "/dev/kmsg", "type": "CharDevice"}}],
                    "containers": [{"securityContext": {"privileged": true}, "volumeMounts": [{"name": "kmsg", "mountPath": "/dev/e2e"}]}],
                }),
                inside: vec![(
                    "test -c /dev/e2e && test -c /dev/kmsg && head -c 0 /dev/e2e && echo opened",
                    "opened",
                )],
            },
            Case {
                name: "terminal",
                spec: json!({"containers": [{"tty": true, "stdin": true, "stdinOnce": true, "command": ["sh", "-c", "tty > /tmp/tty; trap 'exit 0' TERM; sleep 2147483647 & wait"],
                    "readinessProbe": {"exec": {"command": ["test", "-s", "/tmp/tty"]}, "periodSeconds": 1}}]}),
                inside: vec![("cat /tmp/tty", "/dev/pts/0")],
            },
        ],
    )?;
    groups_of_files(&rig)?;
    leaves_nothing(&rig)
}

/// Volumes belong to the pod's group.
fn groups_of_files(rig: &RealRig) -> anyhow::Result<()> {
    let mounts =
        json!([{"name": "empty", "mountPath": "/empty"}, {"name": "keys", "mountPath": "/keys"}]);
    let group = |name: &'static str, context: Value, inside: Vec<(&'static str, &'static str)>| {
        Case {
            name,
            spec: json!({
                "securityContext": context,
                "volumes": [{"name": "empty", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}}],
                "containers": [{"volumeMounts": mounts}],
            }),
            inside,
        }
    };
    apply(
        rig,
        &[
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"k": "v"}}),
        ],
    )?;
    check(
        rig,
        &[
            group(
                "grouped",
                json!({"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 4000, "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroups": [3000], "supplementalGroupsPolicy": "Merge"}),
                vec![
                    ("stat -c '%g %a' /empty", "4000 2777"),
                    ("stat -L -c '%g %a' /keys/k", "4000 440"),
                    ("touch /empty/x && stat -c '%u %g' /empty/x", "1000 4000"),
                    ("cat /keys/k", "v"),
                    ("id -G", "2000 3000 4000"),
                ],
            ),
            group(
                "ungrouped",
                json!({"runAsUser": 1000}),
                vec![("cat /keys/k 2>/dev/null || echo refused", "refused")],
            ),
        ],
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn confinement_that_cannot_be() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let sysctl = |name: &str, value: &str| json!({"securityContext": {"sysctls": [{"name": name, "value": value}]}, "containers": [{}]});
    let class = |name: &str| json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name});
    let armoured = own(json!({"appArmorProfile": {"type": "RuntimeDefault"}}));
    // the volume of its token would be as large as the pod's memory
    let odd = json!({"automountServiceAccountToken": false, "containers": [{"resources": {"limits": {"memory": "1k"}}}]});
    apply(
        &rig,
        &[
            class("nowhere"),
            class("runc"),
            pod("unsafe", &sysctl("net.core.somaxconn", "9")),
            pod(
                "no-profile",
                &own(
                    json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "none.json"}}),
                ),
            ),
            pod(
                "no-class",
                &json!({"runtimeClassName": "nowhere", "containers": [{}]}),
            ),
            pod(
                "class",
                &json!({"runtimeClassName": "runc", "containers": [{}]}),
            ),
            pod("armoured", &armoured),
            pod(
                "strict",
                &json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}, "containers": [{}]}),
            ),
            pod(
                "long-name",
                &json!({"hostname": "a".repeat(50), "subdomain": "b".repeat(50), "setHostnameAsFQDN": true, "containers": [{}]}),
            ),
            pod("odd-limits", &odd),
            pod("fine", &json!({"containers": [{"image": IMAGE}]})),
        ],
    )?;
    for name in ["fine", "class"] {
        rig.wait_ready(name)?;
    }
    let mut failed = vec![("unsafe", "SysctlForbidden")];
    let mut refused = vec![
        ("no-class", "nowhere"),
        ("long-name", "is too long (64 is the max"),
    ];
    // as the runtime reports: containerd 2.0 and later support it
    let node = rig.cloud.node()?.unwrap_or_default();
    if node["status"]["features"]["supplementalGroupsPolicy"] == true {
        rig.wait_ready("strict")?;
    } else {
        let text = "securityContext.supplementalGroupsPolicy: Strict is not supported on this node";
        refused.push(("strict", text));
    }
    // where the kernel has AppArmor, the runtime's own profile is there too
    let kernel = fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    if kernel.starts_with('Y') {
        rig.wait_ready("armoured")?;
    } else {
        failed.push(("armoured", "AppArmor"));
    }
    for (name, reason) in failed {
        let seen = rig.wait_phase(name, "Failed")?;
        anyhow::ensure!(
            seen["status"]["reason"] == reason,
            "{name}: {}",
            seen["status"]
        );
    }
    for (name, text) in refused {
        waits_with(&rig, name, "ContainerCreating", text)?;
        wait_event(&rig, name, "FailedCreatePodSandBox", text)?;
        let log = rig.node.process.log();
        let warnings = log
            .lines()
            .filter(|line| line.contains(" WARN ") && line.contains(text))
            .count();
        ensure!(
            warnings == 1,
            "{name}: {warnings} warnings in the log, not one"
        );
    }
    rig.wait_pod("no-profile", |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let failed =
            waiting["reason"] == "CreateContainerError" || waiting["reason"] == "RunContainerError";
        let told = failed
            && waiting["message"]
                .as_str()
                .is_some_and(|text| text.contains("none.json"));
        if told {
            Ok(())
        } else {
            Err("the missing profile is not told".into())
        }
    })?;
    wait_event(&rig, "no-profile", "Failed", "none.json")?;
    rig.wait_pod("odd-limits", |pod| {
        let state = &pod["status"]["containerStatuses"][0];
        let told = state.to_string().contains("memory");
        if told {
            Ok(())
        } else {
            Err("impossible limits are not told".into())
        }
    })?;
    leaves_nothing(&rig)
}

/// How the runtime has made the sandbox of this pod.
fn sandbox_config(rig: &RealRig, name: &str) -> anyhow::Result<Value> {
    let raw_cri = &rig.containerd.raw_cri;
    let sandboxes = raw_cri.sandboxes(None)?;
    let is_its = |one: &&PodSandbox| {
        one.labels
            .get("io.kubernetes.pod.name")
            .is_some_and(|of| of == name)
    };
    let sandbox = sandboxes.iter().find(is_its).context("it has no sandbox")?;
    let request = PodSandboxStatusRequest {
        pod_sandbox_id: sandbox.id.clone(),
        verbose: true,
    };
    let answer = raw_cri.runtime(async |mut client| client.pod_sandbox_status(request).await)?;
    Ok(serde_json::from_str(
        answer.info.get("info").context("it says nothing")?,
    )?)
}

#[test]
fn sandboxes_have_the_profile_that_the_runtime_has_by_default() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let profile_of = |name: &str| {
        apply(&rig, &[pod(name, &json!({}))])?;
        rig.wait_ready(name)?;
        let made = sandbox_config(&rig, name)?;
        let status = fs::read_to_string(format!("/proc/{}/status", made["pid"]))?;
        ensure!(
            status.contains("Seccomp:\t2\n"),
            "{name} is not confined: {status}"
        );
        Ok(made["runtimeSpec"]["linux"]["seccomp"].clone())
    };
    let (first, second) = (profile_of("first")?, profile_of("second")?);
    ensure!(
        first == second,
        "the second sandbox has another profile than the first: {first}, {second}"
    );
    // the runtime's default is one for programs of all kinds, and never lets them load another kernel
    let names = |profile: &Value| profile["syscalls"].to_string();
    ensure!(
        names(&first).contains("\"socket\"") && !names(&first).contains("\"kexec_load\""),
        "{first}"
    );
    leaves_nothing(&rig)
}
