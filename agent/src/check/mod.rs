//! `edge-agent check`: checks a machine, or a node and its connection to the cloud, and prints the remedy of each failure.
//! `edge-agent join` runs the same checks of the machine before it changes anything.
//!
//! Source: `keadm join` (keadm/cmd/keadm/app/cmd/edge/join.go: EdgeCore does not run, the management directory is clean, the node's
//! name is free), EdgeCore's own start (edge/cmd/edgecore/app/server.go: no kubelet runs), and the contract of `iotedge check`: ids,
//! skipped checks, and warnings apart from errors. keadm finds the rest out by failing: root, the runtime, ports. Swap is allowed, as
//! EdgeCore's `failSwapOn` is off.
//!
//! | part | what |
//! |---|---|
//! | `inputs`, `machine`, `cloud_answer`, `mqtt_client` | what several checks are made from |
//! | `run` | runs the checks of the table `crate::cli::CHECKS` |
//! | `report` | the results, formatted. Pure |
//! | all others | a check each, with its name; `token` is that of `cloud` before joining, `configuration` is `config` |

mod agent;
mod certificate;
mod cgroups;
mod clean;
mod clock;
mod cloud;
mod cloud_answer;
mod cni;
mod configuration;
mod contact;
mod database;
mod disk;
mod disk_speed;
mod dns;
mod files;
mod hub;
mod inputs;
mod kernel;
mod machine;
mod mappers;
mod mqtt;
mod mqtt_client;
mod name;
mod pod_network;
mod pods;
mod ports;
mod pressure;
mod processes;
mod proxy;
mod quic;
mod report;
mod root;
mod run;
mod runtime;
mod streams;
mod token;

use std::{io::Write, path::Path, process::ExitCode};

use serde::Serialize;
use wire::text::printable_lines;

#[cfg(test)]
pub(crate) use self::mqtt_client::Broker;
use self::report::{CheckLine, Counts};
pub(crate) use self::{
    inputs::Inputs,
    machine::{Machine, STREAM_PORT},
    ports::several_busy,
    report::{Report, color},
    run::run_all,
};
use crate::{
    cli::{CHECKS, Check, Stage, checks_of},
    config::{self, Config, Host, Warning},
    one_line,
    terminal::Terminal,
};

/// The result for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    /// The version of this program.
    version: &'static str,
    /// The node's name.
    node: String,
    /// Whether the machine has joined.
    joined: bool,
    /// The results.
    checks: Vec<CheckLine>,
    /// Their number.
    counts: Counts,
}

/// Runs the checks and prints their results on `out`, which `terminal` describes. The exit code reports errors.
///
/// # Errors
/// The results cannot be printed.
pub(crate) fn run(
    check: &Check,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<ExitCode> {
    if check.list {
        list(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checked = runtime.block_on(check_machine(check, out, terminal));
    // a disk that does not respond holds up its thread
    runtime.shutdown_background();
    let counts = checked?;
    let is_bad = counts.error > 0 || check.warnings_as_errors && counts.warning > 0;
    Ok(if is_bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the table of checks.
fn list(out: &mut impl Write) -> std::io::Result<()> {
    let name = |stage: &Stage| match stage {
        Stage::Join => "join",
        Stage::Machine => "machine",
        Stage::Node => "node",
    };
    writeln!(out, "{:<12} {:<18} {:<10} TITLE", "ID", "RUNS IN", "NEEDS")?;
    for entry in CHECKS {
        let stages: Vec<&str> = entry.stages.iter().map(name).collect();
        let needs: Vec<String> = entry.needs.iter().map(|need| need.name()).collect();
        let needs = if needs.is_empty() {
            "-".to_owned()
        } else {
            needs.join(",")
        };
        writeln!(
            out,
            "{:<12} {:<18} {needs:<10} {}",
            entry.name.name(),
            stages.join(","),
            entry.name.title()
        )?;
    }
    out.flush()
}

async fn check_machine(
    check: &Check,
    out: &mut impl Write,
    terminal: Terminal,
) -> anyhow::Result<Counts> {
    let (path, host) = (check.paths.config(), Host::detect());
    let found = Settings::load(check, &path, &host)?;
    let waiting = || "  checking".to_owned();
    // progress must not be mixed with a document
    let checked = Box::pin(check_all(check, &found, &path, &host, terminal.width));
    let (report, document) = match check.output.format {
        Some(_) => checked.await,
        None => terminal.wait(out, waiting, checked).await,
    };
    if let Some(output) = check.output.format {
        out.write_all(output.document(&document)?.as_bytes())?;
    } else {
        match found.stage {
            Stage::Node => writeln!(out, "Checks of node {}:", document.node)?,
            _ => writeln!(out, "Checks of this machine:")?,
        }
        // parts of it come from a cloud or a runtime
        let printed = printable_lines(&report);
        match terminal.is_coloured {
            true => write!(out, "{}", color(&printed))?,
            false => write!(out, "{printed}")?,
        }
    }
    out.flush()?;
    Ok(document.counts)
}

/// Runs all checks for a bug report.
///
/// # Errors
/// There are no default settings.
pub(crate) async fn document(check: &Check) -> anyhow::Result<Document> {
    let (path, host) = (check.paths.config(), Host::detect());
    let found = Settings::load(check, &path, &host)?;
    Ok(Box::pin(check_all(check, &found, &path, &host, None))
        .await
        .1)
}

async fn check_all(
    check: &Check,
    found: &Settings,
    path: &Path,
    host: &Host,
    columns: Option<usize>,
) -> (String, Document) {
    let machine = match found.stage {
        Stage::Node => Machine::of_node(&found.config).await,
        _ => Machine::search(None, None, &check.paths).await,
    };
    let loaded = found.loaded.as_deref();
    let inputs = Inputs::new(
        found.stage,
        &check.paths,
        path,
        &found.config,
        &machine,
        host,
    )
    .with_warnings(loaded);
    let mut report = Report::new(&[]);
    Box::pin(run_all(
        &checks_of(found.stage),
        &check.skip,
        &inputs,
        &mut report,
    ))
    .await;
    let document = Document {
        version: env!("CARGO_PKG_VERSION"),
        node: found.config.node.name.clone(),
        joined: found.stage == Stage::Node,
        checks: report.lines(),
        counts: report.counts(),
    };
    let text = format!("{}{}\n", report.text(columns), report.printed_counts());
    (text, document)
}

/// The configuration of a node, or the default one.
struct Settings {
    stage: Stage,
    config: Config,
    /// The warnings about the configuration, or why it cannot be read.
    loaded: Result<Vec<Warning>, config::Error>,
}

impl Settings {
    /// Reads the configuration. If it is missing, the machine has not joined.
    fn load(check: &Check, path: &Path, host: &Host) -> anyhow::Result<Self> {
        let stage = match path.try_exists() {
            Ok(false) => Stage::Machine,
            // without permission to look, reading reports the reason
            Ok(true) | Err(_) => Stage::Node,
        };
        let failed = if stage == Stage::Node {
            match config::load(path) {
                Ok((config, warnings)) => {
                    return Ok(Self {
                        stage,
                        config,
                        loaded: Ok(warnings),
                    });
                }
                Err(error) => Some(error),
            }
        } else {
            None
        };
        let text = config::relocate(&config::minimal_config(host), |usual| {
            check.paths.in_root(usual)
        })?;
        let (config, _) = config::parse(path, &text, None, host).map_err(one_line)?;
        Ok(Self {
            stage,
            config,
            loaded: failed.map_or_else(|| Ok(Vec::new()), Err),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
