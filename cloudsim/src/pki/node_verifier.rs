//! Verifies nodes' certificates. One that has expired is reported, and may still renew itself for a while.
//!
//! A node that was switched off or offline when it should have renewed its certificate can return without manual help. Everything else
//! about the certificate is verified as usual.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use tokio::sync::mpsc;
use wire::enroll::{Identity, identity_of, validity_of};

/// The most reports of rejected nodes that wait.
const MAX_REPORTS: usize = 64;

/// A node with a certificate of this cloud that was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectedNode {
    /// The node that this cloud issued it for.
    pub(crate) node: String,
    /// Why it was rejected.
    pub(crate) cause: RejectionCause,
}

/// Why a node with a certificate of this cloud was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RejectionCause {
    /// Its certificate ended then.
    Expired(SystemTime),
    /// Another reason, with the cure.
    Refused(String),
}

/// Where rejected nodes are reported. Beyond the capacity they are dropped: their nodes come again.
pub(crate) type RejectionReports = mpsc::Sender<RejectedNode>;

/// Makes the channel of reports.
pub(crate) fn rejection_reports() -> (RejectionReports, mpsc::Receiver<RejectedNode>) {
    mpsc::channel(MAX_REPORTS)
}

/// Verifies a recently expired certificate as of its last valid moment, and reports one that expired before.
#[derive(Debug)]
pub(super) struct NodeVerifier {
    strict: Arc<dyn ClientCertVerifier>,
    grace: Duration,
    reports: RejectionReports,
}

impl NodeVerifier {
    pub(super) fn new(
        strict: Arc<dyn ClientCertVerifier>,
        grace: Duration,
        reports: RejectionReports,
    ) -> Self {
        Self {
            strict,
            grace,
            reports,
        }
    }

    /// Reports the node of an expired certificate of this CA. Anybody can make one that names a node: its signature is verified as of
    /// its last valid moment.
    fn report(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        end: Duration,
    ) {
        let Ok(Identity::Node(node)) = identity_of(certificate) else {
            return;
        };
        let at = UnixTime::since_unix_epoch(end);
        if self
            .strict
            .verify_client_cert(certificate, intermediates, at)
            .is_ok()
        {
            let _ = self.reports.try_send(RejectedNode {
                node,
                cause: RejectionCause::Expired(UNIX_EPOCH + end),
            });
        }
    }
}

/// Returns the time as of which a certificate that ends at `end` is verified; all are durations since 1970.
fn verification_time(end: Option<Duration>, grace: Duration, now: Duration) -> Duration {
    match end {
        Some(end) if now > end && now - end <= grace => end,
        _ => now,
    }
}

/// Reports whether a certificate was rejected because it has expired.
pub(crate) fn is_expired(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. }
        )
    )
}

impl ClientCertVerifier for NodeVerifier {
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
        let end = validity_of(end_entity)
            .ok()
            .and_then(|(_, end)| end.duration_since(UNIX_EPOCH).ok());
        let at = verification_time(end, self.grace, Duration::from_secs(now.as_secs()));
        let verified = self.strict.verify_client_cert(
            end_entity,
            intermediates,
            UnixTime::since_unix_epoch(at),
        );
        if let (Err(error), Some(end)) = (&verified, end)
            && is_expired(error)
        {
            self.report(end_entity, intermediates, end);
        }
        verified
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
        let at = |end: u64, now: u64| {
            verification_time(Some(seconds(end)), seconds(60), seconds(now)).as_secs()
        };
        assert_eq!((at(1000, 999), at(1000, 1000)), (999, 1000), "good");
        assert_eq!(
            (at(1000, 1001), at(1000, 1060)),
            (1000, 1000),
            "just expired"
        );
        assert_eq!(
            (at(1000, 1061), at(1000, u64::MAX)),
            (1061, u64::MAX),
            "too long ago"
        );
        assert_eq!(
            verification_time(None, seconds(60), seconds(7)),
            seconds(7),
            "no certificate"
        );
    }

    #[test]
    fn expired_certificates_of_this_authority_are_reported_and_no_others() {
        use rustls::{RootCertStore, crypto::ring::default_provider, server::WebPkiClientVerifier};
        use wire::enroll::{Ca, Csr, Usage};

        let (now, day) = (clock::system_now(), Duration::from_secs(24 * 3600));
        let (ours, other) = (
            Ca::generate(now - day * 30).unwrap(),
            Ca::generate(now - day * 30).unwrap(),
        );
        let certificate = |ca: &Ca, begin: SystemTime| {
            let csr = Csr::for_node("edge-1").unwrap();
            let signed = ca
                .sign_edge(csr.der(), &[Usage::ClientAuth], day, begin)
                .unwrap();
            CertificateDer::from(signed)
        };
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(ours.cert_der().to_vec()))
            .unwrap();
        let strict = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(default_provider()),
        );
        let strict = strict.build().unwrap();
        let (reports, mut expired) = rejection_reports();
        for (grace, ca, begin, is_valid, is_reported) in [
            (Duration::ZERO, &ours, now, true, false),
            (Duration::ZERO, &ours, now - day * 3, false, true),
            (day * 7, &ours, now - day * 3, true, false),
            (Duration::ZERO, &other, now - day * 3, false, false),
        ] {
            let verifier = NodeVerifier::new(strict.clone(), grace, reports.clone());
            let verified = verifier.verify_client_cert(
                &certificate(ca, begin),
                &[],
                UnixTime::since_unix_epoch(clock::since_unix_epoch()),
            );
            assert_eq!(verified.is_ok(), is_valid, "{verified:?}");
            let report = expired.try_recv().ok().map(|report| report.node);
            assert_eq!(report.as_deref(), is_reported.then_some("edge-1"));
        }
    }
}
