//! A client of the runtime's services in memory, for the tests of this folder.

use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tonic::{service::Routes, transport::Endpoint};
use tower::service_fn;

use super::Runtime;

/// Returns a client of a runtime of this name that has these services.
pub(super) fn runtime(name: &str, services: Routes) -> Runtime {
    let connector = service_fn(move |_| {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let service = TowerToHyperService::new(services.clone());
        let server =
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(far), service);
        tokio::spawn(server);
        std::future::ready(Ok::<_, std::io::Error>(TokioIo::new(near)))
    });
    let channel = Endpoint::from_static("http://runtime").connect_with_connector_lazy(connector);
    let runtime = Runtime::new(channel, None);
    runtime.name.set(name.to_owned()).unwrap();
    runtime
}
