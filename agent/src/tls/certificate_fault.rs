//! Recognizes, in the error of a connection, that a certificate has expired or is not valid yet: the server's, or this node's own;
//! and that the server's certificate is for other names.

use std::{error::Error, io};

use quinn::{ConnectionError, TransportErrorCode};
use rustls::{AlertDescription, CertificateError};
use wire::text::printable;

/// The TLS alert `certificate_expired` (RFC 8446, section 6.2).
const CERTIFICATE_EXPIRED: u8 = 45;

/// A certificate that is not valid at this time or for this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// By this machine's clock, the server's certificate has expired.
    #[error(
        "its certificate has expired; renew it there, or set this machine's clock if it is fast"
    )]
    ServerExpired,
    /// By this machine's clock, the server's certificate is not valid yet.
    #[error("its certificate is not valid yet; set this machine's clock, or the server's")]
    ServerNotYetValid,
    /// By the server's clock, this node's certificate has expired or is not valid yet.
    #[error(
        "it rejected this node's certificate as expired or not yet valid; run `edge-agent reset` and join again \
         with a new token, or have cloudsim renew expired certificates (--renewal-grace)"
    )]
    NodeExpired,
    /// The server's certificate is for other names than the configured one.
    #[error("its certificate is for {names}, not for {name}; {}", name_cure(name))]
    WrongName {
        /// The configured name.
        name: String,
        /// The names in the certificate.
        names: String,
    },
}

/// Returns the cure of a certificate without this name.
pub(crate) fn name_cure(name: &str) -> String {
    format!(
        "use one of the certificate's names in edgecore.yaml, or add {name} to the cloud's certificate (cloudsim up --name {name}; \
         CloudCore: advertiseAddress)"
    )
}

/// Returns the names of a certificate as people write them; rustls has them as `DnsName("a")` and `IpAddress(10.0.0.1)`.
fn plain_names(names: &[String]) -> String {
    let plain = |name: &String| {
        let inner = name
            .split_once('(')
            .map_or(name.as_str(), |(_, inner)| inner);
        printable(inner.trim_end_matches(')').trim_matches('"'))
    };
    match names {
        [] => "no name at all".to_owned(),
        names => names.iter().map(plain).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the text of an error of a TLS handshake, in plain words if the certificate is of another CA. A CA that was created again has the
/// same name and another key; a certificate may also be its own CA.
pub(crate) fn handshake_text(error: &io::Error) -> String {
    use rustls::{
        CertificateError::{BadSignature, Other, UnknownIssuer},
        Error::InvalidCertificate,
    };
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls {
        Some(InvalidCertificate(BadSignature | UnknownIssuer | Other(_))) => {
            "another CA has signed its certificate".to_owned()
        }
        _ => error.to_string(),
    }
}

impl CertificateFault {
    /// Finds the fault in an error of TLS, HTTP, WebSocket or QUIC, or in its causes.
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // the source of an `io::Error` is that of the error inside it, which is skipped
            let inner = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            if let Some(fault) = inner
                .and_then(|inner| Self::find(inner))
                .or_else(|| Self::of(error))
            {
                return Some(fault);
            }
            next = error.source();
        }
        None
    }

    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Self::of_tls(error);
        }
        let expired = TransportErrorCode::crypto(CERTIFICATE_EXPIRED);
        match error.downcast_ref::<ConnectionError>()? {
            ConnectionError::TransportError(own) if own.code == expired => {
                match own.reason.contains("not valid yet") {
                    true => Some(Self::ServerNotYetValid),
                    false => Some(Self::ServerExpired),
                }
            }
            ConnectionError::TransportError(own) => Self::of_quic_reason(&own.reason),
            ConnectionError::ConnectionClosed(close) if close.error_code == expired => {
                Some(Self::NodeExpired)
            }
            _ => None,
        }
    }

    /// Finds a wrong name in the text of rustls, which is all that QUIC has of its error.
    fn of_quic_reason(reason: &str) -> Option<Self> {
        let (_, text) = reason.split_once("certificate not valid for name \"")?;
        let (name, text) = text.split_once('"')?;
        let (_, names) = text.split_once("only valid for ")?;
        let names = names.replace(" or ", ", ");
        let names: Vec<String> = names.split(", ").map(str::to_owned).collect();
        Some(Self::WrongName {
            name: printable(name),
            names: plain_names(&names),
        })
    }

    fn of_tls(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => Some(Self::ServerExpired),
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => Some(Self::ServerNotYetValid),
            rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
                Some(Self::NodeExpired)
            }
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected,
                presented,
            }) => Some(Self::WrongName {
                name: expected.to_str().into_owned(),
                names: plain_names(presented),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::UnixTime;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn expired_certificates_are_found_in_errors_and_their_causes() {
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
        let wrap = |inner: rustls::Error| Outer(io::Error::other(io::Error::other(inner)));
        for (error, expected) in [
            (
                CertificateError::Expired.into(),
                Some(CertificateFault::ServerExpired),
            ),
            (
                CertificateError::ExpiredContext {
                    time,
                    not_after: time,
                }
                .into(),
                Some(CertificateFault::ServerExpired),
            ),
            (
                CertificateError::NotValidYet.into(),
                Some(CertificateFault::ServerNotYetValid),
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateExpired),
                Some(CertificateFault::NodeExpired),
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: "10.0.0.1".try_into().unwrap(),
                    presented: vec!["DnsName(\"cloud\")".into(), "IpAddress(10.0.0.2)".into()],
                }
                .into(),
                Some(CertificateFault::WrongName {
                    name: "10.0.0.1".into(),
                    names: "cloud, 10.0.0.2".into(),
                }),
            ),
            (CertificateError::UnknownIssuer.into(), None),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateUnknown),
                None,
            ),
        ] {
            assert_eq!(CertificateFault::find(&wrap(error)), expected);
        }
        assert_eq!(CertificateFault::find(&ConnectionError::TimedOut), None);
    }

    #[test]
    fn wrong_name_is_found_in_the_text_of_quic() {
        for (reason, expected) in [
            (
                "invalid peer certificate: certificate not valid for name \"b.test\"; certificate is only valid for IpAddress(127.0.0.1), \
                 DnsName(\"a.test\") or DnsName(\"c.test\")",
                Some(("b.test", "127.0.0.1, a.test, c.test")),
            ),
            ("invalid peer certificate: UnknownIssuer", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, names)| CertificateFault::WrongName {
                name: name.to_owned(),
                names: names.to_owned(),
            });
            assert_eq!(CertificateFault::of_quic_reason(reason), expected);
        }
    }

    #[test]
    fn certificate_of_another_ca_is_described_in_plain_words() {
        for (error, expected) in [
            (
                CertificateError::UnknownIssuer,
                "another CA has signed its certificate",
            ),
            (
                CertificateError::BadSignature,
                "another CA has signed its certificate",
            ),
            (
                CertificateError::BadEncoding,
                "invalid peer certificate: BadEncoding",
            ),
        ] {
            let error = io::Error::other(rustls::Error::from(error));
            assert_eq!(handshake_text(&error), expected);
        }
    }
}
