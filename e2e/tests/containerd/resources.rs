//! Requests and limits, as the kernel has them.

use std::fs;

use anyhow::{Context, ensure};
use e2e::{Allowed, ControlGroup, containerd::RealRig, cpu_share};
use serde_json::json;

use crate::case::{Case, apply, check, leaves_nothing, pod};

/// The pid, on the node, of the process with this unusual argument.
pub(crate) fn pid_of(argument: &str) -> anyhow::Result<String> {
    let found = fs::read_dir("/proc")?.flatten().find(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words
            .split(|&byte| byte == 0)
            .any(|word| word == argument.as_bytes())
    });
    Ok(found
        .context("no such process")?
        .file_name()
        .to_string_lossy()
        .into_owned())
}

/// An argument that no other test's process has.
pub(crate) fn unusual(name: &str) -> String {
    format!("{}-{name}", std::process::id())
}

#[test]
fn limits_reach_the_kernel() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let case = |name: &'static str, resources| Case {
        name,
        spec: json!({"containers": [{
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait", unusual(name)],
            "resources": resources,
        }]}),
        inside: vec![],
    };
    check(
        &rig,
        &[
            case(
                "guaranteed",
                json!({"limits": {"cpu": "200m", "memory": "32Mi"}, "requests": {"cpu": "200m", "memory": "32Mi"}}),
            ),
            case(
                "burstable",
                json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "16Mi"}}),
            ),
            case("best-effort", json!({})),
            Case {
                spec: json!({"priorityClassName": "system-node-critical", "containers": [{
                    "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait", unusual("critical")],
                }]}),
                ..case("critical", json!({}))
            },
        ],
    )?;
    for (name, class, shares, quota, memory) in [
        (
            "guaranteed",
            "Guaranteed",
            204,
            Some(20_000),
            Some(32 << 20),
        ),
        ("burstable", "Burstable", 102, Some(50_000), None),
        ("best-effort", "BestEffort", 2, None, None),
    ] {
        let seen = rig.wait_ready(name)?;
        ensure!(
            seen["status"]["qosClass"] == class,
            "{name}: {}",
            seen["status"]
        );
        let found = ControlGroup::of(&pid_of(&unusual(name))?)?.limits()?;
        let expected = Allowed {
            cpu_share: cpu_share(shares),
            cpu_quota: quota,
            memory,
            ..found
        };
        ensure!(found == expected, "{name}: {found:?}, not {expected:?}");
    }
    let score = |name: &str| -> anyhow::Result<i32> {
        Ok(
            fs::read_to_string(format!("/proc/{}/oom_score_adj", pid_of(&unusual(name))?))?
                .trim()
                .parse()?,
        )
    };
    let scores = [
        score("guaranteed")?,
        score("burstable")?,
        score("best-effort")?,
    ];
    ensure!(
        scores.is_sorted() && scores[2] == 1000,
        "oom scores: {scores:?}"
    );
    ensure!(
        score("critical")? == scores[0],
        "what the node needs goes last: {}",
        score("critical")?
    );
    leaves_nothing(&rig)
}

#[test]
fn too_much_memory_ends_a_container() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    // dd takes its whole block as memory of its own. The shell begins late and lives on until containerd has heard why dd ended:
    // containerd 1.6 listens only when a container has been started for a moment, and cannot tell once its control group is gone
    apply(
        &rig,
        &[pod(
            "greedy",
            &json!({
                "restartPolicy": "Never",
                "containers": [{
                    "command": ["sh", "-c", "sleep 1; dd if=/dev/zero of=/dev/null bs=64M; code=$?; sleep 1; exit $code"],
                    "resources": {"limits": {"memory": "16Mi"}},
                }],
            }),
        )],
    )?;
    rig.wait_phase("greedy", "Failed")?;
    // some runtimes know of the cause only after the end
    rig.wait_pod("greedy", |pod| {
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let told = ended["reason"] == "OOMKilled" && ended["exitCode"] == 137;
        if told {
            Ok(())
        } else {
            Err("it was not killed for want of memory".to_owned())
        }
    })?;
    leaves_nothing(&rig)
}
