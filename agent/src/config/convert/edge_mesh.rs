//! `modules.edgeMesh`. A disabled module is not checked.

use std::net::IpAddr;

use super::values::Values;
use crate::config::{
    file,
    typed::{DNS_PORT, Dns, EdgeMesh, Network, ServiceFilter, Strategy},
};

pub(super) fn convert(written: file::EdgeMesh, values: &mut Values<'_>) -> Option<EdgeMesh> {
    if !written.enable {
        return None;
    }
    let at = |key: &str| format!("modules.edgeMesh.{key}");
    let strategy = match written.lb_strategy.as_str() {
        "" | "Random" | "RANDOM" => Strategy::Random,
        "RoundRobin" | "ROUND_ROBIN" => Strategy::RoundRobin,
        "ConsistentHash" => Strategy::ConsistentHash,
        other => {
            let why = format!("is {other:?}, but must be Random, RoundRobin or ConsistentHash");
            values.error(&at("lbStrategy"), why);
            Strategy::default()
        }
    };
    let filter = match written.service_filter_mode.as_str() {
        "" | "FilterIfLabelExists" => ServiceFilter::LeaveOut,
        "FilterIfLabelDoesNotExists" => ServiceFilter::Only,
        other => {
            let why = format!(
                "is {other:?}, but must be FilterIfLabelExists or FilterIfLabelDoesNotExists"
            );
            values.error(&at("serviceFilterMode"), why);
            ServiceFilter::default()
        }
    };
    let node_port_addresses = networks(
        &at("nodePortAddresses"),
        &written.node_port_addresses,
        values,
    );
    let external_addresses = networks(
        &at("externalAddresses"),
        &written.external_addresses,
        values,
    );
    let dns = dns(&written.dns, values);
    let server = written.relay.server;
    let relay =
        (!server.is_empty()).then(|| values.host_port("modules.edgeMesh.relay.server", &server));
    Some(EdgeMesh {
        strategy,
        filter,
        node_port_addresses,
        external_addresses,
        dns,
        relay,
    })
}

fn networks(path: &str, written: &[String], values: &mut Values<'_>) -> Vec<Network> {
    let mut networks = Vec::new();
    for text in written {
        match Network::parse(text) {
            Some(network) => networks.push(network),
            None => {
                values.error(
                    path,
                    format!("has {text:?}, but must have networks such as 10.0.0.0/8"),
                );
            }
        }
    }
    networks
}

fn dns(written: &file::EdgeMeshDns, values: &mut Values<'_>) -> Dns {
    let mut dns = Dns::default();
    if !written.listen_address.is_empty() {
        let path = "modules.edgeMesh.dns.listenAddress";
        dns.address = values.socket(path, &written.listen_address);
        let (ip, text) = (dns.address.ip(), &written.listen_address);
        let is_broadcast = matches!(ip, IpAddr::V4(four) if four.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            values.error(
                path,
                format!("is {text:?}, but pods need the address of one machine, such as 169.254.96.16:53"),
            );
        }
    }
    for text in &written.upstream_servers {
        let server = text
            .parse()
            .map(|address: IpAddr| (address, DNS_PORT).into())
            .or_else(|_| text.parse());
        match server {
            Ok(server) => dns.upstreams.push(server),
            Err(_) => values.error(
                "modules.edgeMesh.dns.upstreamServers",
                format!("has {text:?}, but must have addresses such as 10.0.0.1 or 10.0.0.1:53"),
            ),
        }
    }
    dns
}
