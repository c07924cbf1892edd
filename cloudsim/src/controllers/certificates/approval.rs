//! Decides whether a node gets the certificate that it requests. Pure.
//!
//! The requester is the one that the API or the hub has authenticated; neither the request's own fields nor the addresses that the node
//! reports are trusted. A node may have its name, the addresses at which the cloud sees it or that an administrator allows, and addresses
//! that only the machine itself reaches (loopback, link-local), where MetaServer listens. It never gets those of the cloud, a service or
//! another node, even if a person has approved the request.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequestSpec,
    core::v1::{Node, Service},
};
use kube::ResourceExt;
use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject};
use wire::{enroll::ServingRequest, metadata::is_metadata_address};

use crate::pki::reserved_names::is_of_a_service;

/// The signer of certificates for nodes' servers.
pub(super) const SIGNER: &str = "kubernetes.io/kubelet-serving";

const NODE_USER: &str = "system:node:";
const NODES: &str = "system:nodes";
/// The usages of such a certificate.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
const SERVER: &str = "server auth";

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Approve: the request is the node's own.
    Approve,
    /// Deny, for this reason.
    Deny(String),
    /// Wait: the node is not connected, so its address is not known.
    Wait,
    /// Leave the request to people: it is not a node's.
    Leave,
}

/// Returns the node that requests.
pub(super) fn user(spec: &CertificateSigningRequestSpec) -> Option<&str> {
    spec.username.as_deref()?.strip_prefix(NODE_USER)
}

/// Parses the request of a server certificate; a node may only request its own. Whether others may request one for a node is up to
/// whoever approves it, as in a cluster.
pub(super) fn readable(spec: &CertificateSigningRequestSpec) -> Result<ServingRequest, String> {
    let der = CertificateSigningRequestDer::from_pem_slice(&spec.request.0).map_err(|error| {
        format!("cannot read spec.request as a certificate request in PEM: {error}")
    })?;
    let wanted = ServingRequest::read(&der).map_err(|error| error.to_string())?;
    if user(spec).is_some_and(|node| node != wanted.node) {
        return Err(format!(
            "{:?} requests a certificate of node {}; a node can only request its own",
            spec.username.as_deref().unwrap_or_default(),
            wanted.node
        ));
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    if let Some(other) = usages
        .iter()
        .find(|usage| !USAGES.contains(&usage.as_str()))
    {
        return Err(format!(
            "unsupported usage {other:?}; use only {}",
            USAGES.join(", ")
        ));
    }
    if !usages.iter().any(|usage| usage == SERVER) {
        return Err(format!("usage {SERVER:?} is missing; add it"));
    }
    Ok(wanted)
}

/// The annotation of a Node with the names and addresses that an administrator allows it, separated by commas. Nodes cannot write it.
pub(super) const ALLOWED: &str = "node-restriction.kubernetes.io/serving-names";

/// The metadata service of many clouds, which issues credentials.
const METADATA_SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Reports whether a cloud's metadata service is there. Of link-local addresses it is one; a node may have others.
fn is_metadata_service(address: IpAddr) -> bool {
    address == METADATA_SERVICE || is_metadata_address(address) && !is_link_local(&address)
}

/// The names that a node may have, besides its own.
#[derive(Debug, Default)]
pub(super) struct NodeNames {
    /// The address from which it is connected.
    pub(super) seen: Option<IpAddr>,
    /// Whether other nodes are connected from the same address.
    pub(super) is_shared: bool,
    /// The names that an administrator allows.
    pub(super) allowed: Vec<String>,
}

impl NodeNames {
    /// Reads the annotation of the Node.
    pub(super) fn allowed_by(node: Option<&Node>) -> Vec<String> {
        let written = node.and_then(|node| node.annotations().get(ALLOWED));
        let texts = written.into_iter().flat_map(|text| text.split(','));
        texts
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }
}

/// The names and addresses that no node may have.
#[derive(Debug, Default)]
pub(super) struct ReservedNames {
    names: BTreeSet<String>,
    /// Names of nodes; a node may have its own.
    nodes: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl ReservedNames {
    /// Collects those of the cloud, of services, and of nodes.
    pub(super) fn new(
        cloud: &[String],
        services: &[Service],
        nodes: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut reserved = Self {
            nodes: nodes.into_iter().collect(),
            ..Self::default()
        };
        cloud.iter().for_each(|name| reserved.add(name));
        for service in services {
            reserved.add(&format!(
                "{}.{}",
                service.name_any(),
                service.namespace().unwrap_or_default()
            ));
            let spec = service.spec.as_ref();
            let lists = spec
                .into_iter()
                .flat_map(|spec| [&spec.cluster_ips, &spec.external_ips]);
            lists
                .flatten()
                .flatten()
                .for_each(|address| reserved.add(address));
            spec.and_then(|spec| spec.cluster_ip.as_ref())
                .into_iter()
                .for_each(|address| reserved.add(address));
            let status = service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.as_ref());
            for at in status
                .into_iter()
                .flat_map(|status| status.ingress.iter().flatten())
            {
                [&at.ip, &at.hostname]
                    .into_iter()
                    .flatten()
                    .for_each(|name| reserved.add(name));
            }
        }
        reserved
    }

    fn add(&mut self, name: &str) {
        match name.parse::<IpAddr>() {
            Ok(address) => drop(self.addresses.insert(address.to_canonical())),
            Err(_) => drop(self.names.insert(name.to_ascii_lowercase())),
        }
    }

    fn has_name(&self, node: &str, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        is_of_a_service(&name)
            || name.contains('*')
            || (name != "localhost" && self.names.contains(&name))
            || (name != node && self.nodes.contains(&name))
    }

    fn has_address(&self, address: IpAddr) -> bool {
        !address.is_loopback()
            && (self.addresses.contains(&address)
                || is_metadata_service(address)
                || address.is_unspecified()
                || address.is_multicast())
    }

    /// Returns the first name or address of the request that no node may have.
    pub(super) fn find(&self, wanted: &ServingRequest) -> Option<String> {
        let name = wanted
            .names
            .iter()
            .find(|name| self.has_name(&wanted.node, name))
            .cloned();
        let address = || {
            wanted
                .addresses
                .iter()
                .find(|address| self.has_address(address.to_canonical()))
        };
        name.or_else(|| address().map(ToString::to_string))
    }
}

/// Decides about a request.
pub(super) fn decide(
    spec: &CertificateSigningRequestSpec,
    names: &NodeNames,
    reserved: &ReservedNames,
) -> Decision {
    if user(spec).is_none() || !spec.groups.iter().flatten().any(|group| group == NODES) {
        return Decision::Leave;
    }
    let wanted = match readable(spec) {
        Ok(wanted) => wanted,
        Err(why) => return Decision::Deny(why),
    };
    if let Some(never) = reserved.find(&wanted) {
        return Decision::Deny(format!(
            "{never} belongs to the cloud, a service or another node; request other names"
        ));
    }
    let is_allowed = |text: &str| {
        names
            .allowed
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(text))
    };
    let name = |name: &String| name == "localhost" || *name == wanted.node || is_allowed(name);
    let address = |address: &IpAddr| {
        let address = address.to_canonical();
        let is_seen = names
            .seen
            .is_some_and(|seen| seen.to_canonical() == address)
            && !names.is_shared;
        address.is_loopback()
            || is_link_local(&address)
            || is_seen
            || is_allowed(&address.to_string())
    };
    let strange = wanted.names.iter().find(|one| !name(one)).cloned();
    let elsewhere = wanted
        .addresses
        .iter()
        .find(|one| !address(one))
        .map(ToString::to_string);
    match (strange, elsewhere) {
        (None, None) => Decision::Approve,
        (None, Some(_)) if names.seen.is_none() => Decision::Wait,
        (Some(strange), _) | (None, Some(strange)) => Decision::Deny(format!(
            "{strange} is not known to belong to node {}; request loopback and link-local addresses, the node's name, the address that only \
             this node is connected from, or names in the annotation {ALLOWED} of the Node",
            wanted.node
        )),
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;
    use wire::enroll::{Csr, pem_certificate_request};

    use super::*;

    fn request(node: &str, addresses: &[&str]) -> CertificateSigningRequestSpec {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let csr = Csr::for_server(node, &addresses).unwrap();
        CertificateSigningRequestSpec {
            request: ByteString(pem_certificate_request(csr.der()).into_bytes()),
            signer_name: SIGNER.into(),
            usages: Some(vec!["digital signature".into(), SERVER.into()]),
            username: Some("system:node:edge-1".into()),
            groups: Some(vec![NODES.into(), "system:authenticated".into()]),
            ..CertificateSigningRequestSpec::default()
        }
    }

    /// Of a node that is connected from 192.0.2.7; 192.0.2.1 and 169.254.0.9 are the cloud's.
    fn decision(spec: &CertificateSigningRequestSpec) -> Decision {
        let known = NodeNames {
            seen: Some([192, 0, 2, 7].into()),
            ..NodeNames::default()
        };
        decide(spec, &known, &reserved_names())
    }

    fn reserved_names() -> ReservedNames {
        let service = |name: &str, address: &str| {
            let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": address, "externalIPs": ["192.0.2.66"]}});
            serde_json::from_value::<Service>(object).unwrap()
        };
        let cloud = ["127.0.0.1", "192.0.2.1", "169.254.0.9", "cloud-1"].map(str::to_owned);
        let services = [
            service("kubernetes", "10.96.0.1"),
            service("web", "10.96.0.7"),
        ];
        ReservedNames::new(&cloud, &services, ["edge-1", "edge-2"].map(str::to_owned))
    }

    #[test]
    fn addresses_are_those_that_the_cloud_knows_of_or_denied() {
        for good in [
            ["127.0.0.1", "169.254.30.10"],
            ["::1", "fe80::1"],
            ["192.0.2.7", "127.0.0.2"],
        ] {
            assert_eq!(
                decision(&request("edge-1", &good)),
                Decision::Approve,
                "{good:?}"
            );
        }
        // another's, the cloud's, services'
        let never = [
            "192.0.2.1",
            "169.254.0.9",
            "10.96.0.1",
            "10.96.0.7",
            "192.0.2.66",
            "169.254.169.254",
            "0.0.0.0",
            "::ffff:10.96.0.1",
        ];
        for bad in ["192.0.2.8", "8.8.8.8"].into_iter().chain(never) {
            let Decision::Deny(why) = decision(&request("edge-1", &["127.0.0.1", bad])) else {
                panic!("{bad}")
            };
            assert!(
                why.contains("is not known to belong") || never.contains(&bad),
                "{why}"
            );
            let allowed = NodeNames {
                seen: Some(bad.parse().unwrap()),
                allowed: vec![bad.to_owned()],
                is_shared: false,
            };
            let decision = decide(&request("edge-1", &[bad]), &allowed, &reserved_names());
            assert_eq!(
                decision == Decision::Approve,
                !never.contains(&bad),
                "{bad}: {decision:?}"
            );
        }
        let shared = NodeNames {
            seen: Some([192, 0, 2, 7].into()),
            is_shared: true,
            allowed: Vec::new(),
        };
        assert!(matches!(
            decide(
                &request("edge-1", &["192.0.2.7"]),
                &shared,
                &reserved_names()
            ),
            Decision::Deny(_)
        ));
        assert_eq!(
            decide(
                &request("edge-1", &["192.0.2.7"]),
                &NodeNames::default(),
                &reserved_names()
            ),
            Decision::Wait
        );
        assert_eq!(
            decide(
                &request("edge-1", &["127.0.0.1"]),
                &NodeNames::default(),
                &reserved_names()
            ),
            Decision::Approve
        );
    }

    #[test]
    fn names_are_the_nodes_own_and_nobody_elses() {
        let ask = |node: &str, name: &str, allowed: &[&str]| {
            let mut wanted = serving_request(node);
            (wanted.names, wanted.addresses) = (vec![name.to_owned()], Vec::new());
            let known = NodeNames {
                allowed: allowed.iter().map(|one| (*one).to_owned()).collect(),
                ..NodeNames::default()
            };
            reserved_names().find(&wanted).is_none()
                && (name == node || known.allowed.iter().any(|one| one == name))
        };
        assert!(
            ask("edge-1", "edge-1", &[])
                && ask("edge-1", "gate.example.com", &["gate.example.com"])
        );
        for never in [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "Web.Default",
            "web.default.svc",
            "cloud-1",
            "edge-2",
            "*.example.com",
            "x.cluster.local.",
        ] {
            assert!(!ask("edge-1", never, &[never]), "{never}");
            // nor by calling itself so
            assert!(never == "edge-2" || !ask(never, never, &[never]), "{never}");
        }
    }

    fn serving_request(node: &str) -> ServingRequest {
        let node = node.to_ascii_lowercase().replace('*', "x");
        let csr = Csr::for_server(node.trim_end_matches('.'), &[[127, 0, 0, 1].into()]).unwrap();
        let mut wanted = ServingRequest::read(csr.der()).unwrap();
        wanted.node = node;
        wanted
    }

    #[test]
    fn a_node_asks_for_itself_and_for_a_server() {
        let good = request("edge-1", &["127.0.0.1"]);
        let denied =
            |spec: CertificateSigningRequestSpec| matches!(decision(&spec), Decision::Deny(_));
        assert!(denied(request("edge-2", &["127.0.0.1"])));
        assert!(denied(CertificateSigningRequestSpec {
            usages: None,
            ..good.clone()
        }));
        assert!(denied(CertificateSigningRequestSpec {
            usages: Some(vec![SERVER.into(), "client auth".into()]),
            ..good.clone()
        }));
        assert!(denied(CertificateSigningRequestSpec {
            request: ByteString(b"nonsense".to_vec()),
            ..good.clone()
        }));
        for (username, groups) in [
            ("admin", vec![NODES]),
            ("system:node:edge-1", vec!["system:authenticated"]),
        ] {
            let groups = Some(groups.into_iter().map(str::to_owned).collect());
            let spec = CertificateSigningRequestSpec {
                username: Some(username.into()),
                groups,
                ..good.clone()
            };
            assert_eq!(decision(&spec), Decision::Leave, "{username}");
        }
    }
}
