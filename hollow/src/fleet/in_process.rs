//! The servers of the cloud in this process, as agents reach them: without sockets.

use std::io;

use agent::edgehub::{CloudServer, InProcessCloud, Stream};
use bytes::Bytes;
use cloudsim::InProcess;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;

/// The servers of the cloud that a node reaches, until others take their place.
#[derive(Debug)]
pub(super) struct Servers(Mutex<InProcess>);

impl Servers {
    pub(super) fn new(cloud: &InProcess) -> Self {
        Self(Mutex::new(cloud.clone()))
    }

    /// Puts the servers of a restarted cloud in the place of those that have ended.
    pub(super) fn replace(&self, cloud: &InProcess) {
        *self.0.lock() = cloud.clone();
    }

    fn now(&self) -> InProcess {
        self.0.lock().clone()
    }
}

impl InProcessCloud for Servers {
    fn server_certificate(&self) -> CertificateDer<'static> {
        self.now().server_certificate()
    }

    fn connect<'a>(
        &'a self,
        server: CloudServer,
        certificate: &'a [u8],
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = match server {
                CloudServer::Hub => self.now().connect_hub(certificate).await?,
                CloudServer::Tunnel => self.now().connect_tunnel(certificate).await?,
            };
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(stream)
        })
    }

    fn enrol<'a>(
        &'a self,
        request: Request<Bytes>,
        certificate: Option<&'a [u8]>,
    ) -> BoxFuture<'a, io::Result<Response<Bytes>>> {
        Box::pin(async move { self.now().enrol(request, certificate).await })
    }
}
