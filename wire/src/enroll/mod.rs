//! How a node gets its identity: a CA, a join token that pins it, a certificate request, a certificate. No IO and no clock: bytes in, bytes
//! out, and the time is a parameter.
//!
//! The cloud keeps a [`Ca`] and hands out join tokens ([`Token::mint`]). A node fetches the CA from [`CA_PATH`], compares it with its token
//! ([`Token::check_ca`]), and sends a request ([`Csr`]) with the token's second half to [`EDGE_CERT_PATH`]. The cloud checks the token
//! ([`verify_bearer`]) and signs ([`Ca::sign_edge`]). From then on [`identity_of`] gives the owner of a connection.
//!
//! Source: KubeEdge's certificate manager (EdgeHub), HTTPS endpoints (CloudHub) and token package. All keys are ECDSA P-256.

mod ca;
mod csr;
mod error;
mod identity;
mod jwt;
mod key;
mod pem;
mod serving;
mod token;
mod usage;

pub use self::{
    ca::Ca,
    csr::Csr,
    error::{CertError, TokenError},
    identity::{Identity, identity_of, is_node_name, key_sha256_of, validity_of},
    jwt::{install_crypto, verify_es256, verify_es256_within},
    key::{EcKey, sha256_hex},
    pem::{pem_certificate, pem_certificate_request, pem_ec_private_key},
    serving::{ServingRequest, node_of_request, server_names_of},
    token::{Claims, Token, TokenScope, verify_bearer},
    usage::Usage,
};

/// Path of the CA certificate: `GET` returns DER. It needs no authentication.
pub const CA_PATH: &str = "/ca.crt";
/// Path of the certificate endpoint: `GET` with the DER request as body returns the certificate, DER. It needs a bearer token.
pub const EDGE_CERT_PATH: &str = "/edge.crt";
/// The path below which each node of the cluster has a page: `GET` returns 200 if the Node exists, 404 if not.
pub const NODE_PATH: &str = "/node/";
/// The response body of `/node/NAME` if an agent is connected as that node; `CloudCore`'s is empty.
pub const NODE_IS_CONNECTED: &str = "connected";
/// The same for a name that a join token does not give before it is freed.
pub const NODE_NAME_IS_TAKEN: &str = "taken";
/// The same for a name of a Node that a join token gives.
pub const NODE_NAME_IS_FREE: &str = "free";
/// Header of [`EDGE_CERT_PATH`] with the node's name.
pub const NODE_NAME_HEADER: &str = "nodename";
/// Header of [`EDGE_CERT_PATH`] with the certificate's usages, as parsed by [`Usage::parse_header`]. Optional.
pub const EXT_KEY_USAGES_HEADER: &str = "extkeyusages";

#[cfg(test)]
mod vectors;
