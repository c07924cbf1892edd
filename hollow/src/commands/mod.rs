//! The subcommands of `cloudsim`.

mod bundle;
mod choice;
mod clouds;
mod cluster;
mod conformance;
mod connect;
mod db;
mod demo;
mod destination;
mod detach;
mod devices;
mod diff;
mod environment;
mod faults;
mod hollow;
mod join_line;
mod listing;
mod mesh;
mod node;
mod nodes;
mod objects;
mod output;
mod packaged_service;
mod paste;
mod process;
mod proxy;
mod ready_screen;
mod record;
mod remote;
mod replay;
mod roles;
mod rules;
mod run;
mod running;
mod runtime;
mod screen;
mod selftest;
mod show;
mod snapshot;
mod table;
mod token;
mod ui;
mod up;
mod why;

use std::{panic::set_hook, process::ExitCode, time::Duration};

use agent::{
    log::{self, LogFormat},
    signals::Signals,
};
use anyhow::{Context, anyhow};
use clap::CommandFactory;
use cloudsim::Cloud;
use peer::Failure;
use tokio::time::timeout;

use self::{
    connect::explain,
    output::{print, print_line, warn},
    running::Records,
};
use crate::{
    cli::{Access, Cli, Command, ExplainedObject},
    fleet::Fleet,
    nearest,
};

/// Runs the command.
pub fn run(cli: Cli) -> ExitCode {
    let format = cli.log_format;
    match start(cli) {
        Ok(code) => code,
        Err(error) => {
            log::fatal("cloudsim", format, &error);
            match error.is::<diff::NotCompared>() {
                true => ExitCode::from(diff::NOT_COMPARED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    let throttle = log::init(&cli.log_filter(), cli.log_format)
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
        output::put(&String::from_utf8(script)?);
        return output::check().map(|()| ExitCode::SUCCESS);
    }
    if matches!(cli.command, Command::Version) {
        print_line(&Cli::version());
        return output::check().map(|()| ExitCode::SUCCESS);
    }
    if let Err(error) = limits::raise_open_files() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    // There is only one crypto provider; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start threads")?;
    let ended = runtime.block_on(async {
        tokio::spawn(log::report_left_out(throttle));
        Box::pin(dispatch(cli.command)).await
    });
    // The runtime's drop would wait for every thread that still works for a node, or is blocked.
    runtime.shutdown_timeout(RUNTIME_TIMEOUT);
    let code = ended?;
    output::check().map(|()| code)
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    let done = match command {
        Command::Up(options) => return Box::pin(up::run(options)).await,
        Command::Status { access, list } => {
            return clouds::status(&access, &list, &Records::of_user()).await;
        }
        Command::Down { access, all } => {
            return clouds::down(&access, all, &Records::of_user()).await;
        }
        Command::Snapshot(options) => snapshot::run(options).await,
        Command::Kubeconfig { access } => {
            return clouds::kubeconfig(access, &Records::of_user());
        }
        Command::Ui { access, output } => {
            on_cloud(access, async |cloud| ui::run(cloud, output.format).await).await
        }
        Command::Db(command) => return db::run(&command).await,
        Command::Record(options) => Box::pin(record::run(options)).await,
        Command::Show(command) => return show::run(command).await,
        Command::Diff(command) => return diff::run(&command),
        Command::Replay(options) => return Box::pin(replay::run(options)).await,
        Command::Token {
            access,
            output,
            scope,
        } => {
            on_cloud(access, async |cloud| {
                token::run(cloud, output.format, scope).await
            })
            .await
        }
        Command::Devices {
            access,
            list,
            command,
        } => {
            on_cloud(access, async |cloud| {
                devices::run(cloud, list, command).await
            })
            .await
        }
        Command::Nodes {
            access,
            list,
            command,
        } => on_cloud(access, async |cloud| nodes::run(cloud, list, command).await).await,
        Command::Mesh { access, list } => {
            on_cloud(access, async |cloud| mesh::run(cloud, &list).await).await
        }
        Command::Why {
            access,
            object,
            name,
            namespace,
            output,
        } => {
            let object = ExplainedObject::of(&object, name.as_deref())?;
            return on_cloud(access, async |cloud| {
                why::run(cloud, &object, namespace.as_deref(), output.format).await
            })
            .await;
        }
        Command::Bundle(options) => bundle::run(&options, &Records::of_user()).await,
        Command::Rules {
            access,
            list,
            command,
        } => return on_cloud(access, async |cloud| rules::run(cloud, list, command).await).await,
        Command::Faults {
            access,
            output,
            command,
        } => {
            on_cloud(access, async |cloud| {
                faults::run(cloud, output, command).await
            })
            .await
        }
        Command::Run(options) => return run::run(options).await,
        Command::Runtime { socket, root } => runtime::run(&socket, root).await,
        Command::Demo {
            once,
            manifests,
            kubeconfig,
        } => return demo::run(once, manifests.as_deref(), kubeconfig.as_deref()).await,
        Command::Hollow(options) => hollow::run(options).await,
        Command::Selftest(options) => return selftest::run(options).await,
        Command::Conformance(options) => return conformance::run(options).await,
        Command::Roles {
            install_crds,
            node_groups,
        } => roles::run(install_crds, node_groups),
        Command::Completion { .. } | Command::Version => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Converts the reason why something with a peer was not possible.
fn of_failure(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Failed(why) | Failure::Skipped(why) => anyhow!(why),
    }
}

/// Converts the reason, followed by what to do about it.
fn with_cure(cure: &str) -> impl Fn(Failure) -> anyhow::Error {
    move |failure| anyhow!("{}; {cure}", failure.reason())
}

/// Runs a command for a running cloud.
async fn on_cloud<T>(
    access: Access,
    run: impl AsyncFnOnce(&Access) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let access = choice::choose(access, &Records::of_user())?;
    match run(&access).await {
        Err(error) => Err(explain(&access, error).await),
        done => done,
    }
}

/// How long threads may continue after a command has ended.
const RUNTIME_TIMEOUT: Duration = Duration::from_millis(50);

/// How long the agents of this process may take to stop.
const FLEET_TIMEOUT: Duration = Duration::from_millis(600);

/// Stops the nodes and the cloud.
async fn stop(fleet: Nodes, cloud: Cloud, signals: &mut Signals) -> anyhow::Result<()> {
    let stopping = async {
        match fleet {
            Nodes::None => {}
            // Nobody starts them again, so there is nothing to complete.
            Nodes::Temporary(fleet) => drop(timeout(FLEET_TIMEOUT, fleet.kill()).await),
            Nodes::Kept(fleet) => stop_fleet(fleet).await,
        }
        cloud.stop().await
    };
    Ok(signals.drain(stopping).await??)
}

/// The nodes beside a cloud.
enum Nodes {
    /// There are none.
    None,
    /// Their data ends with the process.
    Temporary(Fleet),
    /// They continue at the next start.
    Kept(Fleet),
}

/// Stops the nodes. Agents that take longer than a moment end with the program, as in a power cut, which loses nothing.
async fn stop_fleet(fleet: Fleet) {
    let _ = timeout(FLEET_TIMEOUT, fleet.stop()).await;
}
