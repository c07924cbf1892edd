//! The cgroup driver in containerd's own configuration. Pure.

use crate::settings::CgroupDriver;

/// Returns the cgroup driver from containerd's own configuration, which versions before 2.0 report only there.
pub(super) fn configured_driver(config: &str) -> Option<CgroupDriver> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    let containerd = config.get("containerd")?;
    let default = containerd.get("defaultRuntimeName")?.as_str()?;
    let by_systemd = containerd
        .get("runtimes")?
        .get(default)?
        .pointer("/options/SystemdCgroup");
    let by_systemd = by_systemd
        .and_then(serde_json::Value::as_bool)
        .unwrap_or(false);
    Some(if by_systemd {
        CgroupDriver::Systemd
    } else {
        CgroupDriver::Cgroupfs
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_driver_is_read_from_containerds_config() {
        let of = |options: &str| {
            configured_driver(&format!(
                r#"{{"containerd": {{"defaultRuntimeName": "runc", "runtimes": {{"runc": {{"options": {options}}}}}}}}}"#
            ))
        };
        assert_eq!(
            of(r#"{"SystemdCgroup": true}"#),
            Some(CgroupDriver::Systemd)
        );
        assert_eq!(
            of(r#"{"SystemdCgroup": false}"#),
            Some(CgroupDriver::Cgroupfs)
        );
        assert_eq!(of("null"), Some(CgroupDriver::Cgroupfs));
        for other in ["", "{}", "[]", r#"{"containerd": {}}"#] {
            assert_eq!(configured_driver(other), None, "{other}");
        }
    }
}
