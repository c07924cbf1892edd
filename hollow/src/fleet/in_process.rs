//! The servers of the cloud in this process, as agents reach them: without sockets.

use std::{io, sync::Arc};

use agent::edgehub::{CloudServer, InProcessCloud, InProcessLink, Stream};
use bytes::Bytes;
use cloudsim::InProcess;
use futures::future::BoxFuture;
use http::{Request, Response};
use rustls_pki_types::CertificateDer;

#[derive(Debug)]
struct Servers(InProcess);

impl InProcessCloud for Servers {
    fn server_certificate(&self) -> CertificateDer<'static> {
        self.0.server_certificate()
    }

    fn connect<'a>(
        &'a self,
        server: CloudServer,
        certificate: &'a [u8],
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = match server {
                CloudServer::Hub => self.0.connect_hub(certificate).await?,
                CloudServer::Tunnel => self.0.connect_tunnel(certificate).await?,
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
        Box::pin(self.0.enrol(request, certificate))
    }
}

/// Returns a node's link to this cloud. `has_files` says whether the node's identity is also in files.
pub(super) fn link(cloud: &InProcess, has_files: bool) -> InProcessLink {
    InProcessLink::new(Arc::new(Servers(cloud.clone())), has_files)
}
