//! Sessions over QUIC: the greeting is passed on to the cloud, and its answer back; then the bytes of the messages are.

use std::{io::ErrorKind, net::SocketAddr, sync::Arc};

use agent::config::HostPort;
use peer::{
    Failure, Service,
    cloud::{Caller, Refusal},
    edge::Dialer,
    identity::{Identity, server_tls},
    quic::{Greeting, Server, close},
};
use record::{Side, Transport};
use tracing::{debug, info, warn};

use super::{
    proxy::{Proxy, cloud_away},
    relay::relay,
    tap::QuicTap,
};

/// Starts the server for nodes. Their sessions are passed on to `cloud`.
///
/// # Errors
/// The port is in use.
pub(super) fn start(
    proxy: &Arc<Proxy>,
    address: SocketAddr,
    cloud: HostPort,
    names: &[String],
) -> Result<Server, Failure> {
    let now = clock::system_now();
    let (certificate, key) = proxy.ca().sign_server(names.to_vec(), now)?;
    let identity = Identity { certificate, key };
    let tls = server_tls(proxy.ca().cert_der(), &identity, true)?;
    let dialer = Arc::new(proxy.dialer().clone().over_quic(cloud));
    let proxy = proxy.clone();
    Server::start(address, &tls, move |greeting| {
        serve(proxy.clone(), dialer.clone(), greeting)
    })
}

/// Serves a session until it ends.
async fn serve(proxy: Arc<Proxy>, dialer: Arc<Dialer>, mut greeting: Greeting) {
    let caller = Caller {
        address: greeting.address,
        certificate: Some(greeting.certificate.clone()),
    };
    let identity = match proxy.identity(&caller) {
        Ok(identity) => identity,
        Err(Refusal::Answer(answer)) => {
            let why = String::from_utf8_lossy(answer.body()).into_owned();
            return greeting.refuse(&why).await;
        }
        Err(Refusal::Close) => return,
    };
    let greeted = match dialer.greet(&identity, &greeting.hello).await {
        Ok(greeted) => greeted,
        Err(failure) => return cloud_away(&failure, Service::Hub, &caller),
    };
    if !greeted.is_accepted() {
        let why = String::from_utf8_lossy(&greeted.answer.content_bytes()).into_owned();
        return greeting.refuse(&why).await;
    }
    let node = caller.node().unwrap_or_default();
    let opened = async {
        greeting.answer(&greeted.answer).await?;
        let edge = greeting.messages().await?;
        Ok::<_, Failure>((edge, greeted.open().await?))
    };
    let (mut edge, mut cloud) = match opened.await {
        Ok(opened) => opened,
        Err(failure) => {
            let error = failure.reason();
            return debug!(node, error, "QUIC connection failed");
        }
    };
    let (peer, headers) = (greeting.address.to_string(), greeting.headers());
    let recorder = proxy.recorder();
    let connection = recorder.connect(Transport::Quic, &node, &peer, headers);
    info!(node, transport = "quic", "connected");
    let mut up = QuicTap::new(Side::Edge, connection.clone());
    let mut down = QuicTap::new(Side::Cloud, connection);
    let ended = relay(&mut edge, &mut cloud, (&mut up, &mut down)).await;
    // what was passed on arrives before the end
    tokio::join!(close(edge), close(cloud));
    match ended {
        Ok(()) => info!(node, transport = "quic", "disconnected"),
        // the usual end of a connection of QUIC
        Err(error) if error.kind() == ErrorKind::NotConnected => {
            info!(node, transport = "quic", "disconnected");
        }
        Err(error) => warn!(node, transport = "quic", %error, "connection lost"),
    }
}
