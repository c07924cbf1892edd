//! Verifies the certificates of the cloud's servers.

use std::sync::Arc;

use rustls::{RootCertStore, client::WebPkiServerVerifier};
use rustls_pki_types::CertificateDer;

use super::EnrollError;

/// Returns a verifier that trusts the certificates of this CA (DER).
pub(in crate::edgehub) fn verifier(ca: &[u8]) -> Result<Arc<WebPkiServerVerifier>, EnrollError> {
    let crypto = |error: &dyn std::fmt::Display| EnrollError::Crypto(error.to_string());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca.to_vec()))
        .map_err(|error| crypto(&error))?;
    WebPkiServerVerifier::builder(Arc::new(roots))
        .build()
        .map_err(|error| crypto(&error))
}
