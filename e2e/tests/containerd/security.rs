//! Security contexts, as the kernel sees the process.

use e2e::containerd::RealRig;
use serde_json::{Value, json};

use crate::case::{Case, apply, check, leaves_nothing, pod};

/// Which bit of a capability set is `NET_ADMIN`.
const ADMIN_ONLY: &str = "0000000000001000";

/// What the kernel says of the first process.
const UID: &str = "grep ^Uid: /proc/1/status | cut -f2-";
const GID: &str = "grep ^Gid: /proc/1/status | cut -f2-";
const GROUPS: &str = "grep ^Groups: /proc/1/status | cut -f2-";
const CAPABILITIES: &str = "grep ^CapBnd: /proc/1/status | cut -f2-";
const NO_NEW: &str = "grep ^NoNewPrivs: /proc/1/status | cut -f2-";
const SECCOMP: &str = "grep ^Seccomp: /proc/1/status | cut -f2-";

#[test]
fn security_contexts() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let cases: Vec<_> = users().into_iter().chain(rights()).collect();
    check(&rig, &cases)?;
    root_is_refused(&rig)?;
    leaves_nothing(&rig)
}

fn own(context: &Value) -> Value {
    json!({"containers": [{"securityContext": context}]})
}

/// Who it is.
fn users() -> Vec<Case<'static>> {
    vec![
        Case {
            name: "users",
            spec: json!({
                "securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000], "runAsNonRoot": true},
                "containers": [{}],
            }),
            inside: vec![
                (UID, "1000\t1000\t1000\t1000"),
                (GID, "2000\t2000\t2000\t2000"),
                ("grep -c 3000 /proc/1/status", "1"),
            ],
        },
        Case {
            name: "tokens-user",
            spec: json!({
                "securityContext": {"runAsUser": 1000},
                "containers": [{"volumeMounts": [{"name": "token", "mountPath": "/token"}]}],
                "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            }),
            inside: vec![
                ("stat -L -c '%u %a' /token/token", "1000 600"),
                (
                    "test -s /token/token && cat /token/token > /dev/null && echo read",
                    "read",
                ),
            ],
        },
        Case {
            name: "own-user",
            spec: json!({"securityContext": {"runAsUser": 1000}, "containers": [{"securityContext": {"runAsUser": 7}}]}),
            inside: vec![(UID, "7\t7\t7\t7")],
        },
        Case {
            name: "group-of-the-images-user",
            spec: own(&json!({"runAsGroup": 2000})),
            inside: vec![(UID, "0\t0\t0\t0"), (GID, "2000\t2000\t2000\t2000")],
        },
    ]
}

/// What it may do.
fn rights() -> Vec<Case<'static>> {
    vec![
        Case {
            name: "capabilities",
            spec: own(&json!({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}})),
            inside: vec![(CAPABILITIES, ADMIN_ONLY)],
        },
        Case {
            name: "read-only",
            spec: own(&json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false})),
            inside: vec![
                ("echo x 2>/dev/null > /x || echo refused", "refused"),
                (NO_NEW, "1"),
            ],
        },
        Case {
            name: "privileged",
            spec: own(&json!({"privileged": true})),
            inside: vec![
                ("mount -t tmpfs none /var && echo mounted", "mounted"),
                (
                    "echo 1 > /proc/sys/net/ipv4/ip_forward && echo written",
                    "written",
                ),
            ],
        },
        Case {
            name: "plain",
            spec: json!({}),
            inside: vec![
                (
                    "mount -t tmpfs none /var 2>/dev/null || echo refused",
                    "refused",
                ),
                (UID, "0\t0\t0\t0"),
                (GROUPS, "0"),
                (NO_NEW, "0"),
                (SECCOMP, "0"),
                (
                    "echo 1 2>/dev/null > /proc/sys/kernel/panic || echo refused",
                    "refused",
                ),
            ],
        },
        Case {
            name: "filtered",
            spec: own(&json!({"seccompProfile": {"type": "RuntimeDefault"}})),
            inside: vec![(SECCOMP, "2")],
        },
        Case {
            name: "kernel",
            spec: json!({"securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "2000 3000"}]}}),
            inside: vec![("cat /proc/sys/net/ipv4/ip_local_port_range", "2000\t3000")],
        },
    ]
}

fn root_is_refused(rig: &RealRig) -> anyhow::Result<()> {
    let must_not = json!({"containers": [{"securityContext": {"runAsNonRoot": true}}]});
    apply(rig, &[pod("root", &must_not)])?;
    rig.wait_pod("root", |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let said = waiting["message"].as_str().unwrap_or_default();
        match waiting["reason"] == "CreateContainerConfigError"
            && said.contains("image will run as root")
        {
            true => Ok(()),
            false => Err("it is not refused".to_owned()),
        }
    })
    .map(drop)
}
