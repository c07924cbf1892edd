//! The servers for nodes, for nodes of the same process: no sockets and no TLS. The certificates of both sides are the ones that TLS would
//! show, and the cloud verifies a node's as TLS does.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use kubeapi::serve::{PeerCertificate, certificate_identity};
use rustls::{AlertDescription, Error};
use rustls_pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use crate::{
    enrolment::Enrolment,
    listeners::{LocalConnector, Pipe},
    pki::Trust,
};

/// The servers of a cloud for nodes in its process; cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    trust: Trust,
    hub: LocalConnector,
    tunnels: Option<LocalConnector>,
    enrolment: Enrolment,
    stop: CancellationToken,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl InProcess {
    pub(crate) fn new(
        trust: &Trust,
        (hub, tunnels): (LocalConnector, Option<LocalConnector>),
        enrolment: &Enrolment,
        stop: CancellationToken,
    ) -> Self {
        Self {
            trust: trust.clone(),
            hub,
            tunnels,
            enrolment: enrolment.clone(),
            stop,
        }
    }

    /// Returns the certificate that the servers show now; nodes must verify it.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.trust.server_certificate()
    }

    /// Connects a node to CloudHub.
    ///
    /// # Errors
    /// The cloud rejects the certificate, or has stopped.
    pub async fn connect_hub(&self, certificate: &[u8]) -> io::Result<Pipe> {
        self.connect(&self.hub, certificate).await
    }

    /// Connects a node to the stream server.
    ///
    /// # Errors
    /// The cloud rejects the certificate, has no stream server, or has stopped.
    pub async fn connect_tunnel(&self, certificate: &[u8]) -> io::Result<Pipe> {
        match &self.tunnels {
            Some(tunnels) => self.connect(tunnels, certificate).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    async fn connect(&self, server: &LocalConnector, certificate: &[u8]) -> io::Result<Pipe> {
        let certificate = CertificateDer::from(certificate.to_vec());
        match self.trust.verify_node(&certificate) {
            Ok(()) => server.connect(Ok(certificate)).await,
            Err(error) => {
                // the listener counts and logs it
                server.connect(Err(error.clone())).await?;
                Err(alert(&error))
            }
        }
    }

    /// Sends a request to the enrolment server, with the certificate that the node shows, if it has one.
    ///
    /// # Errors
    /// The cloud rejects the certificate, or has stopped.
    pub async fn enrol(
        &self,
        mut request: Request<Bytes>,
        certificate: Option<&[u8]>,
    ) -> io::Result<Response<Bytes>> {
        if self.stop.is_cancelled() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if let Some(certificate) = certificate {
            let shown = CertificateDer::from(certificate.to_vec());
            self.trust
                .verify_enrolling(&shown)
                .map_err(|error| alert(&error))?;
            if let Some(identity) = certificate_identity(&shown) {
                request.extensions_mut().insert(identity);
            }
            let shown = PeerCertificate(certificate.into());
            request.extensions_mut().insert(shown);
        }
        self.enrolment.respond(request).await
    }
}

/// Returns the error that TLS reports to a client whose certificate was rejected.
fn alert(error: &Error) -> io::Error {
    let description = match error {
        Error::InvalidCertificate(why) => AlertDescription::from(why.clone()),
        _ => AlertDescription::AccessDenied,
    };
    io::Error::new(
        io::ErrorKind::InvalidData,
        Error::AlertReceived(description),
    )
}
