//! TLS for connections that modules open: files of certificates, their renewal, and faults of a peer's certificate.

mod certificate_fault;
pub(crate) mod files;
pub(crate) mod renewal;

pub(crate) use certificate_fault::{CertificateFault, handshake_text, name_cure};
