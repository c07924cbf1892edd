//! The live page of a cloud: beside its own API, or at a port of its own before the API server of a cluster.

use std::net::SocketAddr;

use kubeapi::serve::{HandlerService, Server};
use record::{Side, Window};

use super::{
    Options, StartError,
    backed::{ClusterError, ClusterOptions},
};
use crate::{
    admin::{Admin, ApiWithAdmin, ClusterApi, UserApi},
    page::Page,
    pki::{self, Pki},
    tasks::Tasks,
};

/// Returns the live page, and the recorder whose messages it shows.
pub(super) fn create(options: &Options) -> (Option<Page>, record::Recorder) {
    let is_on = match &options.cluster {
        None => options.page,
        Some(cluster) => cluster.page_port.is_some(),
    };
    if !is_on {
        return (None, options.recorder.clone());
    }
    let program = format!("cloudsim {}", env!("CARGO_PKG_VERSION"));
    let window = Window::new(&program, Side::Cloud);
    let recorder = options.recorder.with_window(window.clone());
    let page = Page::new(window, &options.names);
    let page = match options.cluster {
        None => page,
        Some(_) => page.keep_tokens(),
    };
    (Some(page), recorder)
}

/// Serves the page before a cluster, if it is on; returns its address.
pub(super) async fn serve(
    options: &Options,
    cluster: &ClusterOptions,
    admin: Admin,
    pki: &Pki,
    tasks: &Tasks,
) -> Result<Option<SocketAddr>, StartError> {
    let Some(port) = cluster.page_port else {
        return Ok(None);
    };
    let server = cluster.config.cluster_url.to_string();
    let api = ClusterApi::new(&cluster.config)
        .map_err(|source| ClusterError::Client { server, source })?;
    let api = UserApi::Cluster(api);
    let at = SocketAddr::new(options.address, port);
    let tls = pki::api_tls(pki.server())?;
    let service = HandlerService(ApiWithAdmin { api, admin });
    let server = Server::bind(at, Some(tls), service).await;
    let server = server.map_err(|source| StartError::Bind {
        server: "live page",
        option: "--ui-port",
        source,
    })?;
    let address = server.local_addr();
    tasks.spawn("live page", server.run(tasks.child_token()));
    Ok(Some(address))
}
