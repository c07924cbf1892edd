//! Checks for a kubelet on this machine: the agent neither joins nor starts beside one, as EdgeCore does not. Both would run
//! pods with the same container runtime, and each would remove the other's as orphans.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::config::Config;

/// The variable that disables EdgeCore's check if it is `false`.
const CHECK_VARIABLE: &str = "CHECK_EDGECORE_ENVIRONMENT";
/// The name of the process.
pub(crate) const KUBELET: &str = "kubelet";

/// The files of an installed EdgeCore: keadm's, and those of packages.
const EDGECORE_FILES: [&str; 4] = [
    "usr/local/bin/edgecore",
    "usr/bin/edgecore",
    "etc/systemd/system/edgecore.service",
    "lib/systemd/system/edgecore.service",
];

/// Returns a file of EdgeCore, if it is installed below `root`. It may have pods although it is stopped.
pub(crate) fn installed_edgecore(root: &Path) -> Option<PathBuf> {
    let mut files = EDGECORE_FILES.iter().map(|file| root.join(file));
    files.find(|file| file.exists())
}

/// A kubelet runs on this machine.
#[derive(Debug, thiserror::Error)]
#[error(
    "a kubelet runs on this machine (process {process}), and the two would stop each other's pods; stop the kubelet (systemctl disable \
     --now \
     kubelet), or set {CHECK_VARIABLE}=false in the agent's environment to start beside it"
)]
pub(crate) struct KubeletRuns {
    process: u32,
}

/// Checks the processes in `proc`, unless the variable disables the check, or MetaServer is enabled, as in EdgeCore.
///
/// # Errors
/// A kubelet is among them.
pub(crate) fn check(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
    proc: &Path,
) -> Result<(), KubeletRuns> {
    if is_check_disabled(variable) || config.meta_manager.meta_server.is_some() {
        return Ok(());
    }
    let found = processes(proc, &[KUBELET]).into_iter().next();
    found.map_or(Ok(()), |(_, process)| Err(KubeletRuns { process }))
}

/// Reports whether the check is disabled.
pub(crate) fn is_check_disabled(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable(CHECK_VARIABLE).is_some_and(|value| value == "false")
}

/// Returns the name and process id of processes with these names in `proc`, except this one. Processes of containers are
/// included, as in EdgeCore. If processes are hidden, as with hidepid, none are returned.
pub(crate) fn processes(proc: &Path, names: &[&str]) -> Vec<(String, u32)> {
    let own = std::process::id();
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        // the kernel truncates names after 15 letters
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let name = name.trim_end();
        (process != own && names.contains(&name)).then(|| (name.to_owned(), process))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Host};

    fn config(text: &str) -> Config {
        let host = Host {
            name: "edge-1".into(),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
        };
        config::parse(Path::new("x"), text, None, &host).unwrap().0
    }

    fn proc(names: &[(u32, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        fs::write(proc.path().join("uptime"), "1 1").unwrap();
        for (process, name) in names {
            let directory = proc.path().join(process.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
        }
        proc
    }

    #[test]
    fn installed_edgecore_is_found_by_program_or_service() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(installed_edgecore(root.path()), None);
        let service = root.path().join("etc/systemd/system/edgecore.service");
        fs::create_dir_all(service.parent().unwrap()).unwrap();
        fs::write(&service, "").unwrap();
        assert_eq!(installed_edgecore(root.path()), Some(service));
    }

    #[test]
    fn beside_a_kubelet_the_agent_starts_only_if_the_check_is_disabled() {
        let plain = config("kind: EdgeCore");
        let with_meta_server = config("modules: {metaManager: {metaServer: {enable: true}}}");
        let (unset, off) = (None, Some("false".to_owned()));
        let others = proc(&[(1, "init"), (77, "kubelet-wrapper"), (78, "kube-proxy")]);
        let kubelets = proc(&[(1, "init"), (4711, "kubelet")]);
        let look = |config, value: &Option<String>, proc: &tempfile::TempDir| {
            let variable = |name: &str| {
                if name == "CHECK_EDGECORE_ENVIRONMENT" {
                    value.clone()
                } else {
                    None
                }
            };
            check(config, variable, proc.path())
        };
        assert!(look(&plain, &unset, &others).is_ok());
        assert!(look(&plain, &off, &kubelets).is_ok());
        assert!(look(&with_meta_server, &unset, &kubelets).is_ok());
        for value in [unset, Some("true".to_owned()), Some(String::new())] {
            let told = look(&plain, &value, &kubelets).unwrap_err().to_string();
            for part in [
                "process 4711",
                "systemctl disable --now kubelet",
                "CHECK_EDGECORE_ENVIRONMENT=false",
            ] {
                assert!(told.contains(part), "{told}");
            }
        }
    }
}
