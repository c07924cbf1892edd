//! Check `kernel`: features of the kernel that containers and their network need.

use std::{fs, path::Path};

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};

/// A switch of the kernel.
struct Switch {
    /// The file below /proc/sys.
    path: &'static str,
    /// Its value.
    wanted: &'static str,
    /// What does not work with another value.
    effect: &'static str,
    /// Whether most clusters work without it.
    is_optional: bool,
}

/// The switches, as in kubeadm's preflight checks.
const SWITCHES: [Switch; 2] = [
    Switch {
        path: "net/ipv4/ip_forward",
        wanted: "1",
        effect: "pods without hostNetwork do not reach other machines",
        is_optional: false,
    },
    Switch {
        path: "net/bridge/bridge-nf-call-iptables",
        wanted: "1",
        effect: "iptables rules, such as those of kube-proxy, do not apply to pods on a bridge",
        is_optional: true,
    },
];
/// File systems of containers.
const FILE_SYSTEMS: [&str; 1] = ["overlay"];

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    if inputs.machine.is_simulated() {
        let why = "the simulated runtime needs no kernel features";
        return CheckResult::NotApplicable(why.into()).into();
    }
    judge(Path::new("/proc"), Path::new("/lib/modules"))
}

/// Judges the kernel by its files in `proc` and its modules below `modules`.
fn judge(proc: &Path, modules: &Path) -> Finding {
    let mut parts: Vec<CheckResult> = FILE_SYSTEMS
        .iter()
        .map(|name| file_system(proc, modules, name))
        .collect();
    parts.extend(SWITCHES.iter().map(|one| switch(proc, one)));
    let none = CheckResult::NotApplicable("no kernel feature is needed".into());
    Finding::combine(parts, none)
}

fn file_system(proc: &Path, modules: &Path, name: &str) -> CheckResult {
    let known = fs::read_to_string(proc.join("filesystems")).unwrap_or_default();
    let is_there = known
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some(name));
    if is_there || is_loadable(proc, modules, name) {
        return CheckResult::Passed(format!("file system {name} available"));
    }
    CheckResult::warning(
        format!("the kernel has no file system {name}, which most container runtimes use"),
        format!(
            "load the module: modprobe {name}, and write {name} to /etc/modules-load.d/edge-agent.conf; a kernel without it needs \
             another snapshotter in the container runtime"
        ),
    )
}

/// Reports whether the kernel loads a module when it is needed.
fn is_loadable(proc: &Path, modules: &Path, name: &str) -> bool {
    let release = fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let directory = modules.join(release.trim());
    let file = format!("/{name}.ko");
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = fs::read_to_string(directory.join(list)).unwrap_or_default();
        text.lines().any(|line| line.contains(&file))
    })
}

fn switch(proc: &Path, switch: &Switch) -> CheckResult {
    let name = switch.path.replace('/', ".");
    let (value, cure) = match fs::read_to_string(proc.join("sys").join(switch.path)) {
        Ok(value) if value.trim() == switch.wanted => {
            return CheckResult::Passed(format!("{name} is {}", switch.wanted));
        }
        Ok(value) => (
            format!("is {}", value.trim()),
            format!(
                "sysctl -w {name}={wanted}, and write {name} = {wanted} to /etc/sysctl.d/99-edge-agent.conf",
                wanted = switch.wanted
            ),
        ),
        Err(_) => (
            "does not exist".to_owned(),
            "modprobe br_netfilter".to_owned(),
        ),
    };
    let what = format!("{name} {value}: {}", switch.effect);
    match switch.is_optional {
        true => CheckResult::Remark(format!("{what}; {cure}")),
        false => CheckResult::warning(what, cure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_reported_with_their_effect() {
        for (systems, modules, forward, bridge, expected) in [
            ("nodev\toverlay\n\text4\n", "", "1", Some("1"), "passed"),
            (
                "\text4\n",
                "kernel/fs/overlayfs/overlay.ko.xz:\n",
                "1",
                Some("1"),
                "passed",
            ),
            ("\text4\n", "", "1", Some("1"), "modprobe overlay"),
            (
                "overlay\n",
                "",
                "0",
                Some("1"),
                "sysctl -w net.ipv4.ip_forward=1",
            ),
            ("overlay\n", "", "1", Some("0"), "remark"),
            ("overlay\n", "", "1", None, "remark"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let proc = directory.path().join("proc");
            let write = |path: &str, text: &str| {
                let path = directory.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("proc/filesystems", systems);
            write("proc/sys/kernel/osrelease", "6.1.0\n");
            write("lib/6.1.0/modules.dep", modules);
            write("proc/sys/net/ipv4/ip_forward", forward);
            if let Some(bridge) = bridge {
                write("proc/sys/net/bridge/bridge-nf-call-iptables", bridge);
            }
            let found = judge(&proc, &directory.path().join("lib")).result;
            let text = match &found {
                CheckResult::Passed(_) => "passed",
                CheckResult::Remark(what) => {
                    assert!(
                        what.contains("br_netfilter") || what.contains("sysctl"),
                        "{what}"
                    );
                    "remark"
                }
                CheckResult::Warning { cure, .. } => cure,
                other => panic!("{other:?}"),
            };
            assert!(text.contains(expected), "{systems:?}: {found:?}");
        }
    }
}
