//! Security contexts, as the kernel sees the process.

use e2e::containerd::RealRig;
use serde_json::json;

use crate::case::{Case, apply, check, leaves_nothing, pod};

/// Which bit of a capability set is `NET_ADMIN`.
const ADMIN_ONLY: &str = "0000000000001000";

#[test]
fn security_contexts() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let status = |field: &str| format!("grep ^{field}: /proc/1/status | cut -f2-");
    let (uid, gid, groups) = (status("Uid"), status("Gid"), status("Groups"));
    let (capabilities, no_new, seccomp) = (status("CapBnd"), status("NoNewPrivs"), status("Seccomp"));
    let own = |context| json!({"containers": [{"securityContext": context}]});
    check(
        &rig,
        &[
            Case {
                name: "users",
                spec: json!({
                    "securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000], "runAsNonRoot": true},
                    "containers": [{}],
                }),
                inside: vec![
                    (&uid, "1000\t1000\t1000\t1000"),
                    (&gid, "2000\t2000\t2000\t2000"),
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
                    ("test -s /token/token && cat /token/token > /dev/null && echo read", "read"),
                ],
            },
            Case {
                name: "own-user",
                spec: json!({"securityContext": {"runAsUser": 1000}, "containers": [{"securityContext": {"runAsUser": 7}}]}),
                inside: vec![(&uid, "7\t7\t7\t7")],
            },
            Case {
                name: "group-of-the-images-user",
                spec: own(json!({"runAsGroup": 2000})),
                inside: vec![(&uid, "0\t0\t0\t0"), (&gid, "2000\t2000\t2000\t2000")],
            },
            Case {
                name: "capabilities",
                spec: own(json!({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}})),
                inside: vec![(&capabilities, ADMIN_ONLY)],
            },
            Case {
                name: "read-only",
                spec: own(json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false})),
                inside: vec![("echo x 2>/dev/null > /x || echo refused", "refused"), (&no_new, "1")],
            },
            Case {
                name: "privileged",
                spec: own(json!({"privileged": true})),
                inside: vec![
                    ("mount -t tmpfs none /var && echo mounted", "mounted"),
                    ("echo 1 > /proc/sys/net/ipv4/ip_forward && echo written", "written"),
                ],
            },
            Case {
                name: "plain",
                spec: json!({}),
                inside: vec![
                    ("mount -t tmpfs none /var 2>/dev/null || echo refused", "refused"),
                    (&uid, "0\t0\t0\t0"),
                    (&groups, "0"),
                    (&no_new, "0"),
                    (&seccomp, "0"),
                    ("echo 1 2>/dev/null > /proc/sys/kernel/panic || echo refused", "refused"),
                ],
            },
            Case {
                name: "filtered",
                spec: own(json!({"seccompProfile": {"type": "RuntimeDefault"}})),
                inside: vec![(&seccomp, "2")],
            },
            Case {
                name: "kernel",
                spec: json!({"securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "2000 3000"}]}}),
                inside: vec![("cat /proc/sys/net/ipv4/ip_local_port_range", "2000\t3000")],
            },
        ],
    )?;
    root_is_refused(&rig)?;
    leaves_nothing(&rig)
}

fn root_is_refused(rig: &RealRig) -> anyhow::Result<()> {
    let must_not = json!({"containers": [{"securityContext": {"runAsNonRoot": true}}]});
    apply(rig, &[pod("root", &must_not)])?;
    rig.wait_pod("root", |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let said = waiting["message"].as_str().unwrap_or_default();
        match waiting["reason"] == "CreateContainerConfigError" && said.contains("image will run as root") {
            true => Ok(()),
            false => Err("it is not refused".to_owned()),
        }
    })
    .map(drop)
}
