//! The program around the agent: configuration, log, signals, exit code.

use std::{
    error::Error as _,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::ValueEnum;
use clock::Instant;
use componentbase::Link;
use limits::LogThrottle;
use objectstore::{LockError, StoreLock};
use record::{Recorder, Recording};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    app::{self, AgentParts, App},
    bundle, check,
    cli::{Bundle, Check, Cli, Command, Ctl, Join, Reset, Status},
    config::{self, Config},
    ctl, database, environment,
    join::{self, AfterJoin},
    log,
    output::Output,
    reset,
    signals::{DrainError, Signals},
    status,
    taskmanager::{
        AfterTrial, Configuration, Trial, count_start, follow_watcher, give_up_after, note_failure,
        own_program,
    },
    terminal::Terminal,
};

/// The number of threads: the agent mostly waits, and two threads serve a hundred pods.
const WORKER_THREADS: usize = 2;

/// How long a start waits for an earlier agent that is ending: its last thread may wait for the disk.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is checked whether the earlier agent has ended.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the server of the agent's state may take to stop.
const STATUS_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the agent until a signal ends it.
pub fn run(cli: &Cli) -> ExitCode {
    let failed = |error: &anyhow::Error| fail(cli, error);
    if cli.is_contradictory() {
        return failed(&anyhow::anyhow!(
            "--minconfig and --defaultconfig cannot be used with a subcommand"
        ));
    }
    let mut config = cli.config.clone();
    let out = &mut Output(io::stdout());
    match &cli.command {
        Some(Command::Bundle(command)) => {
            let command = Bundle {
                paths: command.paths.or(&cli.config),
                ..Bundle::clone(command)
            };
            return bundle::run(&command, out).unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Check(command)) => {
            let command = Check {
                paths: command.paths.or(&cli.config),
                ..Check::clone(command)
            };
            let terminal = Terminal::of(&out.0);
            return check::run(&command, out, terminal).unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Db(command)) => {
            return database::run(&command.or(&cli.config), out)
                .unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Reset(command)) => {
            let command = Reset {
                paths: command.paths.or(&cli.config),
                ..command.clone()
            };
            let terminal = Terminal::of(&out.0);
            let input = &mut std::io::stdin().lock();
            let done = reset::run(&command, input, out, terminal);
            return done.unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Join(command)) => {
            let command = Join {
                paths: command.paths.or(&cli.config),
                ..Join::clone(command)
            };
            let terminal = Terminal::of(&out.0);
            match join::run(&command, out, terminal) {
                Ok(AfterJoin::Done) => return ExitCode::SUCCESS,
                Ok(AfterJoin::Run(path)) => config = path,
                Err(error) => return failed(&error),
            }
        }
        Some(Command::Ctl(command)) => {
            let done = ctl::run(command, &command.paths().or(&cli.config), out);
            return done.unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Confirm(paths)) => {
            let confirm = Ctl::Confirm(paths.clone());
            let done = ctl::run(&confirm, &paths.or(&cli.config), out);
            return done.unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Status(command)) => {
            let command = Status {
                paths: command.paths.or(&cli.config),
                ..command.clone()
            };
            return status::run(&command, out).unwrap_or_else(|error| failed(&error));
        }
        Some(Command::Completion { .. } | Command::Version) | None => {}
    }
    run_agent(cli, &config)
}

/// Logs why the program ends.
fn fail(cli: &Cli, error: &anyhow::Error) -> ExitCode {
    log::fatal("edge-agent", cli.log_format, error);
    ExitCode::FAILURE
}

/// Runs the agent, or a trial of a new version of it.
fn run_agent(cli: &Cli, config: &Path) -> ExitCode {
    let failed = |error: &anyhow::Error| fail(cli, error);
    let throttle = match log::init(&cli.log_filter(), cli.log_format) {
        Ok(throttle) => throttle,
        Err(error) => {
            let error = anyhow::Error::new(error)
                .context("invalid log filter; write LEVEL or MODULE=LEVEL");
            return failed(&error);
        }
    };
    let run_program = |program: io::Result<PathBuf>| {
        let ran = program.map(|program| execute(&program, &arguments(cli, config)));
        let error = anyhow::Error::new(ran.unwrap_or_else(|error| error));
        failed(&error.context("the agent cannot be restarted"))
    };
    let again = || run_program(own_program());
    if let Some(trial) = Trial::pending(config) {
        return match run_trial(trial, &arguments(cli, config)) {
            Ok(AfterTrial::Stopped) => ExitCode::SUCCESS,
            Ok(AfterTrial::Run(program)) => run_program(Ok(program)),
            Err(error) => failed(&error.into()),
        };
    }
    // before anything else: a new version whose watcher has ended must change nothing
    if let Err(error) = follow_watcher() {
        let error = anyhow::Error::new(error);
        return failed(&error.context("cannot follow the agent that tries this version"));
    }
    // held until the process ends, or is replaced: a thread that is blocked may go on until then
    let mut lock = None;
    match start(config, throttle, &mut lock, recording(cli)) {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::ToRestart) => again(),
        Err(error) if give_up_after(config, &format!("{error:#}")) => again(),
        Err(error) if is_hang(&error) => {
            error!(
                error = &*error as &dyn std::error::Error,
                "agent hangs; restarting the agent"
            );
            again()
        }
        Err(error) => {
            note_failure(config, &format!("{error:#}"));
            failed(&error)
        }
    }
}

/// Tries a new version of the agent.
fn run_trial(trial: Trial, arguments: &[OsString]) -> io::Result<AfterTrial> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(trial.run(arguments))
}

/// How the agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By a signal.
    Stopped,
    /// To begin again with the configuration of a node job.
    ToRestart,
}

/// Reports whether a module blocks its thread, so that only a new process can take over.
fn is_hang(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<app::Error>()
        .is_some_and(app::Error::is_hang)
}

/// Replaces this process by a run of a version of the agent, so that pods are never without one, also where no service manager would start
/// it again. The kernel ends all threads first, and then releases the lock of the database. Returns only if it fails.
fn execute(program: &Path, arguments: &[OsString]) -> io::Error {
    std::process::Command::new(program).args(arguments).exec()
}

/// Returns the arguments with which the agent runs on this configuration, whatever command it was started by.
fn arguments(cli: &Cli, config: &Path) -> Vec<OsString> {
    let format = cli
        .log_format
        .to_possible_value()
        .map(|value| value.get_name().to_owned());
    let mut all = vec![
        "--config".into(),
        config.into(),
        "--log-filter".into(),
        cli.log_filter().into(),
    ];
    all.extend(
        format
            .into_iter()
            .flat_map(|format| ["--log-format".into(), format.into()]),
    );
    if let Some(file) = &cli.record {
        all.extend(["--record".into(), file.into()]);
    }
    if cli.record_secrets {
        all.push("--record-secrets".into());
    }
    all
}

/// Locks the database for this process. An agent that is just ending may have it for some time yet.
fn lock(config: &Config) -> anyhow::Result<StoreLock> {
    let (begun, mut is_logged) = (Instant::now(), false);
    loop {
        match app::lock(config) {
            Err(app::Error::Locked(LockError::Held { holder, .. }))
                if begun.elapsed() < LOCK_TIMEOUT =>
            {
                if !std::mem::replace(&mut is_logged, true) {
                    info!(
                        process = holder,
                        "waiting for another agent on the same database to stop"
                    );
                }
                std::thread::sleep(LOCK_POLL_INTERVAL);
            }
            locked => return Ok(locked?),
        }
    }
}

/// Returns what is to be recorded.
fn recording(cli: &Cli) -> Option<record::Options> {
    let path = cli.record.clone()?;
    Some(record::Options {
        path,
        limits: record::Limits::default(),
        program: format!("edge-agent {}", env!("CARGO_PKG_VERSION")),
        side: record::Side::Edge,
        redact: !cli.record_secrets,
    })
}

fn start(
    path: &Path,
    throttle: LogThrottle,
    held: &mut Option<StoreLock>,
    recorded: Option<record::Options>,
) -> anyhow::Result<Ended> {
    count_start(path);
    let (config, warnings) = config::load(path).map_err(one_line)?;
    for warning in warnings {
        warn!(error = %warning, file = %path.display(), "configuration has an invalid or unused setting");
    }
    if let Err(error) = limits::raise_open_files() {
        warn!(%error, "failed to raise the limit of open files");
    }
    environment::check(&config, |name| std::env::var(name).ok(), Path::new("/proc"))?;
    app::check_identity(&config)?;
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start threads")?;
    runtime.spawn(log::report_left_out(throttle));
    for directory in app::missing_directories(&config) {
        info!(directory = %directory.display(), "creating a directory");
    }
    *held = Some(lock(&config)?);
    if let Some(busy) = check::several_busy(&config) {
        anyhow::bail!(busy);
    }
    let recording = recorded.map(Recording::start).transpose()?;
    let recorder = recording.as_ref().map(Recording::recorder);
    let ended = runtime.block_on(serve(&config, path, recorder.unwrap_or_default()));
    if let Some(recording) = recording {
        recording.finish();
    }
    if ended
        .as_ref()
        .is_err_and(|error| error.is::<DrainError>() || is_hang(error))
    {
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

async fn serve(config: &Config, path: &Path, recorder: Recorder) -> anyhow::Result<Ended> {
    let (shutdown, restart) = (CancellationToken::new(), CancellationToken::new());
    let mut signals = Signals::listen()?;
    let parts = AgentParts {
        recorder,
        configuration: Some(Configuration::new(path.to_owned(), restart.clone())),
        ..AgentParts::of_machine(config).await?
    };
    let app = App::start(config, parts, shutdown.clone())?;
    info!(node = %config.node.name, version = env!("CARGO_PKG_VERSION"), "edge-agent started");
    let wiping = tokio::spawn(wipe_token(
        config.edge_hub.token.is_some(),
        path.to_owned(),
        app.link(),
    ));
    let status = status::serve(config.status.clone(), app.status(), shutdown.clone());
    let status = tokio::spawn(status);
    let mut running = Box::pin(app.run());
    let ended = clock::select! {
        // cancel-safe: it is awaited below
        ended = &mut running => ended,
        // cancel-safe: a cancelled token stays cancelled
        () = restart.cancelled() => {
            shutdown.cancel();
            signals.drain(running).await?
        }
        // cancel-safe: a signal that is not seen waits for the next call
        () = signals.wait() => {
            shutdown.cancel();
            signals.drain(running).await?
        }
    };
    wiping.abort();
    // it removes its socket
    shutdown.cancel();
    let _ = timeout(STATUS_STOP_TIMEOUT, status).await;
    if ended.is_ok() {
        info!(node = %config.node.name, "edge-agent stopped");
    }
    ended?;
    Ok(if restart.is_cancelled() {
        Ended::ToRestart
    } else {
        Ended::Stopped
    })
}

/// Removes the token from the configuration after the first connection, when it is no longer needed.
async fn wipe_token(
    given: bool,
    path: std::path::PathBuf,
    mut link: tokio::sync::watch::Receiver<Link>,
) {
    if !given || link.wait_for(|link| *link != Link::Down).await.is_err() {
        return;
    }
    if let Err(error) = config::remove_token(&path) {
        warn!(
            error = &error as &dyn std::error::Error,
            "failed to remove the join token from the configuration"
        );
    }
}
