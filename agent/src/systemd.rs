//! The agent as a service of systemd: what `join` installs and `reset` takes away.

use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

use crate::rt::file::replace;

/// What the service is called.
pub(crate) const UNIT: &str = "edge-agent.service";
/// Where an administrator's services are.
const FOLDER: &str = "/etc/systemd/system";
/// There where systemd runs the machine (sd_booted(3)).
const RUNS: &str = "/run/systemd/system";
/// systemd stops a service by force after 90 s.
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(120);
/// What a service does not have from the shell that installed it: the way to the cloud.
const ENVIRONMENT: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// Whether systemd runs this machine.
pub(crate) fn is_running() -> bool {
    Path::new(RUNS).is_dir()
}

/// The service's text. `variable` looks into the environment.
pub(crate) fn unit(program: &Path, config: &Path, variable: impl Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let given = ENVIRONMENT.iter().filter_map(|name| Some(format!("{name}={}", set(name)?)));
    let environment: String = given.map(|pair| format!("Environment={}\n", quoted(&pair))).collect();
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

/// As systemd reads it (systemd.syntax(7), "Quoting"; systemd.unit(5), "Specifiers").
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

/// The same in a command line, where variables are replaced (systemd.service(5), "Command lines").
fn argument(path: &Path) -> String {
    quoted(&path.to_string_lossy().replace('$', "$$"))
}

/// Writes the service and starts it, now and at each boot.
pub(crate) async fn install(text: &str) -> anyhow::Result<()> {
    let path = Path::new(FOLDER).join(UNIT);
    // a proxy's password may be in it
    replace(&path, text.as_bytes(), 0o600)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", UNIT]).await?;
    systemctl(&["restart", UNIT]).await
}

/// Stops the service and removes it; whether there was one.
pub(crate) async fn uninstall() -> anyhow::Result<bool> {
    let path = Path::new(FOLDER).join(UNIT);
    if !path.exists() {
        return Ok(false);
    }
    if is_running() {
        systemctl(&["disable", "--now", UNIT]).await?;
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
    let done =
        done.with_context(|| format!("`{line}` takes longer than {} s", SYSTEMCTL_TIMEOUT.as_secs()))?;
    let done = done.with_context(|| format!("`{line}` cannot be run"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("`{line}`: {}; `journalctl -u {UNIT}` may say more", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_runs_this_program_with_this_configuration_and_the_way_to_the_cloud() {
        let proxy = |name: &str| (name == "HTTPS_PROXY").then(|| "http://a:100%@proxy:3128".to_owned());
        let text = unit(Path::new("/opt/my agent"), Path::new("/etc/a\"b.yaml"), proxy);
        assert!(text.contains("ExecStart=\"/opt/my agent\" --config \"/etc/a\\\"b.yaml\"\n"), "{text}");
        assert!(text.contains("Environment=\"HTTPS_PROXY=http://a:100%%@proxy:3128\"\n"), "{text}");
        assert_eq!(text.matches("Environment=").count(), 1);
    }
}
