//! The agent as a service of systemd: `join` installs it, and `reset` removes it.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
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
/// The file with what `join` adds to the service, below [`UNIT_DIR`].
const DROP_IN: &str = "edge-agent.service.d/join.conf";
/// The file of variables that [`DROP_IN`] names. Users can read the environment that a unit sets, but not a file of mode 0600.
const ENVIRONMENT_FILE: &str = "edge-agent.service.d/join.env";
/// The program that a package's removal keeps for its purge, and the mark that the service was enabled.
const REMOVAL_FILES: [&str; 2] = ["/var/lib/edge-agent/reset", "/var/lib/edge-agent/enabled"];
/// The exit code of `systemctl stop` if the unit is not loaded (systemctl(1), "Exit status").
const NOT_LOADED: i32 = 5;
/// This folder exists if systemd runs the machine (sd_booted(3)).
const RUNTIME_DIR: &str = "/run/systemd/system";
/// How long systemctl may take: systemd stops a service by force after 90 s.
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(120);
/// The variables that are copied from the shell that installs the service: the proxy to the cloud.
const ENVIRONMENT: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// The file of variables that packages name in [`UNIT`].
const DEFAULTS: &str = "/etc/default/edge-agent";

/// Returns the file in which the variables of the service are set: that of `join`, if it wrote one, because it is read last.
pub(crate) fn environment_file() -> PathBuf {
    let written = Path::new(UNIT_DIR).join(ENVIRONMENT_FILE);
    match written.exists() {
        true => written,
        false => DEFAULTS.into(),
    }
}

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

/// Returns the files that make the service run this program with this configuration and the proxy to the cloud; none if the
/// service of a package does so without them. `variable` reads the environment.
pub(crate) fn service_files(
    program: &Path,
    config: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<ServiceFile> {
    let is_packaged = package_unit().is_some() && [program, config] == PACKAGED.map(Path::new);
    let unit = (!is_packaged).then(|| ServiceFile {
        name: UNIT_NAME,
        text: unit(program, config),
    });
    let environment = environment(variable);
    let added = (!environment.is_empty()).then(|| {
        let file = Path::new(UNIT_DIR).join(ENVIRONMENT_FILE);
        let drop_in = ServiceFile {
            name: DROP_IN,
            text: format!("[Service]\nEnvironmentFile={}\n", file.display()),
        };
        let variables = ServiceFile {
            name: ENVIRONMENT_FILE,
            text: environment,
        };
        [variables, drop_in]
    });
    unit.into_iter()
        .chain(added.into_iter().flatten())
        .collect()
}

/// Returns the service that a package installed.
fn package_unit() -> Option<PathBuf> {
    let mut paths = PACKAGE_DIRS
        .iter()
        .map(|folder| Path::new(folder).join(UNIT_NAME));
    paths.find(|path| path.exists())
}

/// Returns the lines of a file that sets the variables of [`ENVIRONMENT`] (systemd.exec(5), "EnvironmentFile").
fn environment(variable: impl Fn(&str) -> Option<String>) -> String {
    let line = |name: &&str| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        let mut escaped = String::new();
        for letter in value.chars() {
            if matches!(letter, '"' | '\\' | '`' | '$') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        Some(format!("{name}=\"{escaped}\"\n"))
    };
    ENVIRONMENT.iter().filter_map(line).collect()
}

/// Returns [`UNIT`] with this program and this configuration.
fn unit(program: &Path, config: &Path) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some(("ExecStart", _)) => {
            let (program, config) = (argument(program), argument(config));
            format!("ExecStart={program} --config {config}\n")
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

/// Writes the files and starts the service, now and at each boot.
pub(crate) async fn install(files: &[ServiceFile]) -> anyhow::Result<()> {
    for file in files {
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
    let written = [UNIT_NAME, DROP_IN, ENVIRONMENT_FILE].map(|name| folder.join(name));
    if package_unit().is_none() && !written.iter().any(|path| path.exists()) {
        return Ok(None);
    }
    if is_running() {
        stop(package_unit().is_some() || written[0].exists()).await?;
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

/// Stops the service. A package's removal deletes its unit, which cannot be disabled then, while the drop-in of `join` stays.
async fn stop(has_unit: bool) -> anyhow::Result<()> {
    if has_unit {
        return systemctl(&["disable", "--now", UNIT_NAME]).await;
    }
    match run_systemctl(&["stop", UNIT_NAME]).await? {
        Err(failed) if failed.code != Some(NOT_LOADED) => Err(failed.into()),
        _ => Ok(()),
    }
}

/// Removes what the removal of a package has kept for its purge. Returns the failures.
pub(crate) fn remove_kept_files() -> Vec<String> {
    let failed = REMOVAL_FILES.iter().filter_map(|path| {
        let error = remove(Path::new(path)).err()?;
        Some(format!("{path}: {error}"))
    });
    let failed = failed.collect();
    if let Some(folder) = Path::new(REMOVAL_FILES[0]).parent() {
        // other files stay
        let _ = std::fs::remove_dir(folder);
    }
    failed
}

/// Reports whether this process is the program that a package's removal has kept for its purge.
pub(crate) fn is_kept_program() -> bool {
    std::env::current_exe().is_ok_and(|program| program == Path::new(REMOVAL_FILES[0]))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// systemctl has failed.
#[derive(Debug, thiserror::Error)]
#[error("`{line}`: {cause}; `journalctl -u {UNIT_NAME}` may show more")]
struct SystemctlError {
    line: String,
    cause: String,
    code: Option<i32>,
}

async fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    Ok(run_systemctl(arguments).await??)
}

async fn run_systemctl(arguments: &[&str]) -> anyhow::Result<Result<(), SystemctlError>> {
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
    if done.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err(SystemctlError {
        cause: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        code: done.status.code(),
        line,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_runs_this_program_with_this_configuration() {
        let none = |_: &str| None;
        let files = service_files(
            Path::new("/opt/my agent"),
            Path::new("/etc/a\"b.yaml"),
            none,
        );
        let [file] = files.as_slice() else {
            panic!("{files:?}")
        };
        assert_eq!(file.name, UNIT_NAME);
        for line in [
            "ExecStart=\"/opt/my agent\" --config \"/etc/a\\\"b.yaml\"",
            "ConditionPathExists=/etc/a\"b.yaml",
            "KillMode=process",
        ] {
            let text = &file.text;
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn password_of_the_proxy_is_in_a_file_that_others_cannot_read() {
        let proxy =
            |name: &str| (name == "HTTPS_PROXY").then(|| r#"http://a:1%"$\@proxy:3128"#.to_owned());
        let files = service_files(Path::new("/opt/agent"), Path::new("/etc/a.yaml"), proxy);
        let [unit, variables, drop_in] = files.as_slice() else {
            panic!("{files:?}")
        };
        assert!(!unit.text.contains("proxy:3128"), "{}", unit.text);
        assert_eq!(
            variables.text,
            "HTTPS_PROXY=\"http://a:1%\\\"\\$\\\\@proxy:3128\"\n"
        );
        assert_eq!(
            drop_in.text,
            format!("[Service]\nEnvironmentFile={UNIT_DIR}/{}\n", variables.name)
        );
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
