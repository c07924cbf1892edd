//! The agent as a service of systemd: `join` installs it, and `reset` removes it.

use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

use crate::file::replace;

/// The name of the service.
pub(crate) const UNIT_NAME: &str = "edge-agent.service";
/// The folder of an administrator's services.
const UNIT_DIR: &str = "/etc/systemd/system";
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

/// Returns the text of the service. `variable` reads the environment.
pub(crate) fn unit(
    program: &Path,
    config: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let given = ENVIRONMENT
        .iter()
        .filter_map(|name| Some(format!("{name}={}", set(name)?)));
    let environment: String = given
        .map(|pair| format!("Environment={}\n", quote(&pair)))
        .collect();
    format!(
        "[Unit]\n\
         Description=KubeEdge edge node agent\n\
         Wants=network-online.target\n\
         After=network-online.target containerd.service crio.service\n\
         # it is to be there whatever happens\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         ExecStart={} --config {}\n\
         {environment}\
         Restart=always\n\
         RestartSec=5\n\
         # containers go on without the agent\n\
         KillMode=process\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        argument(program),
        argument(config),
    )
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

/// Writes the service and starts it, now and at each boot.
pub(crate) async fn install(text: &str) -> anyhow::Result<()> {
    let path = Path::new(UNIT_DIR).join(UNIT_NAME);
    // a proxy's password may be in it
    replace(&path, text.as_bytes(), 0o600)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", UNIT_NAME]).await?;
    systemctl(&["restart", UNIT_NAME]).await
}

/// Stops and removes the service; returns whether there was one.
pub(crate) async fn uninstall() -> anyhow::Result<bool> {
    let path = Path::new(UNIT_DIR).join(UNIT_NAME);
    if !path.exists() {
        return Ok(false);
    }
    if is_running() {
        systemctl(&["disable", "--now", UNIT_NAME]).await?;
    }
    remove(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
    if is_running() {
        systemctl(&["daemon-reload"]).await?;
    }
    Ok(true)
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
        let text = unit(
            Path::new("/opt/my agent"),
            Path::new("/etc/a\"b.yaml"),
            proxy,
        );
        assert!(
            text.contains("ExecStart=\"/opt/my agent\" --config \"/etc/a\\\"b.yaml\"\n"),
            "{text}"
        );
        assert!(
            text.contains("Environment=\"HTTPS_PROXY=http://a:100%%@proxy:3128\"\n"),
            "{text}"
        );
        assert_eq!(text.matches("Environment=").count(), 1);
    }
}
