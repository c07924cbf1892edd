//! Starts EdgeMesh, if enabled.

use std::{collections::BTreeSet, net::IpAddr};

use componentbase::{Supervisor, addresses};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::unserved::UnservedServices;
use crate::{
    config::{self, Config},
    edgemesh::{self, EdgeMesh, dns, relay},
    metamanager::{MetaManager, MetaServer, ensure_address},
};

/// The file of the node's resolvers, used if no others are configured.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Starts EdgeMesh, which reads from MetaServer and serves it at the address of the Service `default/kubernetes` as well.
pub(super) fn start(
    config: &Config,
    (meta, meta_server): (&MetaManager, Option<&MetaServer>),
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Option<EdgeMesh> {
    let settings = config.edge_mesh.clone()?;
    let relay = settings.relay.clone().map(|server| relay::Config {
        node: config.node.name.clone(),
        server,
        tls: config.edge_hub.tls.clone(),
    });
    let (mesh, task, relayed) = edgemesh::new(edgemesh::Config {
        node: config.node.name.clone(),
        settings,
        services: meta_server?.client(),
        own: meta.client(),
        api: meta_server?
            .in_cluster()
            .map(|in_cluster| in_cluster.addresses.clone()),
        relay,
    });
    supervisor.supervise_optional("edgemesh", task, shutdown);
    if let Some(relayed) = relayed {
        supervisor.supervise_optional("edgemesh-relay", relayed, shutdown);
    }
    let unserved = UnservedServices::new(
        meta.client(),
        config.node.name.clone(),
        mesh.unserved_names(),
    );
    supervisor.supervise_optional("unserved-services", unserved, shutdown);
    Some(mesh)
}

/// Records that this agent adds addresses of Services; if EdgeMesh is disabled, removes what a killed agent with this record has left.
/// Without the record, the addresses are those of another agent on this machine.
pub(super) async fn record_addresses(config: &Config) {
    let record = super::mesh_record(config);
    if config.edge_mesh.is_some() {
        if let Err(error) = clock::fs::write(&record, "").await {
            warn!(
                error = &error as &dyn std::error::Error,
                file = %record.display(),
                "failed to record that EdgeMesh adds Service addresses; a reset will leave them on this machine"
            );
        }
        return;
    }
    if !record.exists() || edgemesh::is_running() {
        return;
    }
    let removed = match edgemesh::remove_addresses() {
        Ok(addresses) => {
            info!(
                addresses,
                "EdgeMesh disabled; Service addresses removed from this machine"
            );
            clock::fs::remove_file(&record).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        warn!(
            error = &error as &dyn std::error::Error,
            "failed to remove Service addresses of disabled EdgeMesh; run: ip route flush table local proto 77"
        );
    }
}

/// Starts EdgeMesh's DNS server; returns its address for pods, if they can reach it. The agent runs even if it cannot be
/// started.
pub(super) fn start_dns(
    config: &Config,
    mesh: &EdgeMesh,
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Option<IpAddr> {
    let settings = &config.edge_mesh.as_ref()?.dns;
    match dns_server(config, settings, mesh) {
        Ok((server, for_pods)) => {
            supervisor.supervise_optional("edgemesh-dns", server, shutdown);
            for_pods
        }
        Err(error) => {
            error!(
                error = &*error,
                address = %settings.address,
                "failed to start EdgeMesh's DNS server; pods resolve names as the node does. Free port 53 of \
                 the address or set modules.edgeMesh.dns.listenAddress, then restart the agent"
            );
            None
        }
    }
}

fn dns_server(
    config: &Config,
    settings: &config::Dns,
    mesh: &EdgeMesh,
) -> Result<(dns::Server, Option<IpAddr>), Box<dyn std::error::Error + Send + Sync>> {
    let domain = Some(config.edged.cluster_domain.as_str()).filter(|domain| !domain.is_empty());
    let dns = dns::Config {
        domain: dns::Zone::new(domain.unwrap_or(dns::DEFAULT_DOMAIN))?,
        upstreams: settings.upstreams.clone(),
        resolv_conf: config
            .edged
            .resolv_conf
            .clone()
            .unwrap_or_else(|| RESOLV_CONF.into()),
    };
    may_listen_at(settings.address.ip(), &addresses::own()?)?;
    let listening = dns::Listening::bind(settings.address, ensure_address)?;
    let for_pods = listening.for_pods();
    Ok((
        dns::Server::new(dns, listening, mesh.snapshots())?,
        for_pods,
    ))
}

/// Configures pods to use the DNS server, if there is one, and to trust the CA of MetaServer at the address of the Service
/// `default/kubernetes`.
pub(super) fn configure(
    edged: &mut edged::Config,
    server: Option<IpAddr>,
    meta_server: Option<&MetaServer>,
) {
    use_dns(&mut edged.node, server);
    let in_cluster = meta_server.and_then(MetaServer::in_cluster);
    edged.api_ca = in_cluster.map(|in_cluster| in_cluster.ca.certificate().into());
}

/// Checks that the server may use an address: one that the machine has, or one that it can add because no other host has it.
fn may_listen_at(address: IpAddr, own: &BTreeSet<IpAddr>) -> Result<(), String> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if is_link_local || address.is_loopback() || own.contains(&address) {
        Ok(())
    } else {
        Err(format!(
            "no interface of this machine has {address}; only link-local addresses, such as 169.254.96.16, are added to one"
        ))
    }
}

/// Configures pods to use this server, unless others are configured for them.
fn use_dns(node: &mut edged::NodeConfig, server: Option<IpAddr>) {
    let Some(server) = server.filter(|_| node.cluster_dns.is_empty()) else {
        return;
    };
    node.cluster_dns = vec![server.to_string()];
    if node.cluster_domain.is_empty() {
        dns::DEFAULT_DOMAIN.clone_into(&mut node.cluster_domain);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use testkit::{in_network_namespace, ip};

    use super::*;

    #[test]
    fn addresses_that_this_agent_has_not_recorded_stay() {
        in_network_namespace(|| {
            ip(&["link", "set", "lo", "up"]);
            let add = "route add local 10.96.0.9 dev lo table local proto 77";
            ip(&add.split(' ').collect::<Vec<_>>());
            let has_route = || ip(&["route", "show", "table", "local"]).contains("10.96.0.9");
            let directory = tempfile::tempdir().unwrap();
            let database = directory.path().join("edgecore.db");
            let text = format!("database: {{dataSource: {}}}", database.display());
            let host = config::Host::detect();
            let (config, _) = config::parse(Path::new("x"), &text, None, &host).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(record_addresses(&config));
            assert!(has_route());
            let record = super::super::mesh_record(&config);
            std::fs::write(&record, "").unwrap();
            runtime.block_on(record_addresses(&config));
            assert!(!has_route() && !record.exists());
        });
    }

    #[test]
    fn only_addresses_without_another_host_are_added_to_the_machine() {
        let own = ["192.0.2.5".parse().unwrap()].into();
        for (address, expected) in [
            ("169.254.96.16", true),
            ("fe80::1", true),
            ("127.0.0.1", true),
            ("192.0.2.5", true),
            ("192.0.2.1", false),
            ("8.8.8.8", false),
        ] {
            assert_eq!(
                may_listen_at(address.parse().unwrap(), &own).is_ok(),
                expected,
                "{address}"
            );
        }
    }

    #[test]
    fn pods_ask_the_node_unless_others_are_configured_for_them() {
        let address: IpAddr = "169.254.96.16".parse().unwrap();
        let told = |servers: &[&str], domain: &str, server| {
            let cluster_dns = servers.iter().map(ToString::to_string).collect();
            let mut node = edged::NodeConfig {
                cluster_dns,
                cluster_domain: domain.into(),
                ..edged::NodeConfig::default()
            };
            use_dns(&mut node, server);
            (node.cluster_dns.join(" "), node.cluster_domain)
        };
        assert_eq!(
            told(&[], "", Some(address)),
            ("169.254.96.16".into(), "cluster.local".into())
        );
        assert_eq!(
            told(&[], "edge", Some(address)),
            ("169.254.96.16".into(), "edge".into())
        );
        assert_eq!(
            told(&["10.96.0.10"], "", Some(address)),
            ("10.96.0.10".into(), String::new())
        );
        assert_eq!(told(&[], "edge", None), (String::new(), "edge".into()));
    }
}
