//! `edge-agent join`: makes a machine a node.
//!
//! It checks the machine and the cloud, and reports all failures with their cures without changing anything. If all checks
//! pass, it writes edgecore.yaml, gets the node's certificate with the token, which is never written to disk, and starts the
//! agent: as a service if systemd runs the machine, in this process otherwise.
//!
//! | part | what |
//! |---|---|
//! | `settings` | edgecore.yaml from the options and the machine. Pure |
//! | [`mod@crate::check`] | the conditions for joining |

mod settings;

#[cfg(test)]
pub(crate) use self::settings::edgecore_yaml;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use wire::text::count;

use crate::{
    app,
    check::{self, Inputs, Machine, Report},
    cli::{Join, Stage, checks_of, shell_word},
    config::{self, Config, Host},
    edgehub,
    file::{missing_directory, replace},
    one_line, systemd,
    terminal::Terminal,
};

/// What to do after the machine has joined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterJoin {
    /// Nothing.
    Done,
    /// Run the agent in this process with this configuration.
    Run(PathBuf),
}

/// Joins the cluster; progress goes to `out`, which `terminal` describes.
///
/// # Errors
/// A check has failed, the cloud issues no certificate, or the service does not start.
pub(crate) fn run(
    join: &Join,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<AfterJoin> {
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(join_machine(join, out, terminal))
}

async fn join_machine(
    join: &Join,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<AfterJoin> {
    let token = token(&join.token, &mut std::io::stdin().lock())?;
    let path = join.paths.config();
    let host = Host::detect();
    // invalid options are reported before the machine and the cloud are asked
    configuration(join, &host, &Machine::assumed(join), &token)?;
    writeln!(out, "Checking this machine and {}:", join.cloud)?;
    let inspecting = || "  inspecting the container runtime".to_owned();
    let machine = terminal.wait(out, inspecting, Machine::inspect(join)).await;
    let (text, config) = configuration(join, &host, &machine, &token)?;
    let mut report = Report::new(&join.ignore_checks);
    let stage = Stage::Join;
    let inputs = Inputs::new(stage, &join.paths, &path, &config, &machine, &host).with_join(join);
    let connecting = || format!("  connecting to {}", join.cloud);
    let checks = checks_of(stage);
    let checks = Box::pin(check::run_all(&checks, &[], &inputs, &mut report));
    terminal.wait(out, connecting, checks).await;
    // parts of it come from a cloud or a runtime
    let printed = wire::text::printable_lines(&report.text(terminal.width));
    match terminal.is_coloured {
        true => write!(out, "{}", check::color(&printed))?,
        false => write!(out, "{printed}")?,
    }
    out.flush()?;
    if let failed @ 1.. = report.failure_count() {
        bail!("{} failed; nothing was changed", count(failed, "check"));
    }
    let tls = &config.edge_hub.tls;
    let files = [&path, &tls.ca, &tls.cert, &tls.key];
    let created: BTreeSet<PathBuf> = files
        .into_iter()
        .filter_map(|file| missing_directory(file.parent()?))
        .collect();
    let enrolled = Box::pin(enroll(&config, &path, &text, &created));
    let requesting = || "  requesting the node's certificate".to_owned();
    terminal.wait(out, requesting, enrolled).await?;
    writeln!(
        out,
        "This machine is node {} of {}.",
        config.node.name, join.cloud
    )?;
    for directory in &created {
        writeln!(out, "  created        {}", directory.display())?;
    }
    writeln!(out, "  configuration  {}", path.display())?;
    writeln!(out, "  certificate    {}", tls.cert.display())?;
    writeln!(
        out,
        "  undo           {} reset{}",
        program(),
        join.paths.options()
    )?;
    start(join, path, out, terminal).await
}

/// Returns the text of the configuration, and what it sets.
///
/// # Errors
/// An option has an invalid value.
fn configuration(
    join: &Join,
    host: &Host,
    machine: &Machine,
    token: &str,
) -> anyhow::Result<(String, Config)> {
    let text = settings::edgecore_yaml(join, host, machine)?;
    let parsed = config::parse(&join.paths.config(), &text, Some(token.to_owned()), host);
    let (config, _) = parsed.map_err(config_error)?;
    Ok((text, config))
}

/// Converts errors of the generated configuration to an error for the command line.
fn config_error(error: config::Error) -> anyhow::Error {
    match error {
        config::Error::Invalid { errors, .. } => {
            let line = |error: &config::FieldError| {
                format!("\n  {}: {}", option_or_setting(&error.path), error.message)
            };
            anyhow::anyhow!(
                "invalid options:{}",
                errors.iter().map(line).collect::<String>()
            )
        }
        error => one_line(error),
    }
}

/// Names the option of `edge-agent join` for a setting, or else the setting.
fn option_or_setting(path: &str) -> &str {
    const OPTIONS: [(&str, &str); 12] = [
        ("modules.edgeHub.token", "--token"),
        ("modules.edgeHub.httpServer", "--cloud"),
        ("modules.edgeHub.websocket.server", "--cloud"),
        ("modules.edgeStream.server", "--cloud"),
        ("modules.edged.hostnameOverride", "--name"),
        ("modules.edged.nodeIP", "--node-ip"),
        ("modules.edged.nodeLabels", "--labels"),
        (
            "modules.edged.tailoredKubeletConfig.containerRuntimeEndpoint",
            "--runtime-endpoint",
        ),
        (
            "modules.edged.tailoredKubeletConfig.cgroupDriver",
            "--cgroup-driver",
        ),
        (
            "modules.edged.tailoredKubeletConfig.readOnlyPort",
            "--read-only-port",
        ),
        ("modules.eventBus.mqttServerExternal", "--mqtt-port"),
        ("modules.eventBus.mqttServerInternal", "--mqtt-port"),
    ];
    let of = |setting: &str| {
        path.strip_prefix(setting)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let found = OPTIONS.iter().find(|(setting, _)| of(setting));
    found.map_or(path, |(_, option)| option)
}

/// Returns the token, or the first line of stdin.
fn token(given: &str, stdin: &mut impl Read) -> anyhow::Result<String> {
    /// The longest token that is read, bytes.
    const MAX_TOKEN_BYTES: u64 = 64 * 1024;
    if given != "-" {
        return Ok(given.trim().to_owned());
    }
    let mut line = String::new();
    stdin
        .take(MAX_TOKEN_BYTES)
        .read_to_string(&mut line)
        .context("cannot read the token from stdin")?;
    Ok(line.trim().to_owned())
}

/// Writes the configuration and gets the certificate; on an error, everything that is new is removed, with these directories.
async fn enroll(
    config: &Config,
    path: &Path,
    text: &str,
    directories: &BTreeSet<PathBuf>,
) -> anyhow::Result<()> {
    let tls = &config.edge_hub.tls;
    // a CA may have been there before
    let files = [path, &tls.ca, &tls.cert, &tls.key].map(|file| (file, file.exists()));
    let enrolled = request_certificate(config, path, text).await;
    if enrolled.is_err() {
        let new = files.iter().filter(|(_, existed)| !existed);
        for (file, _) in new {
            remove_new(file, directories);
        }
    }
    enrolled
}

/// Removes a file, if it exists, and those of these directories that are empty then.
fn remove_new(file: &Path, directories: &BTreeSet<PathBuf>) {
    // the first error of the join is reported; this one would add nothing
    let _ = fs::remove_file(file);
    let parents = file.ancestors().skip(1);
    let is_new = |parent: &&Path| directories.iter().any(|new| parent.starts_with(new));
    for parent in parents.take_while(is_new) {
        let _ = fs::remove_dir(parent);
    }
}

async fn request_certificate(config: &Config, path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text.as_bytes(), 0o600)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let enrolled = edgehub::enroll(&app::hub_config(config)?).await;
    enrolled.map_err(|error| {
        let (what, remedy) = (error.what(), error.join_remedy());
        anyhow::anyhow!("cannot get a certificate from the cloud: {what}; {remedy}")
    })
}

/// Returns the path of this program, for a shell.
fn program() -> String {
    std::env::current_exe().map_or_else(|_| "edge-agent".to_owned(), |path| shell_word(&path))
}

async fn start(
    join: &Join,
    path: PathBuf,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<AfterJoin> {
    if join.no_start {
        writeln!(
            out,
            "Start it with: {} --config {}",
            program(),
            shell_word(&path)
        )?;
        return Ok(AfterJoin::Done);
    }
    // one machine has one service; an agent in its own folder is for trials
    if join.foreground || !join.paths.is_system_wide() || !systemd::is_running() {
        writeln!(out, "The agent runs here until Ctrl-C.")?;
        out.flush()?;
        return Ok(AfterJoin::Run(path));
    }
    let program = std::env::current_exe()
        .context("cannot find the path of this program for the systemd unit")?;
    let files = systemd::service_files(&program, &path, |name| std::env::var(name).ok());
    let starting = || "  starting the service".to_owned();
    terminal
        .wait(out, starting, systemd::install(&files))
        .await?;
    writeln!(
        out,
        "The agent runs as a service: journalctl -u {} -f",
        systemd::UNIT_NAME
    )?;
    Ok(AfterJoin::Done)
}

#[cfg(test)]
mod tests;
