//! The program around the agent: configuration, log, signals, exit code.

use std::{error::Error as _, path::Path, process::ExitCode};

use anyhow::Context;
use limits::LogThrottle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    app::{self, App, Parts},
    cli::{Cli, Command, Join, Reset},
    config::{self, Config},
    database,
    edgehub::Link,
    environment,
    join::{self, AfterJoin},
    log, reset,
    signals::{DrainError, Signals},
};

/// The number of threads: the agent mostly waits, and two threads serve a hundred pods.
const WORKER_THREADS: usize = 2;

/// Runs the agent until a signal ends it.
pub fn run(cli: &Cli) -> ExitCode {
    let failed = |error: &anyhow::Error| {
        log::fatal("edge-agent", cli.log_format, error);
        ExitCode::FAILURE
    };
    if cli.is_contradictory() {
        return failed(&anyhow::anyhow!("--minconfig and --defaultconfig stand alone, without a subcommand"));
    }
    let mut config = cli.config.clone();
    let out = &mut std::io::stdout();
    match &cli.command {
        Some(Command::Db(command)) => {
            return database::run(&command.or(&cli.config), &mut out.lock())
                .unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Reset(command)) => {
            let command = Reset { paths: command.paths.or(&cli.config), ..command.clone() };
            let done = reset::run(&command, &mut std::io::stdin().lock(), &mut out.lock());
            return done.unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Join(command)) => {
            let command = Join { paths: command.paths.or(&cli.config), ..Join::clone(command) };
            match join::run(&command, &mut out.lock()) {
                Ok(AfterJoin::Done) => return ExitCode::SUCCESS,
                Ok(AfterJoin::Run(path)) => config = path,
                Err(error) => return failed(&error),
            }
        }
        Some(Command::Completions { .. }) | None => {}
    }
    let throttle = match log::init(&cli.log_filter(), cli.log_format) {
        Ok(throttle) => throttle,
        Err(error) => {
            let error =
                anyhow::Error::new(error).context("the log filter is none; write LEVEL or MODULE=LEVEL");
            return failed(&error);
        }
    };
    match start(&config, throttle) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn start(path: &Path, throttle: LogThrottle) -> anyhow::Result<()> {
    let (config, warnings) = config::load(path).map_err(one_line)?;
    for warning in warnings {
        warn!(file = %path.display(), "{warning}");
    }
    if let Err(error) = limits::raise_open_files() {
        warn!(%error, "no more files can be open than this process was given");
    }
    environment::check(&config, |name| std::env::var(name).ok(), Path::new("/proc"))?;
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build();
    let runtime = runtime.context("no threads could be started")?;
    runtime.spawn(log::report_left_out(throttle));
    let ended = runtime.block_on(serve(&config, path));
    let is_hang = |error: &anyhow::Error| {
        error.is::<DrainError>() || error.downcast_ref::<app::Error>().is_some_and(app::Error::is_hang)
    };
    if ended.as_ref().is_err_and(is_hang) {
        // otherwise the blocked thread would be awaited
        runtime.shutdown_background();
    }
    ended
}

pub(crate) fn one_line(error: config::Error) -> anyhow::Error {
    match error.source() {
        Some(source) => anyhow::anyhow!("{error}: {source}"),
        None => anyhow::Error::new(error),
    }
}

async fn serve(config: &Config, path: &Path) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    let mut signals = Signals::listen()?;
    let _lock = app::lock(config)?;
    let parts = Parts::of_machine(config).await?;
    let app = App::start(config, parts, shutdown.clone())?;
    info!(node = %config.node.name, version = env!("CARGO_PKG_VERSION"), "edge-agent runs");
    let wiping = tokio::spawn(wipe_token(config.edge_hub.token.is_some(), path.to_owned(), app.link()));
    let mut running = Box::pin(app.run());
    let ended = tokio::select! {
        // cancel-safe: it is awaited below
        ended = &mut running => ended,
        // cancel-safe: a signal that is not seen waits for the next call
        () = signals.wait() => {
            shutdown.cancel();
            signals.drain(running).await?
        }
    };
    wiping.abort();
    Ok(ended?)
}

/// Removes the token from the configuration after the first connection, when it is no longer needed.
async fn wipe_token(given: bool, path: std::path::PathBuf, mut link: tokio::sync::watch::Receiver<Link>) {
    if !given || link.wait_for(|link| *link != Link::Down).await.is_err() {
        return;
    }
    if let Err(error) = config::remove_token(&path) {
        warn!(error = &error as &dyn std::error::Error, "the join token stays in the configuration");
    }
}
