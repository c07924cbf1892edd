//! The agent as a service of systemd: `join` installs it, and `reset` removes it.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

use crate::file::replace;

/// The name of the service.
pub(crate) const UNIT_NAME: &str = "edge-agent.service";
/// The service as the packages install it.
const UNIT: &str = include_str!("../edge-agent.service");
/// The program and the configuration of [`UNIT`].
const PACKAGED: [&str; 2] = ["/usr/bin/edge-agent", "/etc/kubeedge/config/edgecore.yaml"];
/// Where packages install services: `/lib` on machines where it is not `/usr/lib`.
const PACKAGE_DIRS: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];
/// The folder of an administrator's services.
const UNIT_DIR: &str = "/etc/systemd/system";
/// The file with what `join` adds to a package's service, below [`UNIT_DIR`].
const DROP_IN: &str = "edge-agent.service.d/join.conf";
/// This folder exists if systemd runs the machine (sd_booted(3)).
const RUNTIME_DIR: &str = "/run/systemd/system";
/// How long systemctl may take: systemd stops a service by force after 90 s.
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(120);
/// The variables that are copied from the shell that installs the service: the proxy to the cloud.
const ENVIRONMENT: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// Reports whether systemd runs this machine.
pub(crate) fn is_running() -> bool {
    Path::new(RUNTIME_DIR).is_dir()
}

/// A file of the service.
#[derive(Debug, PartialEq)]
pub(crate) struct ServiceFile {
    /// Its path below the folder of an administrator's services.
    name: &'static str,
    text: String,
}

/// Returns the file that makes the service run this program with this configuration, or nothing if the service of a package
/// already does. `variable` reads the environment.
pub(crate) fn service_file(
    program: &Path,
    config: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<ServiceFile> {
    let environment = environment(variable);
    let is_packaged = package_unit().is_some() && [program, config] == PACKAGED.map(Path::new);
    if !is_packaged {
        return Some(ServiceFile {
            name: UNIT_NAME,
            text: unit(program, config, &environment),
        });
    }
    (!environment.is_empty()).then(|| ServiceFile {
        name: DROP_IN,
        text: format!("[Service]\n{environment}"),
    })
}

/// Returns the service that a package installed.
fn package_unit() -> Option<PathBuf> {
    let mut paths = PACKAGE_DIRS
        .iter()
        .map(|folder| Path::new(folder).join(UNIT_NAME));
    paths.find(|path| path.exists())
}

/// Returns the lines that set the variables of [`ENVIRONMENT`].
fn environment(variable: impl Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let given = ENVIRONMENT
        .iter()
        .filter_map(|name| Some(format!("{name}={}", set(name)?)));
    given
        .map(|pair| format!("Environment={}\n", quote(&pair)))
        .collect()
}

/// Returns [`UNIT`] with this program, this configuration and these lines about the environment.
fn unit(program: &Path, config: &Path, environment: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some(("ExecStart", _)) => {
            let (program, config) = (argument(program), argument(config));
            format!("{environment}ExecStart={program} --config {config}\n")
        }
        Some((name @ "ConditionPathExists", _)) => {
            let path = config.to_string_lossy().replace('%', "%%");
            format!("{name}={path}\n")
        }
        _ => format!("{line}\n"),
    };
    UNIT.lines().map(line).collect()
}

/// Quotes a word as systemd reads it (systemd.syntax(7), "Quoting"; systemd.unit(5), "Specifiers").
fn quote(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{escaped}\"")
}

/// Quotes an argument of a command line, where variables are replaced (systemd.service(5), "Command lines").
fn argument(path: &Path) -> String {
    quote(&path.to_string_lossy().replace('$', "$$"))
}

/// Writes the file and starts the service, now and at each boot.
pub(crate) async fn install(file: Option<&ServiceFile>) -> anyhow::Result<()> {
    if let Some(file) = file {
        let path = Path::new(UNIT_DIR).join(file.name);
        let folder = path.parent().unwrap_or(Path::new(UNIT_DIR));
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        // a proxy's password may be in it
        replace(&path, file.text.as_bytes(), 0o600)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", UNIT_NAME]).await?;
    systemctl(&["restart", UNIT_NAME]).await
}

/// Stops the service and removes what `join` wrote; returns what was done, if there was a service. That of a package stays,
/// disabled.
pub(crate) async fn uninstall() -> anyhow::Result<Option<&'static str>> {
    let folder = Path::new(UNIT_DIR);
    let written = [UNIT_NAME, DROP_IN].map(|name| folder.join(name));
    if package_unit().is_none() && !written.iter().any(|path| path.exists()) {
        return Ok(None);
    }
    if is_running() {
        systemctl(&["disable", "--now", UNIT_NAME]).await?;
    }
    for path in &written {
        remove(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    // another one's drop-in may be there
    let _ = std::fs::remove_dir(folder.join(DROP_IN).with_file_name(""));
    if is_running() {
        systemctl(&["daemon-reload"]).await?;
    }
    Ok(Some(match package_unit() {
        Some(_) => "stopped and disabled",
        None => "stopped and removed",
    }))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let line = format!("systemctl {}", arguments.join(" "));
    let mut command = Command::new("systemctl");
    command.args(arguments).kill_on_drop(true);
    let done = timeout(SYSTEMCTL_TIMEOUT, command.output()).await;
    let done = done.with_context(|| {
        format!(
            "`{line}` did not finish within {} s",
            SYSTEMCTL_TIMEOUT.as_secs()
        )
    })?;
    let done = done.with_context(|| format!("`{line}` cannot be run"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!(
            "`{line}`: {}; `journalctl -u {UNIT_NAME}` may show more",
            said.trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_runs_this_program_with_this_configuration_and_the_way_to_the_cloud() {
        let proxy =
            |name: &str| (name == "HTTPS_PROXY").then(|| "http://a:100%@proxy:3128".to_owned());
        let file = service_file(
            Path::new("/opt/my agent"),
            Path::new("/etc/a\"b.yaml"),
            proxy,
        )
        .unwrap();
        assert_eq!(file.name, UNIT_NAME);
        let text = file.text;
        for line in [
            "ExecStart=\"/opt/my agent\" --config \"/etc/a\\\"b.yaml\"",
            "Environment=\"HTTPS_PROXY=http://a:100%%@proxy:3128\"",
            "ConditionPathExists=/etc/a\"b.yaml",
            "KillMode=process",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(text.matches("Environment=").count(), 1);
    }

    #[test]
    fn the_service_of_packages_runs_their_program_with_the_usual_configuration() {
        let [program, config] = PACKAGED;
        let line = format!("ExecStart={program} --config {config}");
        assert!(UNIT.lines().any(|found| found == line));
        assert!(
            UNIT.lines()
                .any(|found| found == format!("ConditionPathExists={config}"))
        );
    }
}
