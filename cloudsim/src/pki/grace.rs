//! Certificates that expired a short while ago, and are to be renewed with themselves.
//!
//! A node that was switched off, or offline, when it should have renewed its certificate comes back without a person's help.
//! Everything else about the certificate is checked as for any other.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use wire::enroll::validity_of;

/// Judges a certificate that has just expired as it would have been judged at its end.
#[derive(Debug)]
pub(super) struct Lenient {
    strict: Arc<dyn ClientCertVerifier>,
    grace: Duration,
}

impl Lenient {
    pub(super) fn new(strict: Arc<dyn ClientCertVerifier>, grace: Duration) -> Self {
        Self { strict, grace }
    }
}

/// The time at which a certificate that ends at `end` is judged, each since 1970.
fn judged_at(end: Option<Duration>, grace: Duration, now: Duration) -> Duration {
    match end {
        Some(end) if now > end && now - end <= grace => end,
        _ => now,
    }
}

impl ClientCertVerifier for Lenient {
    fn offer_client_auth(&self) -> bool {
        self.strict.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.strict.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let end = validity_of(end_entity).ok().and_then(|(_, end)| end.duration_since(UNIX_EPOCH).ok());
        let at = judged_at(end, self.grace, Duration::from_secs(now.as_secs()));
        self.strict.verify_client_cert(end_entity, intermediates, UnixTime::since_unix_epoch(at))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_certificate_that_has_just_expired_is_judged_at_its_end() {
        let seconds = Duration::from_secs;
        let at = |end: u64, now: u64| judged_at(Some(seconds(end)), seconds(60), seconds(now)).as_secs();
        assert_eq!((at(1000, 999), at(1000, 1000)), (999, 1000), "good");
        assert_eq!((at(1000, 1001), at(1000, 1060)), (1000, 1000), "just expired");
        assert_eq!((at(1000, 1061), at(1000, u64::MAX)), (1061, u64::MAX), "too long ago");
        assert_eq!(judged_at(None, seconds(60), seconds(7)), seconds(7), "no certificate");
    }
}
