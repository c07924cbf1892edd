//! What the subcommands of `cloudsim` do.

mod connect;
mod demo;
mod devices;
mod faults;
mod join_line;
mod nodes;
mod paste;
mod remote;
mod run;
mod runtime;
mod table;
mod token;
mod up;
mod written;

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::CommandFactory;
use limits::LogThrottle;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};
use tracing_subscriber::{filter::Targets, prelude::*};

use crate::{
    Cloud,
    cli::{Cli, Command},
    fleet::Fleet,
};

/// Carries the command out.
pub fn run(cli: Cli) -> ExitCode {
    match start(cli) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// The error and its causes in one line.
#[allow(clippy::print_stderr)]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("cloudsim: {error:#}");
    ExitCode::FAILURE
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    let filter =
        cli.log_filter().parse::<Targets>().context("the log filter is none; write LEVEL or MODULE=LEVEL")?;
    // colours are for people, not for journals and files
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    let throttle = LogThrottle::default();
    let lines = lines.with_filter(throttle.clone());
    tracing_subscriber::registry().with(lines).with(filter).init();
    if let Command::Completions { shell } = cli.command {
        // into memory first: the generator panics on a closed pipe
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "cloudsim", &mut script);
        let _ = std::io::stdout().write_all(&script);
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = limits::raise_open_files() {
        tracing::warn!(%error, "no more files can be open than this process was given");
    }
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("no threads could be started")?.block_on(async {
        tokio::spawn(tell_left_out(throttle));
        match cli.command {
            Command::Up(options) => up::run(options).await.map(|()| ExitCode::SUCCESS),
            Command::Token { kubeconfig } => {
                token::run(kubeconfig.as_deref()).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Devices { kubeconfig, command } => {
                devices::run(kubeconfig.as_deref(), command).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Nodes { kubeconfig } => {
                nodes::run(kubeconfig.as_deref()).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Faults { kubeconfig, command } => {
                faults::run(kubeconfig.as_deref(), command).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Run(options) => run::run(options).await,
            Command::Runtime { socket, root } => {
                runtime::run(&socket, root).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Demo { once, manifests, kubeconfig } => {
                demo::run(once, &manifests, kubeconfig.as_deref()).await
            }
            Command::Completions { .. } => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Tells of lines that were left out of the log, as one place wrote too many of them; never ends.
async fn tell_left_out(throttle: LogThrottle) {
    let mut ticks = tokio::time::interval(LEFT_OUT_INTERVAL);
    loop {
        ticks.tick().await;
        for (at, lines) in throttle.left_out() {
            tracing::warn!(at, lines, "lines of the log were left out");
        }
    }
}

/// Ctrl-C and the service manager's end. Made before anything runs that should end well.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of them, also for one that came before.
    async fn wait(&mut self) {
        tokio::select! {
            // cancel-safe: a signal that is not seen waits for the next call
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// How often it is told what was left out of the log.
const LEFT_OUT_INTERVAL: Duration = Duration::from_secs(600);

/// A signal that comes sooner after the first is the same one, sent to this process and to its group.
const SECOND_SIGNAL: Duration = Duration::from_millis(500);

/// Ends nodes and cloud; a second signal ends the wait for them.
async fn stop(fleet: Option<Fleet>, cloud: Cloud, signals: &mut Signals) -> anyhow::Result<()> {
    let stopping = async {
        if let Some(fleet) = fleet {
            fleet.stop().await;
        }
        cloud.stop().await
    };
    let again = async {
        let same = async {
            loop {
                signals.wait().await;
            }
        };
        let _: Result<(), _> = timeout(SECOND_SIGNAL, same).await;
        signals.wait().await;
    };
    tokio::select! {
        // cancel-safe, both: the program ends then
        stopped = stopping => Ok(stopped?),
        () = again => bail!("ended by a second signal, before everything had stopped"),
    }
}

/// Tells a person; nobody reading is no error.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
