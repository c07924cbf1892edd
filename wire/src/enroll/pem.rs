//! PEM text (RFC 7468), as KubeEdge writes its files.

use base64::{Engine, engine::general_purpose::STANDARD};

/// The line length of PEM, characters.
const WIDTH: usize = 64;

/// Encodes a certificate as PEM.
pub fn pem_certificate(der: &[u8]) -> String {
    pem("CERTIFICATE", der)
}

/// Encodes a certificate request as PEM.
pub fn pem_certificate_request(der: &[u8]) -> String {
    pem("CERTIFICATE REQUEST", der)
}

/// Encodes a private key in SEC1 DER as PEM.
pub fn pem_ec_private_key(sec1_der: &[u8]) -> String {
    pem("EC PRIVATE KEY", sec1_der)
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for (index, character) in STANDARD.encode(der).chars().enumerate() {
        if index > 0 && index % WIDTH == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    if !der.is_empty() {
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enroll::vectors;

    #[test]
    fn it_is_what_openssl_writes() {
        assert_eq!(pem_ec_private_key(&vectors::ca_key()), vectors::CA_KEY);
        assert_eq!(pem_certificate(&vectors::ca()), vectors::CA);
    }

    #[test]
    fn full_lines_and_nothing_at_all() {
        assert_eq!(
            pem("X", &[0; 48]),
            format!("-----BEGIN X-----\n{}\n-----END X-----\n", "A".repeat(64))
        );
        assert_eq!(pem("X", &[]), "-----BEGIN X-----\n-----END X-----\n");
    }
}
