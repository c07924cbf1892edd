//! Check `cgroups`: control groups for limits of containers.

use std::path::Path;

use edged::CgroupDriver;

use super::{inputs::Inputs, report::CheckResult};

/// The cgroup controllers without which limits of containers have no effect.
const REQUIRED_CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    let reported = inputs
        .machine
        .answering()
        .find_map(|(_, found)| found.driver);
    judge(
        Path::new("/sys/fs/cgroup"),
        inputs.config.edged.groups.driver,
        // `join` configures the driver that the runtime reports
        reported.filter(|_| inputs.is_node()),
    )
}

fn judge(base: &Path, configured: CgroupDriver, reported: Option<CgroupDriver>) -> CheckResult {
    let unified = std::fs::read_to_string(base.join("cgroup.controllers"));
    let has = |name: &&str| match &unified {
        Ok(all) => all.split_whitespace().any(|one| one == *name),
        Err(_) => base.join(name).is_dir(),
    };
    let missing: Vec<&str> = REQUIRED_CONTROLLERS
        .into_iter()
        .filter(|name| !has(name))
        .collect();
    let name = |driver| match driver {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "the runtime (cgroupfs)",
    };
    let driver = name(reported.unwrap_or(configured));
    if missing.is_empty() {
        return match reported {
            Some(reported) if reported != configured => CheckResult::Remark(format!(
                "created by {driver}, as the container runtime does: cgroupDriver in modules.edged.tailoredKubeletConfig has no effect"
            )),
            _ => CheckResult::Passed(format!("created by {driver}")),
        };
    }
    CheckResult::Remark(format!(
        "the kernel has no control groups for {}: limits of containers have no effect; on a Raspberry Pi, add cgroup_enable=memory \
         to /boot/firmware/cmdline.txt and reboot",
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_controllers_and_a_driver_without_effect_are_remarked() {
        use CgroupDriver::{Cgroupfs, Systemd};
        let all = "cpuset cpu io memory hugetlb pids";
        for (controllers, reported, expected) in [
            (all, None, "ok: created by systemd"),
            (all, Some(Systemd), "ok: created by systemd"),
            (
                all,
                Some(Cgroupfs),
                "note: created by the runtime (cgroupfs), as the container runtime does",
            ),
            (
                "cpu pids",
                Some(Systemd),
                "note: no control groups for memory",
            ),
        ] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("cgroup.controllers"), controllers).unwrap();
            let found = judge(directory.path(), Systemd, reported);
            let (what, _) = found.texts();
            let (grade, text) = expected.split_once(": ").unwrap();
            let is_as_expected = match grade {
                "ok" => matches!(found, CheckResult::Passed(_)),
                _ => matches!(found, CheckResult::Remark(_)),
            };
            assert!(
                is_as_expected && what.contains(text),
                "{controllers}: {found:?}"
            );
        }
    }
}
