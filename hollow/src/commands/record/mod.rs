//! `cloudsim record`: a proxy between nodes and a cloud that records what they send to each other.
//!
//! | file | content |
//! |---|---|
//! | `proxy` | enrolment, and the decision about each connection |
//! | `quic` | sessions over QUIC |
//! | `relay` | copies the bytes of a connection in both directions |
//! | `tap` | decodes these bytes for the recording |
//! | `state` | the proxy's CA and the nodes' keys at the cloud, on disk |

mod proxy;
mod quic;
mod relay;
mod state;
mod tap;

use std::{io::Read, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use agent::config::HostPort;
use anyhow::{Context, bail};
use limits::read_regular_text;
use peer::{
    cloud::{Addresses, Servers},
    edge::{Dialer, Endpoints},
};
use record::{Limits, Recording, Side};
use wire::enroll::Token;

use self::{proxy::Proxy, state::State};
use super::{Signals, join_line, print_line, with_cure};
use crate::{
    cli::Record,
    reach::{OwnNames, Reach, check_address},
};

/// The largest token file, and the most bytes that are read from stdin.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// The lifetime of the proxy's join token.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

pub(super) async fn run(options: Record) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let own = OwnNames::of_machine();
    check_address(options.address, &own)?;
    let reach = Reach::of(options.address, &options.names, &own);
    let token = read_token(options.token.as_ref(), options.token_file.as_ref())?;
    let state = State::open(&data_dir(&options))?;
    let dialer = clock::select! {
        dialer = find_cloud(&options, token.as_ref(), &state) => dialer?,
        // cancel-safe: the program ends then
        () = signals.wait() => return Ok(()),
    };
    let recording = Recording::start(record::Options {
        path: options.file.clone(),
        limits: Limits::default(),
        program: format!("cloudsim {} record", env!("CARGO_PKG_VERSION")),
        side: Side::Cloud,
        redact: !options.record_secrets,
    })?;
    let served = serve(
        &options,
        &reach,
        (state, dialer, token),
        (&recording, &mut signals),
    )
    .await;
    recording.finish();
    served
}

/// Runs the servers until a signal.
async fn serve(
    options: &Record,
    reach: &Reach,
    (state, dialer, token): (State, Dialer, Option<Token>),
    (recording, signals): (&Recording, &mut Signals),
) -> anyhow::Result<()> {
    let cloud_quic = HostPort {
        host: options.cloud.clone(),
        port: options.cloud_quic_port,
    };
    let proxy = Arc::new(Proxy::new(state, dialer, token, recording.recorder()));
    let at = |port| SocketAddr::new(options.address, port);
    let addresses = Addresses {
        https: at(options.https_port),
        hub: at(options.ws_port),
        tunnel: options.tunnel_port.0.map(at),
    };
    let servers = Servers::start(proxy.clone(), proxy.ca(), reach.names.clone(), addresses)
        .await
        .map_err(with_cure(
            "choose other ports with --https-port, --ws-port and --tunnel-port",
        ))?;
    let quic = options.quic_port.map(|port| {
        quic::start(&proxy, at(port), cloud_quic, &reach.names)
            .map_err(with_cure("choose another port with --quic-port"))
    });
    let quic = quic.transpose()?;
    let at = servers.addresses();
    let ports = join_line::Ports {
        hub: at.hub.port(),
        https: at.https.port(),
        tunnel: at.tunnel.map(|tunnel| tunnel.port()),
    };
    let join = proxy.join_token(TOKEN_LIFETIME)?;
    let host = reach.outside.as_deref().unwrap_or(reach.inside());
    print_line(&format!(
        "Recording to {}; Ctrl-C stops\nJoin a node within 24 h:\n  {}",
        options.file.display(),
        join_line::line("edge-agent", host, ports, &join)
    ));
    if let Some(quic) = &quic {
        let at = SocketAddr::new(options.address, quic.address().port());
        print_line(&format!("  {}", join_line::quic(at)));
    }
    signals.wait().await;
    Ok(())
}

fn data_dir(options: &Record) -> PathBuf {
    options.data_dir.clone().unwrap_or_else(|| {
        let mut name = options.file.clone().into_os_string();
        name.push(".proxy");
        name.into()
    })
}

/// Reads the join token of the cloud.
pub(super) fn read_token(
    token: Option<&String>,
    file: Option<&PathBuf>,
) -> anyhow::Result<Option<Token>> {
    let text = match (token, file) {
        (Some(token), _) if token == "-" => {
            let mut text = String::new();
            let read = std::io::stdin()
                .take(MAX_TOKEN_BYTES)
                .read_to_string(&mut text);
            read.context("cannot read the join token from stdin")?;
            text
        }
        (Some(token), _) => token.clone(),
        (None, Some(file)) => read_regular_text(file, MAX_TOKEN_BYTES).with_context(|| {
            let file = file.display();
            format!("cannot read the join token from {file}; check --token-file")
        })?,
        (None, None) => return Ok(None),
    };
    let token = Token::parse(&text).context("cannot use the join token")?;
    Ok(Some(token))
}

/// Returns how the cloud is reached. Its CA is stored, so that a restart needs neither the cloud nor a token.
async fn find_cloud(
    options: &Record,
    token: Option<&Token>,
    state: &State,
) -> anyhow::Result<Dialer> {
    let at = |port| HostPort {
        host: options.cloud.clone(),
        port,
    };
    let endpoints = Endpoints {
        https: at(options.cloud_https_port),
        hub: at(options.cloud_ws_port),
        tunnel: Some(at(options.cloud_tunnel_port)),
    };
    match (state.cloud_ca()?, token) {
        (Some(ca), Some(token)) => {
            token.check_ca(&ca).with_context(|| {
                format!(
                    "the token is of another cloud than the keys in {}; choose another --data-dir",
                    state.folder().display()
                )
            })?;
            Ok(Dialer::new(endpoints, ca))
        }
        (Some(ca), None) => Ok(Dialer::new(endpoints, ca)),
        (None, Some(token)) => {
            let dialer = Dialer::discover(endpoints, token)
                .await
                .map_err(with_cure("check --cloud, --cloud-https-port and the token"))?;
            state.set_cloud_ca(dialer.ca())?;
            Ok(dialer)
        }
        (None, None) => bail!("no join token of the cloud; pass one with --token or --token-file"),
    }
}
