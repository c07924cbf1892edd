//! The configuration of MetaServer.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};

use objectstore::Store;
use tokio::sync::watch;
use tracing::warn;

use super::{Error, database};
use crate::{
    config::{Config, MetaServer, TlsFiles},
    edgemesh::dns,
    metamanager::{
        AccountAuthentication, Authentication, InCluster, InClusterCa, Loopback, MetaServerConfig,
        TokenRules,
    },
};

/// The defaults of EdgeCore's configuration.
const DEFAULT_CERT: &str = "/etc/kubeedge/certs/server.crt";
const DEFAULT_CA: &str = "/etc/kubeedge/ca/rootCA.crt";

/// The files of the node's CA for the Service `default/kubernetes`, beside the node's own certificate.
const IN_CLUSTER_CA_FILES: [&str; 2] = ["in-cluster-ca.crt", "in-cluster-ca.key"];
/// The files of a requested certificate and its key, beside the node's own.
const REQUESTED_CERT_FILE: &str = "metaserver.crt";
const REQUESTED_KEY_FILE: &str = "metaserver.key";

/// Returns the configuration; `None` if MetaServer is not needed.
pub(super) fn config(
    config: &Config,
    copies: Option<Arc<dyn Store>>,
) -> Result<Option<MetaServerConfig>, Error> {
    let Some(server) = &config.meta_manager.meta_server else {
        if config.edge_mesh.is_none() {
            return Ok(None);
        }
        // EdgeMesh reads Services through it
        let (copies, address) = (
            copies.ok_or(Error::NoCopies)?,
            (Ipv4Addr::LOCALHOST, 0).into(),
        );
        return Ok(Some(MetaServerConfig {
            address,
            copies,
            authentication: Authentication::InProcessOnly,
        }));
    };
    let copies = copies.ok_or(Error::NoCopies)?;
    if !config.require_authorization && !server.server.ip().is_loopback() {
        return Err(Error::OpenMetaServer(server.server));
    }
    let directory = database(config)
        .parent()
        .unwrap_or(Path::new("/"))
        .to_owned();
    let authentication = if config.require_authorization {
        let (tls, requested) = files(&config.edge_hub.tls, server);
        let tokens = TokenRules {
            issuers: server.issuers.clone(),
            audiences: server.audiences.clone(),
            key_files: server.key_files.clone(),
        };
        let in_cluster = in_cluster(config, &tls);
        Authentication::Accounts(AccountAuthentication {
            in_cluster,
            pods_address: server.dummy_server,
            tls,
            requested,
            tokens,
            directory,
        })
    } else {
        Authentication::Loopback(Loopback {
            anonymous: server.anonymous_auth,
            directory,
            group: server.client_group.clone(),
            hosts: server.allowed_hosts.clone(),
        })
    };
    Ok(Some(MetaServerConfig {
        address: server.server,
        copies,
        authentication,
    }))
}

/// Returns how MetaServer is served at the address of the Service `default/kubernetes`: if EdgeMesh delivers that address to
/// this machine.
fn in_cluster(config: &Config, tls: &TlsFiles) -> Option<InCluster> {
    config.edge_mesh.as_ref()?;
    let domain = Some(config.edged.cluster_domain.as_str()).filter(|domain| !domain.is_empty());
    let domain = domain
        .unwrap_or(dns::DEFAULT_DOMAIN)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let files = in_cluster_files(&config.edge_hub.tls.cert);
    match InClusterCa::load_or_make(&files, &config.node.name, &domain) {
        Ok(ca) => {
            let client_ca = tls.ca.clone();
            Some(InCluster {
                ca: Arc::new(ca),
                client_ca,
                addresses: watch::Sender::default(),
            })
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            warn!(
                error,
                "failed to load the CA for pods; pods cannot reach MetaServer at default/kubernetes"
            );
            None
        }
    }
}

/// Returns the paths of the node's CA for the Service `default/kubernetes`, certificate and key.
pub(crate) fn in_cluster_files(node_cert: &Path) -> [PathBuf; 2] {
    IN_CLUSTER_CA_FILES.map(|name| node_cert.with_file_name(name))
}

/// Returns the certificate, its key and the CA of clients, and whether the certificate has to be requested: it has if the
/// configuration names only the node's own, which is a client's and invalid for servers.
fn files(node: &TlsFiles, server: &MetaServer) -> (TlsFiles, bool) {
    let written = &server.tls;
    if written.cert != node.cert && written.cert != Path::new(DEFAULT_CERT) {
        return (written.clone(), false);
    }
    let ca = if written.ca == Path::new(DEFAULT_CA) {
        &node.ca
    } else {
        &written.ca
    };
    let [cert, key] = requested_files(&node.cert);
    (
        TlsFiles {
            ca: ca.clone(),
            cert,
            key,
        },
        true,
    )
}

/// Returns the paths of a requested certificate and its key.
pub(crate) fn requested_files(node_cert: &Path) -> [PathBuf; 2] {
    [REQUESTED_CERT_FILE, REQUESTED_KEY_FILE].map(|name| node_cert.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_requested_where_none_is_named() {
        let tls = |cert: &str, ca: &str| TlsFiles {
            ca: ca.into(),
            cert: cert.into(),
            key: "/k".into(),
        };
        let local = ([127, 0, 0, 1], 0).into();
        let of = |node: &TlsFiles, written: TlsFiles| {
            let server = MetaServer {
                server: local,
                dummy_server: local,
                tls: written,
                issuers: Vec::new(),
                audiences: Vec::new(),
                key_files: Vec::new(),
                anonymous_auth: false,
                client_group: None,
                allowed_hosts: Vec::new(),
            };
            files(node, &server)
        };
        let node = tls("/n/node.crt", "/n/ca.crt");
        let (requested, is_requested) = of(&node, tls(DEFAULT_CERT, DEFAULT_CA));
        assert!(is_requested);
        assert_eq!(
            (requested.cert, requested.key),
            (
                PathBuf::from("/n/metaserver.crt"),
                PathBuf::from("/n/metaserver.key")
            )
        );
        assert_eq!(requested.ca, node.ca);
        assert_eq!(
            of(&node, tls("/n/node.crt", "/other.crt")).0.ca,
            PathBuf::from("/other.crt")
        );
        let own = tls("/own.crt", DEFAULT_CA);
        assert_eq!(of(&node, own.clone()), (own, false));
    }
}
