//! Whether a node gets the certificate that it asks for: pure.
//!
//! Who asks is what the API or the hub has written down of the connection; the request's own words count for nothing. Addresses
//! are MetaServer's own where nobody else can have them (loopback, link-local), or where the node is reached there; never where
//! the cloud is, whom a node could then pretend to be.

use std::net::IpAddr;

use k8s_openapi::api::{certificates::v1::CertificateSigningRequestSpec, core::v1::Node};
use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject};
use wire::enroll::ServingRequest;

/// The signer of certificates for nodes' servers.
pub(super) const SIGNER: &str = "kubernetes.io/kubelet-serving";

const NODE_USER: &str = "system:node:";
const NODES: &str = "system:nodes";
/// What such a certificate is for.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
const SERVER: &str = "server auth";

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Approve,
    /// Never; the text says why.
    Deny(String),
    /// It is no node's: people decide.
    Leave,
}

/// The node that asks.
pub(super) fn user(spec: &CertificateSigningRequestSpec) -> Option<&str> {
    spec.username.as_deref()?.strip_prefix(NODE_USER)
}

/// What is asked for, if it is the node that asks for itself, and for a server.
pub(super) fn readable(spec: &CertificateSigningRequestSpec) -> Result<ServingRequest, String> {
    let der = CertificateSigningRequestDer::from_pem_slice(&spec.request.0)
        .map_err(|error| format!("spec.request is no certificate request in PEM: {error}"))?;
    let wanted = ServingRequest::read(&der).map_err(|error| error.to_string())?;
    if user(spec) != Some(wanted.node.as_str()) {
        return Err(format!(
            "{:?} asks for a certificate of node {}: nodes ask for themselves",
            spec.username.as_deref().unwrap_or_default(),
            wanted.node
        ));
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    if let Some(other) = usages.iter().find(|usage| !USAGES.contains(&usage.as_str())) {
        return Err(format!("the usage {other:?} is not one of {}", USAGES.join(", ")));
    }
    if !usages.iter().any(|usage| usage == SERVER) {
        return Err(format!("the usage {SERVER:?} is missing"));
    }
    Ok(wanted)
}

/// Decides. `node`: who asks, as the API knows it; `cloud`: the names and addresses of the cloud.
pub(super) fn judge(spec: &CertificateSigningRequestSpec, node: Option<&Node>, cloud: &[String]) -> Verdict {
    if user(spec).is_none() || !spec.groups.iter().flatten().any(|group| group == NODES) {
        return Verdict::Leave;
    }
    let wanted = match readable(spec) {
        Ok(wanted) => wanted,
        Err(why) => return Verdict::Deny(why),
    };
    let status = node.and_then(|node| node.status.as_ref());
    let own: Vec<&str> = status
        .into_iter()
        .flat_map(|status| status.addresses.iter().flatten())
        .map(|own| own.address.as_str())
        .collect();
    let is_clouds = |name: &str| cloud.iter().any(|of_cloud| of_cloud.eq_ignore_ascii_case(name));
    let name = |name: &String| {
        name == "localhost" || (!is_clouds(name) && (*name == wanted.node || own.contains(&name.as_str())))
    };
    let address = |address: &IpAddr| {
        let text = address.to_string();
        address.is_loopback()
            || (!is_clouds(&text) && (is_link_local(address) || own.contains(&text.as_str())))
    };
    let strange = wanted.names.iter().find(|one| !name(one)).cloned();
    let strange =
        strange.or_else(|| wanted.addresses.iter().find(|one| !address(one)).map(ToString::to_string));
    match strange {
        None => Verdict::Approve,
        Some(strange) => Verdict::Deny(format!(
            "{strange} is not node {}'s: it may ask for loopback and link-local addresses, its name, and what stands in its status.addresses",
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

    fn verdict(spec: &CertificateSigningRequestSpec) -> Verdict {
        let addresses = json!([{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "InternalIP", "address": "192.0.2.1"}]);
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": "edge-1"}, "status": {"addresses": addresses}}),
        )
        .unwrap();
        judge(spec, Some(&node), &["127.0.0.1".into(), "192.0.2.1".into(), "169.254.0.9".into()])
    }

    #[test]
    fn addresses_are_the_nodes_own_or_denied() {
        for good in [["127.0.0.1", "169.254.30.10"], ["::1", "fe80::1"], ["192.0.2.7", "127.0.0.2"]] {
            assert_eq!(verdict(&request("edge-1", &good)), Verdict::Approve, "{good:?}");
        }
        // another's, the cloud's (though the node says it is its own), the cloud's link-local one
        for bad in ["192.0.2.8", "8.8.8.8", "192.0.2.1", "169.254.0.9"] {
            let Verdict::Deny(why) = verdict(&request("edge-1", &["127.0.0.1", bad])) else {
                panic!("{bad}")
            };
            assert!(why.contains(bad), "{why}");
        }
    }

    #[test]
    fn a_node_asks_for_itself_and_for_a_server() {
        let good = request("edge-1", &["127.0.0.1"]);
        let denied = |spec: CertificateSigningRequestSpec| matches!(verdict(&spec), Verdict::Deny(_));
        assert!(denied(request("edge-2", &["127.0.0.1"])));
        assert!(denied(CertificateSigningRequestSpec { usages: None, ..good.clone() }));
        assert!(denied(CertificateSigningRequestSpec {
            usages: Some(vec![SERVER.into(), "client auth".into()]),
            ..good.clone()
        }));
        assert!(denied(CertificateSigningRequestSpec {
            request: ByteString(b"nonsense".to_vec()),
            ..good.clone()
        }));
        for (username, groups) in
            [("admin", vec![NODES]), ("system:node:edge-1", vec!["system:authenticated"])]
        {
            let groups = Some(groups.into_iter().map(str::to_owned).collect());
            let spec =
                CertificateSigningRequestSpec { username: Some(username.into()), groups, ..good.clone() };
            assert_eq!(verdict(&spec), Verdict::Leave, "{username}");
        }
    }
}
