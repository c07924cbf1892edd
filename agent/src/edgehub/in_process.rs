//! A cloud in the same process, which is reached without sockets and TLS. Both sides verify the certificates that TLS would show.

use std::{fmt::Debug, io, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{
    enroll::{Credentials, verifier},
    stream::Stream,
};
use crate::tls::files::pem_fault;

/// A server of the cloud to which a node keeps a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudServer {
    /// CloudHub.
    Hub,
    /// The stream server.
    Tunnel,
}

/// The servers of a cloud in this process.
pub trait InProcessCloud: Debug + Send + Sync {
    /// Returns the certificate that the servers show.
    fn server_certificate(&self) -> CertificateDer<'static>;

    /// Connects to a server and shows this certificate (DER).
    fn connect<'a>(
        &'a self,
        server: CloudServer,
        certificate: &'a [u8],
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;

    /// Sends a request to the enrolment server, with this certificate (DER) if there is one.
    fn enrol<'a>(
        &'a self,
        request: Request<Bytes>,
        certificate: Option<&'a [u8]>,
    ) -> BoxFuture<'a, io::Result<Response<Bytes>>>;
}

/// A node's link to a cloud in this process, with its identity; cheap to clone. It outlives the agent, as files do.
#[derive(Clone, Debug)]
pub struct InProcessLink {
    pub(super) cloud: Arc<dyn InProcessCloud>,
    identity: Arc<Mutex<Option<Arc<Credentials>>>>,
    /// Whether the identity is also in the configured files.
    has_files: bool,
}

impl InProcessLink {
    /// Creates the link of a node. `has_files` says whether its identity is also read from and written to the configured files.
    pub fn new(cloud: Arc<dyn InProcessCloud>, has_files: bool) -> Self {
        Self {
            cloud,
            identity: Arc::default(),
            has_files,
        }
    }

    /// Returns the node's certificate, DER, once it has one in memory.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.identity().map(|identity| identity.cert().to_vec())
    }

    /// Removes the identity from memory: the next start of the agent enrols again, unless there are files.
    pub fn forget_identity(&self) {
        *self.identity.lock() = None;
    }

    /// Returns the node's certificate, its key and the cloud's CA, PEM; `None` while it has none in memory.
    pub fn identity_pem(&self) -> Option<[String; 3]> {
        self.identity().map(|identity| identity.to_pem())
    }

    /// Gives the node the identity that [`Self::identity_pem`] returned.
    ///
    /// # Errors
    /// A text is not PEM.
    pub fn set_identity_pem(&self, identity: &[String; 3]) -> io::Result<()> {
        let credentials = Credentials::from_pem(identity)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, pem_fault(&error)))?;
        self.set_identity(Arc::new(credentials));
        Ok(())
    }

    pub(super) fn has_files(&self) -> bool {
        self.has_files
    }

    pub(super) fn identity(&self) -> Option<Arc<Credentials>> {
        self.identity.lock().clone()
    }

    pub(super) fn set_identity(&self, identity: Arc<Credentials>) {
        *self.identity.lock() = Some(identity);
    }

    /// Verifies the certificate of the servers, which must be for `name`.
    pub(super) fn verify_server(
        &self,
        verifier: &dyn ServerCertVerifier,
        name: &ServerName<'_>,
    ) -> io::Result<()> {
        let shown = self.cloud.server_certificate();
        let verified = verifier.verify_server_cert(
            &shown,
            &[],
            name,
            &[],
            UnixTime::since_unix_epoch(clock::since_unix_epoch()),
        );
        let failed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        verified.map(drop).map_err(failed)
    }

    /// Connects to a server of this name. Fails with `NotFound` if the node has no identity yet.
    pub(crate) async fn connect(
        &self,
        server: CloudServer,
        name: &ServerName<'_>,
    ) -> io::Result<Box<dyn Stream>> {
        let identity = self.identity().ok_or(io::ErrorKind::NotFound)?;
        let trusted = verifier(identity.ca()).map_err(io::Error::other)?;
        self.verify_server(&*trusted, name)?;
        self.cloud.connect(server, identity.cert()).await
    }
}
