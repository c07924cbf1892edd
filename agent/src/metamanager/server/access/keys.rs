//! The public keys that verify tokens: PEM files of RSA and P-256 keys.

use std::{io, path::PathBuf};

use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use x509_parser::{prelude::FromDer, x509::SubjectPublicKeyInfo};

use super::token::Token;

/// Why the keys cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read {path}; check modules.metaManager.metaServer.serviceAccountKeyFiles")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no key.
    #[error("{0} holds no public key; it must be PEM, with a section PUBLIC KEY")]
    NoKey(PathBuf),
}

/// The keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Vec<u8>>);

impl Keys {
    /// Reads all keys of these files.
    pub(super) fn read(files: &[PathBuf]) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        for path in files {
            let text = std::fs::read(path).map_err(|source| KeyError::File {
                path: path.clone(),
                source,
            })?;
            let before = keys.len();
            for section in SubjectPublicKeyInfoDer::pem_slice_iter(&text) {
                let section = section.map_err(|_| KeyError::NoKey(path.clone()))?;
                let (_, key) = SubjectPublicKeyInfo::from_der(&section)
                    .map_err(|_| KeyError::NoKey(path.clone()))?;
                keys.push(key.subject_public_key.data.to_vec());
            }
            if keys.len() == before {
                return Err(KeyError::NoKey(path.clone()));
            }
        }
        Ok(Self(keys))
    }

    /// Reports whether there is no key.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether one of the keys has signed the token.
    pub(super) fn verify(&self, token: &Token<'_>) -> bool {
        self.0.iter().any(|key| {
            let signed = token.signed.as_bytes();
            match token.algorithm.as_str() {
                "RS256" => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key)
                    .verify(signed, &token.signature)
                    .is_ok(),
                "ES256" => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
                    .verify(signed, &token.signature)
                    .is_ok(),
                // `none`, and algorithms that no cluster uses
                _ => false,
            }
        })
    }
}
