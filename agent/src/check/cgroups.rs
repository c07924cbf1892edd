//! Check `cgroups`: control groups for limits of containers.

use std::path::Path;

use edged::CgroupDriver;

use super::{inputs::Inputs, report::CheckResult};

/// The cgroup controllers without which limits of containers have no effect.
const REQUIRED_CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    let base = Path::new("/sys/fs/cgroup");
    let unified = std::fs::read_to_string(base.join("cgroup.controllers"));
    let has = |name: &&str| match &unified {
        Ok(all) => all.split_whitespace().any(|one| one == *name),
        Err(_) => base.join(name).is_dir(),
    };
    let missing: Vec<&str> = REQUIRED_CONTROLLERS
        .into_iter()
        .filter(|name| !has(name))
        .collect();
    let configured = inputs.config.edged.groups.driver;
    let reported = inputs
        .machine
        .answering()
        .find_map(|(_, found)| found.driver);
    if inputs.is_node()
        && let Some(reported) = reported
        && reported != configured
    {
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
