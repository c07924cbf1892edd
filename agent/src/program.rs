//! The program around the agent: configuration, log, signals, exit code.

use std::{error::Error as _, io::IsTerminal, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use limits::LogThrottle;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use tracing_subscriber::{filter::Targets, prelude::*};

use crate::{
    app::{self, App, Parts},
    cli::{Cli, Command, Join, Reset},
    config::{self, Config},
    database,
    edgehub::Link,
    environment,
    join::{self, Next},
    reset,
};

/// Work is waiting, not computing: two threads serve a hundred pods.
const THREADS: usize = 2;

/// How often it is told what was left out of the log.
const LEFT_OUT_INTERVAL: Duration = Duration::from_secs(600);

/// Runs the agent until a signal ends it.
pub fn run(cli: &Cli) -> ExitCode {
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
            let command = Reset { place: command.place.or(&cli.config), ..command.clone() };
            let done = reset::run(&command, &mut std::io::stdin().lock(), &mut out.lock());
            return done.unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Join(command)) => {
            let command = Join { place: command.place.or(&cli.config), ..Join::clone(command) };
            match join::run(&command, &mut out.lock()) {
                Ok(Next::Done) => return ExitCode::SUCCESS,
                Ok(Next::Run(path)) => config = path,
                Err(error) => return failed(&error),
            }
        }
        Some(Command::Completions { .. }) | None => {}
    }
    let filter = match cli.log_filter().parse::<Targets>() {
        Ok(filter) => filter,
        Err(error) => {
            return failed(
                &anyhow::Error::new(error).context("the log filter is none; write LEVEL or MODULE=LEVEL"),
            );
        }
    };
    // colours are for people, not for journals and files
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    let throttle = LogThrottle::default();
    let lines = lines.with_filter(throttle.clone());
    tracing_subscriber::registry().with(lines).with(filter).init();
    match start(&config, throttle) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// The error and its causes in one line on stderr: what systemd shows.
#[allow(clippy::print_stderr)]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("edge-agent: {error:#}");
    ExitCode::FAILURE
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.context("no threads could be started")?;
    runtime.spawn(tell_left_out(throttle));
    let ended = runtime.block_on(serve(&config, path));
    if ended.as_ref().is_err_and(|error| error.downcast_ref::<app::Error>().is_some_and(app::Error::is_hang))
    {
        // the thread that is held would be waited for
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
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = shutdown.clone();
    let signals = tokio::spawn(async move {
        tokio::select! {
            // cancel-safe: a signal that is not seen ends the process anyway
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    let _lock = app::lock(config)?;
    let parts = Parts::of_machine(config).await?;
    let app = App::start(config, parts, shutdown.clone())?;
    info!(node = %config.node.name, version = env!("CARGO_PKG_VERSION"), "edge-agent runs");
    let wiping = tokio::spawn(wipe_token(config.edge_hub.token.is_some(), path.to_owned(), app.link()));
    let ended = app.run().await;
    signals.abort();
    wiping.abort();
    Ok(ended?)
}

/// Tells of lines that were left out of the log, as one place wrote too many of them; never ends.
async fn tell_left_out(throttle: LogThrottle) {
    let mut ticks = tokio::time::interval(LEFT_OUT_INTERVAL);
    loop {
        ticks.tick().await;
        for (at, lines) in throttle.left_out() {
            warn!(at, lines, "lines of the log were left out");
        }
    }
}

/// The token has done its work with the first connection; it need not lie about any longer.
async fn wipe_token(given: bool, path: std::path::PathBuf, mut link: tokio::sync::watch::Receiver<Link>) {
    if !given || link.wait_for(|link| *link != Link::Down).await.is_err() {
        return;
    }
    if let Err(error) = config::forget_token(&path) {
        warn!(error = &error as &dyn std::error::Error, "the join token stays in the configuration");
    }
}
