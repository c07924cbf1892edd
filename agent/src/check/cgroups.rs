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
    if let Some(reported) = reported.filter(|reported| *reported != configured) {
        return other_driver(reported, configured);
    }
    let driver = match configured {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "the runtime (cgroupfs)",
    };
    if missing.is_empty() {
        return CheckResult::Passed(format!("created by {driver}"));
    }
    CheckResult::Remark(format!(
        "the kernel has no control groups for {}: limits of containers have no effect; on a Raspberry Pi, add cgroup_enable=memory \
         to /boot/firmware/cmdline.txt and reboot",
        missing.join(", ")
    ))
}

/// Returns the failure for a runtime with another driver: its containers would not start.
fn other_driver(reported: CgroupDriver, configured: CgroupDriver) -> CheckResult {
    let name = |driver| match driver {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "cgroupfs",
    };
    let (reported, configured) = (name(reported), name(configured));
    CheckResult::bad(
        format!(
            "the container runtime uses the cgroup driver {reported}, the agent {configured}: containers do not start"
        ),
        format!(
            "set cgroupDriver: {reported} in modules.edged.tailoredKubeletConfig and restart the agent, or change the runtime"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_controllers_are_remarked_and_another_driver_fails() {
        use CgroupDriver::{Cgroupfs, Systemd};
        let all = "cpuset cpu io memory hugetlb pids";
        for (controllers, reported, expected) in [
            (all, None, "ok: created by systemd"),
            (all, Some(Systemd), "ok: created by systemd"),
            (
                all,
                Some(Cgroupfs),
                "error: uses the cgroup driver cgroupfs, the agent systemd",
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
            let (what, cure) = found.texts();
            let (grade, text) = expected.split_once(": ").unwrap();
            let is_as_expected = match grade {
                "ok" => matches!(found, CheckResult::Passed(_)),
                "note" => matches!(found, CheckResult::Remark(_)),
                _ => cure.is_some_and(|cure| cure.contains("cgroupDriver: cgroupfs")),
            };
            assert!(
                is_as_expected && what.contains(text),
                "{controllers}: {found:?}"
            );
        }
    }
}
