//! The subcommands of `cloudsim`.

mod clouds;
mod cluster;
mod connect;
mod db;
mod demo;
mod destination;
mod detach;
mod devices;
mod directories;
mod environment;
mod faults;
mod hollow;
mod join_line;
mod listing;
mod mesh;
mod node;
mod nodes;
mod paste;
mod ready_screen;
mod remote;
mod roles;
mod rules;
mod run;
mod running;
mod runtime;
mod screen;
mod selftest;
mod table;
mod token;
mod up;

use std::{io::Write, panic::set_hook, process::ExitCode, time::Duration};

use agent::{
    log::{self, LogFormat},
    signals::{DrainError, Signals},
};
use anyhow::Context;
use clap::CommandFactory;
use cloudsim::Cloud;
use serde::Serialize;
use tokio::time::timeout;
use wire::text::printable_lines;

use self::{connect::explain, running::Records};
use crate::{
    cli::{Access, Cli, Command, Output},
    fleet::Fleet,
};

/// Runs the command.
pub fn run(cli: Cli) -> ExitCode {
    let format = cli.log_format;
    match start(cli) {
        Ok(code) => code,
        Err(error) => {
            log::fatal("cloudsim", format, &error);
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    let throttle = log::init(cli.log_filter(), cli.log_format)
        .context("invalid log filter; write LEVEL or MODULE=LEVEL")?;
    if cli.log_format == LogFormat::Json {
        set_hook(Box::new(|panic| {
            log::report_panic(panic);
        }));
    }
    if let Command::Completion { shell } = cli.command {
        // The script is written to memory first, because the generator panics on a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "cloudsim", &mut script);
        let _ = std::io::stdout().write_all(&script);
        return Ok(ExitCode::SUCCESS);
    }
    if matches!(cli.command, Command::Version) {
        print_line(&Cli::version());
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = limits::raise_open_files() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    // There is only one crypto provider; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("no threads could be started")?;
    let ended = runtime.block_on(async {
        tokio::spawn(log::report_left_out(throttle));
        match cli.command {
            Command::Up(options) => Box::pin(up::run(options)).await,
            Command::Status { access, list } => {
                clouds::status(&access, &list, &Records::of_user()).await
            }
            Command::Down { access, all } => clouds::down(&access, all, &Records::of_user()).await,
            Command::Kubeconfig { access } => clouds::kubeconfig(&access, &Records::of_user()),
            Command::Db(command) => db::run(&command).await,
            Command::Token {
                access,
                output,
                scope,
            } => on_cloud(&access, token::run(&access, output, scope).await),
            Command::Devices {
                access,
                list,
                command,
            } => on_cloud(&access, devices::run(&access, list, command).await),
            Command::Nodes {
                access,
                list,
                command,
            } => on_cloud(&access, nodes::run(&access, list, command).await),
            Command::Mesh { access, list } => on_cloud(&access, mesh::run(&access, &list).await),
            Command::Rules {
                access,
                list,
                command,
            } => rules::run(&access, list, command)
                .await
                .map_err(explain(&access)),
            Command::Faults {
                access,
                output,
                command,
            } => on_cloud(&access, faults::run(&access, output, command).await),
            Command::Run(options) => run::run(options).await,
            Command::Runtime { socket, root } => runtime::run(&socket, root)
                .await
                .map(|()| ExitCode::SUCCESS),
            Command::Demo {
                once,
                manifests,
                kubeconfig,
            } => demo::run(once, manifests.as_deref(), kubeconfig.as_deref()).await,
            Command::Hollow(options) => hollow::run(options).await.map(|()| ExitCode::SUCCESS),
            Command::Selftest(options) => selftest::run(options).await,
            Command::Roles { install_crds } => roles::run(install_crds).map(|()| ExitCode::SUCCESS),
            Command::Completion { .. } | Command::Version => Ok(ExitCode::SUCCESS),
        }
    });
    if ended
        .as_ref()
        .is_err_and(|error: &anyhow::Error| error.is::<DrainError>())
    {
        // The runtime's drop would wait for a blocked thread.
        runtime.shutdown_background();
    }
    ended
}

/// Returns the exit code of a command for the cloud of a kubeconfig.
fn on_cloud(access: &Access, ended: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    ended.map(|()| ExitCode::SUCCESS).map_err(explain(access))
}

/// How long the agents of this process may take to stop.
const FLEET_TIMEOUT: Duration = Duration::from_millis(600);

/// Stops the nodes and the cloud.
async fn stop(fleet: Option<Fleet>, cloud: Cloud, signals: &mut Signals) -> anyhow::Result<()> {
    let stopping = async {
        if let Some(fleet) = fleet {
            stop_fleet(fleet).await;
        }
        cloud.stop().await
    };
    Ok(signals.drain(stopping).await??)
}

/// Returns the known name that was probably meant, in parentheses; nothing if none is near.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = agent::config::nearest(name, known);
    near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Stops the nodes. Agents that take longer than a moment end with the program, as in a power cut, which loses nothing.
async fn stop_fleet(fleet: Fleet) {
    let _ = timeout(FLEET_TIMEOUT, fleet.stop()).await;
}

/// Prints a document for programs.
fn print(output: Output, value: &impl Serialize) -> anyhow::Result<()> {
    print_line(output.document(value)?.trim_end());
    Ok(())
}

/// Prints a warning to stderr, so that programs read only the answer on stdout.
fn warn(line: &str) {
    let _ = writeln!(
        std::io::stderr().lock(),
        "warning: {}",
        printable_lines(line)
    );
}

/// Prints a line for people; a closed stdout is no error. Parts of it may come from nodes and devices, so it is cleaned.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", printable_lines(line));
}
