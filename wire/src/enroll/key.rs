//! P-256 keys in two encodings: SEC1 DER, which KubeEdge stores and signs tokens with, and PKCS#8, which the libraries read.
//!
//! For one curve both encodings have a fixed length and differ only in the bytes around the 32 bytes of the private key and the 65 bytes of
//! the public key. These bytes are therefore compared, not parsed.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use ring::digest::{SHA256, digest};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};

use super::CertError;

/// The bytes of SEC1 (RFC 5915) before the private key: sequence, version 1, 32 bytes.
const SEC1_HEAD: &[u8] = &[0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20];
/// The bytes of SEC1 between private and public key: `[0]` prime256v1, `[1]` a bit string.
const SEC1_MIDDLE: &[u8] = &[
    0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, //
    0xa1, 0x44, 0x03, 0x42, 0x00,
];
/// The bytes of PKCS#8 before the private key: version 0, ecPublicKey on prime256v1, and a SEC1 key without its curve.
const PKCS8_HEAD: &[u8] = &[
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, //
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, //
    0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20,
];
/// The bytes of PKCS#8 between private and public key.
const PKCS8_MIDDLE: &[u8] = &[0xa1, 0x44, 0x03, 0x42, 0x00];
/// The bytes of a public key in DER (RFC 5480) before its point.
const PUBLIC_HEAD: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, //
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const PRIVATE: usize = 32;
/// The size of an uncompressed point, bytes.
const PUBLIC: usize = 65;

/// A P-256 key pair.
pub struct EcKey {
    pub(super) pair: KeyPair,
    sec1: Vec<u8>,
}

impl EcKey {
    /// Generates a key.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn generate() -> Result<Self, CertError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let (private, public) =
            split(pair.serialized_der(), PKCS8_HEAD, PKCS8_MIDDLE).ok_or(CertError::Key)?;
        let sec1 = [SEC1_HEAD, private, SEC1_MIDDLE, public].concat();
        Ok(Self { pair, sec1 })
    }

    /// Loads a key from SEC1 DER as Go and openssl write it, with its curve and its public key.
    ///
    /// # Errors
    /// The curve or encoding is another one, or private and public key do not belong together.
    pub fn from_sec1_der(sec1: &[u8]) -> Result<Self, CertError> {
        let (private, public) = split(sec1, SEC1_HEAD, SEC1_MIDDLE).ok_or(CertError::Key)?;
        let pkcs8 = PrivatePkcs8KeyDer::from([PKCS8_HEAD, private, PKCS8_MIDDLE, public].concat());
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ECDSA_P256_SHA256)
            .map_err(|_| CertError::Key)?;
        Ok(Self {
            pair,
            sec1: sec1.to_vec(),
        })
    }

    /// Returns the private key, SEC1 DER.
    pub fn sec1_der(&self) -> &[u8] {
        &self.sec1
    }

    /// Returns the public key: an uncompressed point of 65 bytes.
    pub fn public_key(&self) -> &[u8] {
        self.pair.public_key_raw()
    }

    /// Returns the public key as a JSON Web Key (RFC 7517) for signatures, with the identifier that Kubernetes computes.
    pub fn to_jwk(&self) -> Value {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let point = self.public_key();
        let id = digest(&SHA256, &[PUBLIC_HEAD, point].concat());
        // the first byte says that the point is not compressed
        let (x, y) = point[1..].split_at((PUBLIC - 1) / 2);
        json!({"use": "sig", "kty": "EC", "kid": encode(id.as_ref()), "crv": "P-256", "alg": "ES256", "x": encode(x), "y": encode(y)})
    }

    /// Returns the private key, PKCS#8 DER.
    pub(super) fn pkcs8_der(&self) -> &[u8] {
        self.pair.serialized_der()
    }
}

impl fmt::Debug for EcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EcKey").finish_non_exhaustive()
    }
}

/// Returns the bytes of the private and the public key.
fn split<'a>(der: &'a [u8], head: &[u8], middle: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (private, rest) = der.strip_prefix(head)?.split_at_checked(PRIVATE)?;
    let public = rest.strip_prefix(middle)?;
    (public.len() == PUBLIC).then_some((private, public))
}

/// Returns the SHA-256 hash in hex.
pub fn sha256_hex(der: &[u8]) -> String {
    digest(&SHA256, der)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::enroll::vectors;

    #[test]
    fn openssl_keys_are_understood() {
        let key = EcKey::from_sec1_der(&vectors::ca_key()).unwrap();
        assert_eq!(key.sec1_der(), vectors::ca_key());
        assert_eq!(key.pkcs8_der(), vectors::ca_key_pkcs8());
    }

    #[test]
    fn generated_keys_read_back() {
        let key = EcKey::generate().unwrap();
        let again = EcKey::from_sec1_der(key.sec1_der()).unwrap();
        assert_eq!(again.pkcs8_der(), key.pkcs8_der());
        assert_eq!(again.public_key(), key.public_key());
        assert_eq!(key.public_key().len(), PUBLIC);
    }

    #[test]
    fn other_keys_are_refused() {
        let good = vectors::ca_key();
        let foreign = EcKey::generate().unwrap();
        let mixed = [&good[..good.len() - PUBLIC], foreign.public_key()].concat();
        let longer = [&good[..], &[0]].concat();
        for bad in [
            &vectors::ca_key_pkcs8(),
            &vectors::key_without_public_half(),
            &vectors::key_compressed(),
            &vectors::key_p384(),
            &mixed,
            &longer,
            &good[..good.len() - 1],
            &[],
        ] {
            assert!(
                matches!(EcKey::from_sec1_der(bad), Err(CertError::Key)),
                "{bad:02x?}"
            );
        }
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", EcKey::generate().unwrap()), "EcKey { .. }");
    }

    proptest! {
        #[test]
        fn damaged_keys_never_panic(at in 0_usize..121, byte: u8) {
            let mut der = vectors::ca_key();
            der[at] = byte;
            let _ = EcKey::from_sec1_der(&der);
        }
    }
}
