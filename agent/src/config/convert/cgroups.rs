//! Control groups of pods.

use super::values::{KUBELET, Values};
use edged::{CgroupDriver, ControlGroups};
use wire::names::is_path_component;

use crate::config::file;

pub(super) fn convert(kubelet: &file::Kubelet, values: &mut Values<'_>) -> ControlGroups {
    let pod_pids_limit: i64 = values.number(
        &format!("{KUBELET}.podPidsLimit"),
        kubelet.pod_pids_limit,
        -1,
        i64::from(i32::MAX),
    );
    ControlGroups {
        per_pod: kubelet.cgroups_per_qos,
        root: root(&kubelet.cgroup_root, values),
        driver: driver(&kubelet.cgroup_driver, values),
        pod_pids_limit: (pod_pids_limit > 0).then_some(pod_pids_limit),
    }
}

fn driver(text: &str, values: &mut Values<'_>) -> CgroupDriver {
    match text {
        "systemd" => CgroupDriver::Systemd,
        "cgroupfs" => CgroupDriver::Cgroupfs,
        _ => {
            let must = "must be cgroupfs or systemd, as the runtime has it";
            values.error(
                &format!("{KUBELET}.cgroupDriver"),
                format!("is {text:?}, but {must}"),
            );
            CgroupDriver::default()
        }
    }
}

/// Parses a path from the root of the hierarchy.
fn root(text: &str, values: &mut Values<'_>) -> Vec<String> {
    let names: Vec<String> = text
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    if !names.iter().all(|name| is_path_component(name)) {
        let must =
            "must be a path of control groups such as /edge: letters, digits, '-', '_' and '.'";
        values.error(
            &format!("{KUBELET}.cgroupRoot"),
            format!("is {text:?}, but {must}"),
        );
    }
    names
}
