//! `cloudsim hollow`: runs nodes on the simulated runtime for a cloud elsewhere.

use clock::Instant;
use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::{Context, anyhow, bail};
use cloudsim::kubeconfig::in_url;
use componentbase::Link;
use futures::{StreamExt, future::pending, stream::FuturesUnordered};
use limits::Repeated;
use nix::fcntl::OFlag;
use tokio::{
    fs::OpenOptions,
    io::AsyncReadExt,
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};

use wire::text::count;

use super::{Signals, paste, print_line, stop_fleet};
use crate::{
    cli::{Hollow, JoinArgs, NodeProperties, NodeTaint},
    fleet::{self, Endpoints, Fleet, HollowNode},
};

/// How often the token file is read: a new cloud creates the token, and a mounted Secret follows a while later.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long after the start a node may take to connect, or the program ends and names the unreachable port.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a port that nodes dial may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest token file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

pub(super) async fn run(options: Hollow) -> anyhow::Result<()> {
    let properties = properties(&options);
    properties.check(options.nodes)?;
    let mut signals = Signals::listen()?;
    let temporary =
        tempfile::tempdir().context("cannot create a temporary directory for the nodes")?;
    // Nodes are configured with absolute paths.
    let directory = match &options.data_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => temporary.path().to_owned(),
    };
    let starting = async {
        let token = token(&options.join.token_file).await?;
        let of_fleet = fleet::Options {
            prefix: options.prefix.clone(),
            edged: properties.settings(),
            capacity: properties.capacity(),
            ..fleet::Options::new(options.nodes, directory)
        };
        anyhow::Ok(Fleet::start(endpoints(&options.join), &token, &of_fleet).await?)
    };
    let mut fleet = clock::select! {
        started = starting => started?,
        // cancel-safe: the program ends then.
        () = signals.wait() => return Ok(()),
    };
    let nodes = count(options.nodes, "node");
    let stored = options.data_dir.as_deref().map(paste::path);
    let stored = stored.map_or_else(String::new, |dir| format!("; their data is in {dir}"));
    let cloud = &options.join.cloud;
    print_line(&format!("{nodes} started, joining {cloud}{stored}"));
    let links: Vec<_> = fleet.nodes().iter().filter_map(HollowNode::link).collect();
    let running = fleet.nodes_mut().iter_mut();
    let mut ended: FuturesUnordered<_> = running
        .map(|node| wait_and_rejoin(node, &options.join.token_file))
        .collect();
    let outcome = clock::select! {
        // cancel-safe: the program ends then.
        () = signals.wait() => Ok(()),
        Some(ended) = ended.next() => match ended {
            (name, Ok(())) => Err(anyhow!("node {name} has stopped")),
            (name, Err(error)) => Err(node_error(&name, &error)),
        },
        why = never_connected(links.clone(), &options.join) => Err(why),
        never = report_connected(links, &nodes, &options.join.cloud) => match never {},
    };
    drop(ended);
    stop_fleet(fleet).await;
    print_line(&format!("{nodes} stopped"));
    outcome
}

/// Returns the error of a node that has ended. The log has its whole chain; the last cause is what the user can change.
fn node_error(name: &str, error: &fleet::Error) -> anyhow::Error {
    let error: &(dyn std::error::Error + 'static) = error;
    let last = std::iter::successors(Some(error), |error| error.source()).last();
    let cause = last.map(ToString::to_string).unwrap_or_default();
    match cause.contains("is taken") {
        true => anyhow!(
            "the name {name} is taken; choose other names with --prefix, or free it with `cloudsim node reset {name}`"
        ),
        false => anyhow!("node {name} failed: {cause}"),
    }
}

/// Prints a line when all nodes are connected; never returns.
async fn report_connected(
    links: Vec<watch::Receiver<Link>>,
    nodes: &str,
    cloud: &str,
) -> std::convert::Infallible {
    let begun = Instant::now();
    for mut link in links {
        // a node that has given up ends the program
        if link.wait_for(|link| *link != Link::Down).await.is_err() {
            return pending().await;
        }
    }
    let took = begun.elapsed().as_secs_f64();
    print_line(&format!(
        "{nodes} connected to {cloud} after {took:.1} s; Ctrl-C stops"
    ));
    pending().await
}

/// Returns when none of the nodes has connected in time.
async fn never_connected(links: Vec<watch::Receiver<Link>>, join: &JoinArgs) -> anyhow::Error {
    let connected = links.into_iter().map(|mut link| async move {
        // The watch of a node that has given up is closed.
        link.wait_for(|link| *link != Link::Down).await.is_ok()
    });
    let mut connected: FuturesUnordered<_> = connected.collect();
    match timeout(CONNECT_TIMEOUT, connected.next()).await {
        Ok(_) => pending().await,
        Err(_) => anyhow!(
            "no node was connected within {CONNECT_TIMEOUT:?}: {}",
            unreachable(join).await
        ),
    }
}

/// Finds out, as far as possible from here, why nodes do not reach the cloud.
pub(super) async fn unreachable(join: &JoinArgs) -> String {
    let mut closed = Vec::new();
    for (port, option) in [
        (join.https_port, "--https-port"),
        (join.ws_port, "--ws-port"),
    ] {
        let address = format!("{}:{port}", in_url(&join.cloud));
        let why = match timeout(ANSWER_TIMEOUT, TcpStream::connect(&address)).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {ANSWER_TIMEOUT:?}"),
        };
        closed.push(format!(
            "nothing is reached at {address} ({why}); check that the cloud runs, --cloud and {option}"
        ));
    }
    if closed.is_empty() {
        let JoinArgs {
            cloud,
            https_port,
            ws_port,
            ..
        } = join;
        return format!(
            "{cloud} takes connections on ports {https_port} (--https-port) and {ws_port} (--ws-port): check that they are those of a cloud, and what \
             the nodes log"
        );
    }
    closed.join("; ")
}

/// Returns the nodes' properties. With `--tainted`, they have the taint that keeps pods away that do not ask for edge nodes.
fn properties(options: &Hollow) -> NodeProperties {
    let mut properties = options.properties.clone();
    if options.tainted {
        properties.node_taints.push(NodeTaint::edge());
    }
    properties
}

/// Waits until the node's agent ends. A node that was reset or deleted in the cloud joins again, with the token that the file has then.
async fn wait_and_rejoin(
    node: &mut HollowNode,
    token_file: &Path,
) -> (String, Result<(), fleet::Error>) {
    let mut failures = Repeated::default();
    let token = async || match token(token_file).await {
        Ok(token) => Some(token),
        Err(error) => {
            if let Some(times) = failures.count(&error.to_string(), Instant::now()) {
                let error: &dyn std::error::Error = error.as_ref();
                tracing::warn!(times, error, "failed to read the join token; retrying");
            }
            None
        }
    };
    let ended = node.run_and_rejoin(token).await;
    (node.name.clone(), ended)
}

/// Returns the addresses at which nodes find the cloud.
pub(super) fn endpoints(join: &JoinArgs) -> Endpoints {
    let ports = (join.https_port, join.ws_port, join.tunnel_port.0);
    Endpoints {
        node_ip: join.node_ip,
        ..Endpoints::at(&join.cloud, ports)
    }
}

/// Reads the token from a file; waits while the file is missing or empty.
pub(super) async fn token(file: &Path) -> anyhow::Result<String> {
    let mut told = false;
    loop {
        // a pipe without a writer must hold up neither the nodes nor their end
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(file)
            .await;
        match opened {
            Ok(open) => {
                if !open.metadata().await?.is_file() {
                    bail!(
                        "{} is not a regular file; name one with --token-file",
                        file.display()
                    );
                }
                let mut text = String::new();
                open.take(MAX_TOKEN_BYTES)
                    .read_to_string(&mut text)
                    .await
                    .with_context(|| format!("{} contains no token", file.display()))?;
                if !text.trim().is_empty() {
                    return Ok(text.trim().to_owned());
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot read the token file {}; check --token-file",
                        file.display()
                    )
                });
            }
        }
        if !told {
            print_line(&format!("waiting for the join token in {}", file.display()));
            told = true;
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::cli::Port;

    #[tokio::test]
    async fn what_is_not_reached_is_named_with_the_option_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().port();
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = gone.local_addr().unwrap().port();
        drop(gone);
        let join = |https_port, ws_port| JoinArgs {
            cloud: "127.0.0.1".to_owned(),
            https_port,
            ws_port,
            tunnel_port: Port(None),
            token_file: "token".into(),
            node_ip: Ipv4Addr::LOCALHOST.into(),
        };
        for (https, ws, named, other) in [
            (closed, open, "--https-port", "--ws-port"),
            (open, closed, "--ws-port", "--https-port"),
        ] {
            let why = unreachable(&join(https, ws)).await;
            assert!(
                why.contains(&format!("127.0.0.1:{closed}")) && why.contains("refused"),
                "{why}"
            );
            assert!(why.contains(named) && !why.contains(other), "{why}");
        }
        let why = unreachable(&join(open, open)).await;
        assert!(
            why.contains("takes connections") && why.contains(&open.to_string()),
            "{why}"
        );
    }
}
