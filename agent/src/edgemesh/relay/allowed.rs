//! Which endpoints other nodes may reach over the relay: those that this node's own snapshot has for this node. Pure.

use std::net::{IpAddr, SocketAddr};

use wire::relay::{self, ConnectRequest};

use crate::edgemesh::snapshot::{Protocol, Snapshot, is_special};

/// Why an endpoint is not dialled for another node; the reason is sent to that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAllowed {
    #[error("this node has not received the Services yet")]
    NotRead,
    #[error("this node has no such Service")]
    Service,
    #[error("the Service has no such endpoint on this node")]
    Endpoint,
    #[error("the address does not belong to a pod, or belongs to a Service")]
    Address,
}

/// Returns the address to dial for another node. It is taken from this node's own snapshot: the other node cannot choose it freely.
pub(super) fn allowed_address(
    snapshot: &Snapshot,
    here: &str,
    request: &ConnectRequest,
) -> Result<SocketAddr, NotAllowed> {
    if !snapshot.synced {
        return Err(NotAllowed::NotRead);
    }
    let name = (request.namespace.clone(), request.service.clone());
    let service = snapshot.services.get(&name).ok_or(NotAllowed::Service)?;
    let protocol = match request.protocol {
        relay::Protocol::Tcp => Protocol::Tcp,
        relay::Protocol::Udp => Protocol::Udp,
    };
    let port = (request.port.clone(), protocol);
    let found = service.endpoints.iter().find_map(|endpoint| {
        let number = endpoint.ports.get(&port)?;
        let at = SocketAddr::new(endpoint.address, *number);
        (endpoint.node.as_deref() == Some(here) && at == request.endpoint).then_some(at)
    });
    let at = found.ok_or(NotAllowed::Endpoint)?;
    let is_service = |address: IpAddr| {
        snapshot
            .services
            .values()
            .any(|service| service.cluster_ips.contains(&address))
    };
    if is_special(at.ip()) || is_reserved(at.ip()) || is_service(at.ip()) {
        Err(NotAllowed::Address)
    } else {
        Ok(at)
    }
}

/// Reports whether an address belongs to "this network" (0.0.0.0/8) or to those that are reserved (240.0.0.0/4), RFC 6890.
fn is_reserved(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(four) if matches!(four.octets()[0], 0 | 240..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edgemesh::snapshot::{Endpoint, Service};

    fn endpoint(address: &str, node: Option<&str>) -> Endpoint {
        Endpoint {
            address: address.parse().unwrap(),
            hostname: None,
            node: node.map(str::to_owned),
            ready: true,
            serving: true,
            terminating: false,
            for_zones: Vec::new(),
            for_nodes: Vec::new(),
            ports: [(("http".to_owned(), Protocol::Tcp), 8080)].into(),
        }
    }

    #[test]
    fn only_endpoints_of_this_nodes_own_snapshot_are_dialled() {
        let endpoints = vec![
            endpoint("10.88.0.5", Some("edge-2")),
            endpoint("10.88.0.6", Some("edge-3")),
            endpoint("10.88.0.7", None),
            endpoint("127.0.0.1", Some("edge-2")),
            endpoint("169.254.169.254", Some("edge-2")),
            endpoint("::ffff:127.0.0.1", Some("edge-2")),
            endpoint("10.96.0.1", Some("edge-2")),
            endpoint("0.1.2.3", Some("edge-2")),
            endpoint("240.0.0.1", Some("edge-2")),
        ];
        let web = Service {
            endpoints,
            ..Service::default()
        };
        let api = Service {
            cluster_ips: vec![[10, 96, 0, 1].into()],
            ..Service::default()
        };
        let services = [(("shop", "web"), web), (("default", "kubernetes"), api)];
        let named =
            services.map(|((namespace, name), service)| ((namespace.into(), name.into()), service));
        let mut snapshot = Snapshot {
            services: named.into(),
            synced: true,
        };
        let request = |service: &str, port: &str, protocol, endpoint: &str| ConnectRequest {
            namespace: "shop".into(),
            service: service.into(),
            port: port.into(),
            protocol,
            endpoint: endpoint.parse().unwrap(),
        };
        let (tcp, udp) = (relay::Protocol::Tcp, relay::Protocol::Udp);
        let web = |endpoint| request("web", "http", tcp, endpoint);
        let refused = |reason| move |endpoint| (web(endpoint), Err(reason));
        let endpoints = [
            "10.88.0.5:22",
            "10.88.0.6:8080",
            "10.88.0.7:8080",
            "10.0.0.1:8080",
        ];
        let addresses = [
            "127.0.0.1:8080",
            "169.254.169.254:8080",
            "[::ffff:127.0.0.1]:8080",
            "10.96.0.1:8080",
            "0.1.2.3:8080",
            "240.0.0.1:8080",
        ];
        let own = "10.88.0.5:8080";
        let others = [
            (web(own), Ok(([10, 88, 0, 5], 8080).into())),
            (request("db", "http", tcp, own), Err(NotAllowed::Service)),
            (request("web", "http", udp, own), Err(NotAllowed::Endpoint)),
            (request("web", "", tcp, own), Err(NotAllowed::Endpoint)),
        ];
        let table = others
            .into_iter()
            .chain(endpoints.map(refused(NotAllowed::Endpoint)))
            .chain(addresses.map(refused(NotAllowed::Address)));
        for (asked, expected) in table {
            let allowed = allowed_address(&snapshot, "edge-2", &asked);
            assert_eq!(allowed, expected, "{asked:?}");
        }
        snapshot.synced = false;
        assert_eq!(
            allowed_address(&snapshot, "edge-2", &web(own)),
            Err(NotAllowed::NotRead)
        );
    }
}
