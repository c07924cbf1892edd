//! The checks of Pod Security, as a table: the level of each, and the Kubernetes version in which it begins.

use super::{
    labels::{Level, Standard, Version},
    pod::{Pod, Violation},
};

mod baseline;
mod fields;
mod restricted;
mod seccomp;

/// The newest minor version with checks of its own: `latest` and later versions use these.
const NEWEST_MINOR_VERSION: u32 = 36;

/// The violations that the checks found, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `hostPort, privileged`
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|found| found.reason).collect();
        reasons.join(", ")
    }

    /// `hostPort (container "a" uses hostPort 80), privileged (…)`
    pub(super) fn details(&self) -> String {
        let told = |found: &Violation| match found.detail.as_str() {
            "" => found.reason.to_owned(),
            detail => format!("{} ({detail})", found.reason),
        };
        let details: Vec<_> = self.0.iter().map(told).collect();
        details.join(", ")
    }
}

/// Finds what a pod violates.
type CheckPod = fn(&Pod<'_>) -> Option<Violation>;

/// One of the controls of the Pod Security Standards.
struct Check {
    level: Level,
    /// By what others name it as replaced.
    name: &'static str,
    /// Of the minor versions with another check than the one before, the oldest first.
    since: &'static [(u32, CheckPod)],
    /// The control of the level below that is asked for in this one's place.
    replaces: &'static str,
}

impl Check {
    fn at(&self, minor: u32) -> Option<CheckPod> {
        self.since
            .iter()
            .rev()
            .find(|(since, _)| *since <= minor)
            .map(|(_, check)| *check)
    }
}

const fn baseline(name: &'static str, since: &'static [(u32, CheckPod)]) -> Check {
    Check {
        level: Level::Baseline,
        name,
        since,
        replaces: "",
    }
}

const fn restricted_check(
    name: &'static str,
    since: &'static [(u32, CheckPod)],
    replaces: &'static str,
) -> Check {
    Check {
        level: Level::Restricted,
        name,
        since,
        replaces,
    }
}

/// In the order in which their findings are reported.
const CHECKS: [Check; 19] = [
    baseline("appArmorProfile", &[(0, baseline::app_armor)]),
    baseline("capabilities_baseline", &[(0, baseline::capabilities)]),
    baseline("hostNamespaces", &[(0, baseline::host_namespaces)]),
    baseline("hostPathVolumes", &[(0, baseline::host_path_volumes)]),
    baseline("hostPorts", &[(0, baseline::host_ports)]),
    baseline(
        "hostProbesAndHostLifecycle",
        &[(34, baseline::handler_hosts)],
    ),
    baseline("privileged", &[(0, baseline::check_privileged)]),
    baseline(
        "procMount",
        &[
            (0, baseline::proc_mount),
            (35, baseline::proc_mount_since_1_35),
        ],
    ),
    baseline(
        "seLinuxOptions",
        &[(0, baseline::selinux), (31, baseline::selinux_since_1_31)],
    ),
    baseline(
        "seccompProfile_baseline",
        &[(0, seccomp::annotations), (19, seccomp::baseline)],
    ),
    baseline(
        "sysctls",
        &[
            (0, |pod| baseline::sysctls(pod, 0)),
            (27, |pod| baseline::sysctls(pod, 27)),
            (29, |pod| baseline::sysctls(pod, 29)),
            (32, |pod| baseline::sysctls(pod, 32)),
        ],
    ),
    baseline("windowsHostProcess", &[(0, baseline::host_process)]),
    restricted_check(
        "allowPrivilegeEscalation",
        &[
            (8, restricted::escalation),
            (25, |pod| {
                fields::unless_windows(pod, restricted::escalation)
            }),
        ],
        "",
    ),
    restricted_check(
        "capabilities_restricted",
        &[
            (22, restricted::capabilities),
            (25, |pod| {
                fields::unless_windows(pod, restricted::capabilities)
            }),
        ],
        "capabilities_baseline",
    ),
    restricted_check(
        "procMount_restricted",
        &[(35, baseline::proc_mount)],
        "procMount",
    ),
    restricted_check(
        "restrictedVolumes",
        &[(0, restricted::volumes)],
        "hostPathVolumes",
    ),
    restricted_check(
        "runAsNonRoot",
        &[
            (0, restricted::non_root),
            (35, |pod| {
                fields::unless_own_users(pod, restricted::non_root)
            }),
        ],
        "",
    ),
    restricted_check(
        "runAsUser",
        &[
            (23, restricted::user),
            (35, |pod| fields::unless_own_users(pod, restricted::user)),
        ],
        "",
    ),
    restricted_check(
        "seccompProfile_restricted",
        &[
            (19, seccomp::check_restricted),
            (25, |pod| {
                fields::unless_windows(pod, seccomp::check_restricted)
            }),
        ],
        "seccompProfile_baseline",
    ),
];

/// What `pod` violates of `standard`.
pub(super) fn evaluate(standard: Standard, pod: &Pod<'_>) -> Violations {
    let minor = match standard.version {
        Version::Minor(minor) => minor.min(NEWEST_MINOR_VERSION),
        Version::Latest => NEWEST_MINOR_VERSION,
    };
    let asked = || {
        let checks = CHECKS.iter().filter(|check| check.level <= standard.level);
        checks.filter_map(|check| Some((check, check.at(minor)?)))
    };
    let is_replaced = |name: &str| asked().any(|(check, _)| check.replaces == name);
    let checks = asked().filter(|(check, _)| !is_replaced(check.name));
    Violations(checks.filter_map(|(_, check)| check(pod)).collect())
}
