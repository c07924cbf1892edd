//! The servers of a cloud that any edge can join: HTTPS, `CloudHub` and the stream tunnel.
//!
//! A [`Cloud`] decides about requests and serves the connections; [`Servers`] does the rest: sockets, TLS, HTTP and the upgrade to
//! WebSocket. [`certify()`] is the usual answer of the HTTPS server.

mod certify;
mod serve;

use std::{future::Future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::enroll::{Ca, Identity as Owner, identity_of};

pub use self::certify::{MAX_REQUEST, bearer, certify, text};
use crate::{
    Failure, Service, Stream, fail,
    identity::{Identity, server_tls},
};

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its address.
    pub address: SocketAddr,
    /// Its certificate, which the servers' CA has signed, DER. Only the HTTPS server accepts clients without one.
    pub certificate: Option<Vec<u8>>,
}

impl Caller {
    /// Returns the name of the node that the certificate belongs to.
    ///
    /// # Errors
    /// There is no certificate, or it is no node's.
    pub fn node(&self) -> Result<String, Failure> {
        let Some(certificate) = &self.certificate else {
            fail!("no certificate was shown");
        };
        match identity_of(certificate)? {
            Owner::Node(node) => Ok(node),
            other => fail!("the certificate is that of {other} and not a node's"),
        }
    }
}

/// Why a connection is not accepted.
pub enum Refusal {
    /// With this answer.
    Answer(Response<Bytes>),
    /// The connection is closed without an answer.
    Close,
}

/// What a cloud does with the requests and connections of edges.
pub trait Cloud: Send + Sync + 'static {
    /// What a connection needs from its acceptance to its end.
    type Accepted: Send + 'static;

    /// Answers a request of the HTTPS server.
    fn answer(
        &self,
        request: Request<Bytes>,
        caller: &Caller,
    ) -> impl Future<Output = Result<Response<Bytes>, Refusal>> + Send;

    /// Decides whether a session or a tunnel is accepted. The answer gets these headers and those of the handshake.
    fn accept(
        &self,
        service: Service,
        request: &Request<()>,
        caller: &Caller,
    ) -> impl Future<Output = Result<(HeaderMap, Self::Accepted), Refusal>> + Send;

    /// Serves an accepted session or tunnel until it ends.
    fn serve(
        &self,
        service: Service,
        opened: Opened<Self::Accepted>,
    ) -> impl Future<Output = ()> + Send;
}

/// A session or tunnel that was accepted.
pub struct Opened<A> {
    /// The request that opened it.
    pub request: Request<()>,
    /// The edge.
    pub caller: Caller,
    /// The value that [`Cloud::accept`] has returned.
    pub accepted: A,
    /// The connection.
    pub stream: Stream,
}

/// The addresses at which a cloud listens; port 0 is any free port.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The HTTPS server.
    pub https: SocketAddr,
    /// `CloudHub`.
    pub hub: SocketAddr,
    /// The stream tunnel.
    pub tunnel: Option<SocketAddr>,
}

/// Running servers. They stop when this is dropped, and their connections end.
pub struct Servers {
    addresses: Addresses,
    _stop: DropGuard,
}

impl Servers {
    /// Starts the servers of a cloud. Edges dial them by `names`: host names and IP addresses.
    ///
    /// # Errors
    /// A port is in use, or a name is no host.
    pub async fn start<C: Cloud>(
        cloud: Arc<C>,
        ca: &Ca,
        names: Vec<String>,
        mut addresses: Addresses,
    ) -> Result<Self, Failure> {
        let (certificate, key) = ca.sign_server(names, clock::system_now())?;
        let identity = Identity { certificate, key };
        let stop = CancellationToken::new();
        let places = [
            (Service::Https, Some(&mut addresses.https)),
            (Service::Hub, Some(&mut addresses.hub)),
            (Service::Tunnel, addresses.tunnel.as_mut()),
        ];
        for (service, address) in places {
            let Some(address) = address else { continue };
            let listener = match TcpListener::bind(*address).await {
                Ok(listener) => listener,
                Err(error) => fail!("cannot listen on {address}: {error}"),
            };
            *address = listener.local_addr()?;
            let tls = server_tls(ca.cert_der(), &identity, service != Service::Https)?;
            let server = serve::serve(service, listener, tls, cloud.clone());
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(server).await });
        }
        Ok(Self {
            addresses,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns the addresses, with the ports that were chosen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }
}
