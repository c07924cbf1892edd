//! `cloudsim replay`: plays one side of a recording against a real cloud or edge.

use std::{
    io::{BufRead, IsTerminal},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use agent::config::HostPort;
use anyhow::{Context, anyhow, bail};
use peer::{cloud::Addresses, edge::Endpoints};
use record::Side;
use replay::{
    CloudLink, CloudServers, EdgeLink, Event, Link, Outcome, Plan, PlayOptions, Player, Script,
    Selection, drive,
};
use tokio::{sync::mpsc, time::timeout};
use wire::text::count;

use super::{
    Signals,
    diff::{self, NotCompared},
    join_line, of_failure, print_line,
    record::read_token,
    warn, with_cure,
};
use crate::cli::{DiffFormat, PlayedSide, Replay, Speed};

/// How long enrolment and the first session may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
/// The names of the recording and the replay in differences.
const NAMES: [&str; 2] = ["recording", "replay"];

pub(super) async fn run(options: Replay) -> anyhow::Result<ExitCode> {
    let played = play(&options).await;
    let outcome = played.map_err(|error| match error.is::<NotCompared>() {
        true => error,
        false => error.context(NotCompared("cannot replay the recording".to_owned())),
    })?;
    report(&outcome, options.output)?;
    Ok(match outcome.is_same() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn play(options: &Replay) -> anyhow::Result<Outcome> {
    let selection = Selection {
        node: options.node.clone(),
        kinds: Vec::new(),
    };
    let script = diff::read(&options.file, &selection)?;
    let side = match options.side {
        PlayedSide::Edge => Side::Edge,
        PlayedSide::Cloud => Side::Cloud,
    };
    let plan = plan(&script, side, &options.file)?;
    drop(script);
    let mut signals = Signals::listen()?;
    let playing = async {
        match side {
            Side::Edge => as_edge(options, plan).await,
            Side::Cloud => as_cloud(options, plan).await,
        }
    };
    clock::select! {
        outcome = Box::pin(playing) => outcome,
        // cancel-safe: the program ends then
        () = signals.wait() => bail!("stopped by a signal before the end of the recording"),
    }
}

/// Plans the replay, and warns of what cannot be replayed as it was.
fn plan(script: &Script, side: Side, file: &Path) -> anyhow::Result<Plan> {
    let name = file.display();
    let plan =
        Plan::new(script, side).with_context(|| NotCompared(format!("cannot use {name}")))?;
    if plan.requests > 0 {
        let requests = count(plan.requests, "request");
        warn(&format!(
            "not replayed: {requests} of the stream tunnel (logs, exec, attach, port-forward, metrics)"
        ));
    }
    if plan.skipped > 0 {
        let frames = count(plan.skipped, "frame");
        warn(&format!(
            "not replayed: {frames} with data of streams, or of unknown form"
        ));
    }
    for (kind, resource) in &plan.masked {
        warn(&format!(
            "{kind} {resource} contains *** instead of secrets; *** is sent"
        ));
    }
    Ok(plan)
}

async fn as_edge(options: &Replay, plan: Plan) -> anyhow::Result<Outcome> {
    let token = read_token(options.token.as_ref(), options.token_file.as_ref())?;
    let token = token.context("no join token; pass --token or --token-file")?;
    let host = options.cloud.clone().unwrap_or_default();
    let at = |port| HostPort {
        host: host.clone(),
        port,
    };
    let endpoints = Endpoints {
        https: at(options.https_port),
        hub: at(options.ws_port),
        tunnel: None,
    };
    let node = options
        .node_name
        .clone()
        .unwrap_or_else(|| plan.node.to_string());
    let connecting = EdgeLink::connect(endpoints, &token, &node);
    let connected = timeout(CONNECT_DEADLINE, connecting).await;
    let mut link = connected
        .unwrap_or_else(|_| peer::fail!("no session within {CONNECT_DEADLINE:?}"))
        .map_err(|failure| {
            let cure = match failure.reason().contains(" is taken") {
                true => "--node-name chooses another name",
                false => "check --cloud, the ports and the token",
            };
            with_cure(cure)(failure)
        })?;
    talk(options, plan, node, &mut link).await
}

async fn as_cloud(options: &Replay, plan: Plan) -> anyhow::Result<Outcome> {
    let at = |port| SocketAddr::new(options.address, port);
    let addresses = Addresses {
        https: at(options.https_port),
        hub: at(options.ws_port),
        tunnel: options.tunnel_port.0.map(at),
    };
    let host = options.address.to_string();
    let servers = CloudServers::start(vec![host.clone()], addresses)
        .await
        .map_err(with_cure(
            "choose others with --address, --https-port, --ws-port and --tunnel-port",
        ))?;
    let at = servers.addresses();
    let ports = join_line::Ports {
        hub: at.hub.port(),
        https: at.https.port(),
        tunnel: at.tunnel.map(|tunnel| tunnel.port()),
    };
    let line = join_line::line("edge-agent", &host, ports, servers.token());
    let text = format!("Join the edge within {:?}:\n  {line}", options.join_timeout);
    print_line(&text);
    let mut link: CloudLink = servers
        .wait_joined(options.join_timeout)
        .await
        .map_err(of_failure)?;
    let node = link.node().to_owned();
    talk(options, plan, node, &mut link).await
}

/// Plays the plan over an open connection.
async fn talk(
    options: &Replay,
    plan: Plan,
    node: String,
    link: &mut impl Link,
) -> anyhow::Result<Outcome> {
    let started = clock::system_now().duration_since(UNIX_EPOCH)?;
    let player = Player::new(
        plan,
        PlayOptions {
            node,
            speed: match options.speed {
                Speed::Factor(factor) => Some(factor),
                Speed::Max => None,
            },
            patience: options.wait,
            started: u64::try_from(started.as_nanos())?,
        },
    );
    let (steps, is_stepped) = (steps(options)?, options.step);
    let observe = |event: Event<'_>| {
        if !is_stepped {
            return;
        }
        let (text, message) = match event {
            Event::Next(frame, message) => (format!("Enter sends frame {frame}:"), message),
            Event::Sent(message) => ("sent".to_owned(), message),
            Event::Received(message) => ("received".to_owned(), message),
        };
        print_line(&format!("{text} {}", message.route.summary()));
    };
    Ok(drive(player, link, steps, observe).await?)
}

/// Returns a value for each Enter on the terminal.
fn steps(options: &Replay) -> anyhow::Result<Option<mpsc::Receiver<()>>> {
    if !options.step {
        return Ok(None);
    }
    if !std::io::stdin().is_terminal() {
        return Err(anyhow!("--step needs a terminal; use --speed instead"));
    }
    let (sender, steps) = mpsc::channel(1);
    // stdin cannot be read without blocking; the thread ends with the program
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    Ok(Some(steps))
}

fn report(outcome: &Outcome, format: DiffFormat) -> anyhow::Result<()> {
    match format {
        DiffFormat::Text => print_line(outcome.to_text(NAMES).trim_end()),
        DiffFormat::Json => print_line(&serde_json::to_string_pretty(outcome)?),
    }
    Ok(())
}
