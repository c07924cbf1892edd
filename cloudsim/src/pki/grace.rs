//! Certificates that expired recently and may still be used to renew themselves.
//!
//! A node that was switched off or offline when it should have renewed its certificate can return without manual help. Everything else
//! about the certificate is verified as usual.

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

/// Verifies a recently expired certificate as of its last valid moment.
#[derive(Debug)]
pub(super) struct GraceVerifier {
    strict: Arc<dyn ClientCertVerifier>,
    grace: Duration,
}

impl GraceVerifier {
    pub(super) fn new(strict: Arc<dyn ClientCertVerifier>, grace: Duration) -> Self {
        Self { strict, grace }
    }
}

/// Returns the time as of which a certificate that ends at `end` is verified; all are durations since 1970.
fn verification_time(end: Option<Duration>, grace: Duration, now: Duration) -> Duration {
    match end {
        Some(end) if now > end && now - end <= grace => end,
        _ => now,
    }
}

impl ClientCertVerifier for GraceVerifier {
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
        let at = verification_time(end, self.grace, Duration::from_secs(now.as_secs()));
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
        let at =
            |end: u64, now: u64| verification_time(Some(seconds(end)), seconds(60), seconds(now)).as_secs();
        assert_eq!((at(1000, 999), at(1000, 1000)), (999, 1000), "good");
        assert_eq!((at(1000, 1001), at(1000, 1060)), (1000, 1000), "just expired");
        assert_eq!((at(1000, 1061), at(1000, u64::MAX)), (1061, u64::MAX), "too long ago");
        assert_eq!(verification_time(None, seconds(60), seconds(7)), seconds(7), "no certificate");
    }
}
