//! Connections that are refused again and again, as from an agent of another cloud: they are logged at growing intervals.

use std::{error::Error, io, net::IpAddr, sync::Arc};

use clock::Instant;
use limits::Repeated;
use parking_lot::Mutex;
use quinn::ConnectionError;
use rustls::{AlertDescription, CertificateError};

use crate::pki::is_expired;

/// The refusals that were counted and logged; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Repeated>>);

impl Refusals {
    /// Counts a refused connection from `peer`. Returns the number of refusals if it is to be logged now.
    pub(crate) fn count(
        &self,
        peer: IpAddr,
        why: &(dyn Error + 'static),
        now: Instant,
    ) -> Option<u64> {
        let mut fault = peer.to_string();
        let mut cause = Some(why);
        while let Some(next) = cause {
            let quic = next.downcast_ref().map(kind);
            let kind = quic.or_else(|| next.downcast_ref().and_then(untimely));
            let text = kind.map_or_else(|| next.to_string(), str::to_owned);
            fault.push_str(&format!(": {text}"));
            cause = next.source();
        }
        self.0.lock().count(&fault, now)
    }
}

/// Names a kind of error of QUIC. Its text has the reason that the peer gives: with a new one each time, each would be told.
fn kind(error: &ConnectionError) -> &'static str {
    match error {
        ConnectionError::VersionMismatch => "version",
        ConnectionError::TransportError(_) => "transport",
        ConnectionError::ConnectionClosed(_) => "closed by the peer",
        ConnectionError::ApplicationClosed(_) => "closed by the peer's application",
        ConnectionError::Reset => "reset",
        ConnectionError::TimedOut => "timeout",
        ConnectionError::LocallyClosed => "closed here",
        ConnectionError::CidsExhausted => "no connection IDs",
    }
}

/// Names the fault of a certificate that is not valid at this time, whose text has the time.
fn untimely(error: &io::Error) -> Option<&'static str> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        error if is_expired(error) => Some("the certificate has expired"),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => Some("the certificate is not valid yet"),
        _ => None,
    }
}

/// Returns why a node's TLS handshake failed, and the cure.
pub(crate) fn tls_fault(error: &io::Error) -> &'static str {
    match untimely(error) {
        Some("the certificate has expired") => {
            "the node's certificate has expired: join the node again with a new token, or renew expired certificates (--renewal-grace)"
        }
        Some(_) => "the node's certificate is not valid yet: check the clocks of both machines",
        None if is_own_rejected(error) => {
            "the node rejected the cloud's certificate: run `edge-agent check` on the node; the certificate may lack the name that the \
             node dials (--name), or the node may have the CA of another cloud"
        }
        None => "the node needs a certificate of this cloud's CA",
    }
}

/// Reports whether the node has ended the handshake because of this cloud's certificate.
fn is_own_rejected(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::DecryptError
        ))
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quinn::ApplicationClose;

    use super::*;

    #[test]
    fn a_refusal_that_comes_again_is_told_ever_more_rarely_and_another_one_at_once() {
        let (refusals, begun) = (Refusals::default(), Instant::now());
        let error = |why: &str| io::Error::other(why.to_owned());
        let count = |peer: u8, why: &str, second| {
            let at = begun + Duration::from_secs(second);
            refusals.count([10, 0, 0, peer].into(), &error(why), at)
        };
        let told: Vec<u64> = (0..100)
            .filter(|second| count(1, "unknown CA", *second).is_some())
            .collect();
        assert_eq!(told, [0, 10, 30, 70]);
        assert_eq!(count(2, "unknown CA", 100), Some(1));
        assert_eq!(count(1, "no certificate", 100), Some(1));
    }

    #[test]
    fn an_expired_certificate_is_one_fault_at_any_time_and_is_named() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let error = |seconds: u64| {
            let [time, not_after] = [seconds, 1].map(|second| {
                rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(second))
            });
            io::Error::other(rustls::Error::from(CertificateError::ExpiredContext {
                time,
                not_after,
            }))
        };
        let told = (2..100).filter(|second| {
            refusals
                .count([10, 0, 0, 1].into(), &error(*second), now)
                .is_some()
        });
        assert_eq!(told.count(), 1);
        assert!(
            tls_fault(&error(2)).contains("has expired"),
            "{}",
            tls_fault(&error(2))
        );
        assert!(tls_fault(&io::Error::other("no TLS")).contains("this cloud's CA"));
        for alert in [
            AlertDescription::BadCertificate,
            AlertDescription::UnknownCA,
            AlertDescription::DecryptError,
        ] {
            let error = io::Error::other(rustls::Error::AlertReceived(alert));
            let fault = tls_fault(&error);
            assert!(fault.starts_with("the node rejected"), "{alert:?}: {fault}");
        }
    }

    #[test]
    fn reasons_that_a_peer_makes_up_are_one_fault() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let told = (0..2000).filter(|number| {
            let reason = format!("\u{1b}[31m\nERROR FAKE {number}");
            let closed = ApplicationClose {
                error_code: 1_u32.into(),
                reason: reason.into(),
            };
            let error = ConnectionError::ApplicationClosed(closed);
            refusals.count([10, 0, 0, 1].into(), &error, now).is_some()
        });
        assert_eq!(told.count(), 1);
    }
}
