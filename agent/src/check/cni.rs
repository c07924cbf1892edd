//! Check `cni`: the configuration of the pod network, and its plugins.
//!
//! Source: the CNI specification 1.1 and libcni, which uses the first file by name.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use edged::CniDirectories;
use limits::read_regular_text;
use serde_json::Value;

use super::{
    inputs::Inputs,
    pod_network,
    report::{CheckResult, Finding},
};

/// The largest configuration that is read, bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// The endings of configurations.
const ENDINGS: [&str; 3] = ["conf", "conflist", "json"];
/// The cure of a missing network.
const INSTALL: &str = "install a CNI plugin (Debian: apt-get install containernetworking-plugins) and write its configuration \
                       (example: /usr/share/doc/edge-agent/examples/10-bridge.conflist)";
/// The cure of a missing configuration.
const CONFIGURE: &str = "write a configuration there (example: /usr/share/doc/edge-agent/examples/10-bridge.conflist), and restart the \
                         container runtime";
/// The cure of a configuration that the runtime has not read. containerd ignores files that are moved to the directory.
const RESTART: &str = "restart the container runtime, which may not have read this file: systemctl restart containerd; if that does not \
                       help, correct the file";
/// The plugin that an installation has at least.
const USUAL_PLUGIN: &str = "bridge";

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    if inputs.machine.is_simulated() {
        let why = "the simulated runtime has its own network";
        return CheckResult::NotApplicable(why.into()).into();
    }
    let runtimes = || inputs.machine.answering();
    let reported = runtimes().find_map(|(_, found)| found.cni.clone());
    let finding = judge(&reported.unwrap_or_else(|| CniDirectories {
        config: "/etc/cni/net.d".into(),
        plugins: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
    }));
    let failed = runtimes().find_map(|(_, found)| found.network.as_deref());
    if let (CheckResult::Passed(what), Some(why)) = (&finding.result, failed) {
        return unread(what, why).into();
    }
    if !inputs.is_node() || !matches!(finding.result, CheckResult::Passed(_)) {
        return finding;
    }
    let Ok(status) = inputs.agent_status().await else {
        return finding;
    };
    match pod_network::judge(&status.pods).await {
        Some(reached) => Finding::combine(vec![finding.result.clone(), reached], finding.result),
        None => finding,
    }
}

/// Returns the result if the runtime has no pod network, despite of a correct configuration.
fn unread(what: &str, why: &str) -> CheckResult {
    let what = format!("{what}; but the container runtime has no pod network: {why}");
    CheckResult::bad(what, RESTART)
}

fn judge(directories: &CniDirectories) -> Finding {
    let folder = directories.config.display();
    let Some(file) = first_configuration(&directories.config) else {
        let is_installed = is_installed(USUAL_PLUGIN, &directories.plugins);
        return CheckResult::warning(
            format!("no network configuration in {folder}: only pods with hostNetwork start"),
            if is_installed { CONFIGURE } else { INSTALL },
        )
        .into();
    };
    let name = file.display();
    let plugins = match plugins(&file) {
        Ok(plugins) => plugins,
        Err(why) => {
            let cure = format!("correct or remove {name}; the runtime uses the first file by name");
            return CheckResult::bad(format!("{name}: {why}"), cure).into();
        }
    };
    let parts = plugins
        .iter()
        .map(|plugin| judge_plugin(plugin, &name.to_string(), &directories.plugins))
        .collect();
    let none = CheckResult::bad(format!("{name} has no plugins"), INSTALL);
    let mut finding = Finding::combine(parts, none);
    if matches!(finding.result, CheckResult::Passed(_)) {
        finding.result = CheckResult::Passed(format!("{name}: {}", plugins.join(", ")));
    }
    finding
}

/// Reports whether one of the directories has the plugin.
fn is_installed(plugin: &str, directories: &[PathBuf]) -> bool {
    let is_program = |path: PathBuf| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let is_name = !plugin.is_empty() && !plugin.contains('/');
    is_name && directories.iter().any(|one| is_program(one.join(plugin)))
}

fn judge_plugin(plugin: &str, file: &str, directories: &[PathBuf]) -> CheckResult {
    if is_installed(plugin, directories) {
        return CheckResult::Passed(format!("plugin {plugin} is installed"));
    }
    let all: Vec<String> = directories
        .iter()
        .map(|one| one.display().to_string())
        .collect();
    CheckResult::bad(
        format!(
            "{file} uses the plugin {plugin}, which is not in {}: pods without hostNetwork do not start",
            all.join(", ")
        ),
        "install the plugin there (Debian: apt-get install containernetworking-plugins)",
    )
}

/// Returns the configuration that runtimes use.
fn first_configuration(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let is_configuration = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending))
    };
    entries
        .map(|entry| entry.path())
        .filter(is_configuration)
        .min()
}

/// Returns the plugins that a configuration uses.
fn plugins(file: &Path) -> Result<Vec<String>, String> {
    let text = read_regular_text(file, MAX_BYTES).map_err(|error| error.to_string())?;
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("invalid JSON: {error}"))?;
    let of = |one: &Value| one.get("type").and_then(Value::as_str).map(str::to_owned);
    let names = match document.get("plugins").and_then(Value::as_array) {
        Some(list) => list.iter().map(of).collect(),
        None => Some(vec![of(&document).unwrap_or_default()]),
    };
    names
        .filter(|names: &Vec<String>| names.iter().all(|name| !name.is_empty()))
        .ok_or_else(|| "a plugin has no type".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_and_plugins_are_judged_as_runtimes_use_them() {
        let list = r#"{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}"#;
        let one = r#"{"cniVersion": "1.0.0", "name": "x", "type": "bridge"}"#;
        for (files, plugins, expected) in [
            (
                vec![("10-x.conflist", list)],
                vec!["bridge", "portmap"],
                "bridge, portmap",
            ),
            (vec![("10-x.conf", one)], vec!["bridge"], "bridge"),
            (
                vec![("10-x.conflist", list)],
                vec!["bridge"],
                "uses the plugin portmap",
            ),
            (vec![("10-x.conflist", "{")], vec!["bridge"], "invalid JSON"),
            (
                vec![("10-x.conflist", "{}")],
                vec!["bridge"],
                "a plugin has no type",
            ),
            (
                vec![("10-x.conflist", r#"{"plugins": []}"#)],
                vec![],
                "has no plugins",
            ),
            (
                vec![("05-x.conf", "{"), ("10-x.conf", one)],
                vec!["bridge"],
                "05-x.conf",
            ),
            (
                vec![("README", "no configuration")],
                vec!["bridge"],
                "no network configuration",
            ),
            (vec![], vec!["bridge"], "no network configuration"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let (config, bin) = (directory.path().join("net.d"), directory.path().join("bin"));
            fs::create_dir(&config).unwrap();
            fs::create_dir(&bin).unwrap();
            for (name, text) in &files {
                fs::write(config.join(name), text).unwrap();
            }
            for plugin in plugins {
                fs::write(bin.join(plugin), "").unwrap();
                fs::set_permissions(bin.join(plugin), fs::Permissions::from_mode(0o755)).unwrap();
            }
            let found = judge(&CniDirectories {
                config,
                plugins: vec![bin],
            });
            let (what, cure) = found.result.texts();
            assert!(what.contains(expected), "{files:?}: {what}");
            let is_good = matches!(found.result, CheckResult::Passed(_));
            assert_ne!(is_good, cure.is_some(), "{files:?}: {found:?}");
        }
    }

    #[test]
    fn network_that_the_runtime_lacks_despite_its_file_is_an_error() {
        let found = unread("10-x.conflist: bridge", "cni plugin not initialized");
        let (what, cure) = found.texts();
        assert!(
            what.ends_with("no pod network: cni plugin not initialized"),
            "{what}"
        );
        assert!(cure.is_some_and(|cure| cure.contains("systemctl restart")));
    }

    #[test]
    fn cure_of_a_missing_configuration_depends_on_the_plugins() {
        let directory = tempfile::tempdir().unwrap();
        let plugin = directory.path().join(USUAL_PLUGIN);
        for (is_there, expected) in [(false, INSTALL), (true, CONFIGURE)] {
            if is_there {
                fs::write(&plugin, "").unwrap();
                fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let found = judge(&CniDirectories {
                config: directory.path().join("net.d"),
                plugins: vec![directory.path().to_owned()],
            });
            assert_eq!(found.result.texts().1, Some(expected));
        }
    }
}
