//! Keys, certificates and requests made with openssl, for the tests. The join token was signed with `openssl dgst -mac HMAC` over
//! the SEC1 DER of the CA's key; it expires at 2,000,000,000 s.

use base64::{Engine, engine::general_purpose::STANDARD};

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/openssl/", $name))
    };
}

pub(super) const CA: &str = file!("ca.pem");
pub(super) const CA_KEY: &str = file!("ca-key.pem");
pub(super) const TOKEN: &str = file!("join-token.txt");

pub(super) fn ca() -> Vec<u8> {
    der(CA)
}

pub(super) fn ca_key() -> Vec<u8> {
    der(CA_KEY)
}

pub(super) fn ca_key_pkcs8() -> Vec<u8> {
    der(file!("ca-key-pkcs8.pem"))
}

pub(super) fn key_without_public_half() -> Vec<u8> {
    der(file!("key-nopub.pem"))
}

pub(super) fn key_compressed() -> Vec<u8> {
    der(file!("key-compressed.pem"))
}

pub(super) fn key_p384() -> Vec<u8> {
    der(file!("key-p384.pem"))
}

/// `C=CN, ST=Zhejiang, L=Hangzhou, O=system:nodes, CN=system:node:edge-1`.
pub(super) fn csr_node() -> Vec<u8> {
    der(file!("csr-node.pem"))
}

/// Requests of a node that wants to be a CA, of one for the name `cloud`, and of one with an extension of its own.
pub(super) fn csrs_with_wishes() -> [Vec<u8>; 3] {
    [
        der(file!("csr-ca.pem")),
        der(file!("csr-san.pem")),
        der(file!("csr-ski.pem")),
    ]
}

/// Requests with `O=system:masters`, with two organisations, and with two common names.
pub(super) fn csrs_of_others() -> [Vec<u8>; 3] {
    [
        der(file!("csr-admin.pem")),
        der(file!("csr-two.pem")),
        der(file!("csr-twocn.pem")),
    ]
}

/// `CN=system:node:Edge_1`.
pub(super) fn csr_bad_name() -> Vec<u8> {
    der(file!("csr-bad.pem"))
}

fn der(pem: &str) -> Vec<u8> {
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(text).unwrap()
}
