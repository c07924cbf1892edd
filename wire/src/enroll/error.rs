//! What can go wrong with keys, certificates, requests and tokens.

use std::time::Duration;

/// Why there is no key, certificate or identity.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// The node name is not valid in Kubernetes.
    #[error(
        "{0:?} is not a valid node name; use at most 253 lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    )]
    NodeName(String),
    /// The bytes are not a key of the kind used here.
    #[error(
        "the key is not a P-256 key in SEC1 DER with its public key; generate one, or convert it with openssl ec -outform DER"
    )]
    Key,
    /// The CA's certificate holds another public key than its key does.
    #[error(
        "the CA's certificate and its key do not belong together; restore both from the same backup"
    )]
    Mismatch,
    /// The certificate may not sign others.
    #[error(
        "the certificate is not a CA certificate by its basic constraints; use the certificate of the CA"
    )]
    NotCa,
    /// The bytes are not a certificate.
    #[error("not an X.509 certificate in DER; if it is PEM, decode it first")]
    Certificate,
    /// The request is larger than a certificate request needs to be.
    #[error(
        "the certificate request has {size} bytes, more than the limit of {limit}; send a plain request in DER"
    )]
    RequestTooLarge {
        /// Size of the request, bytes.
        size: usize,
        /// Largest size that is read, bytes.
        limit: usize,
    },
    /// The bytes are not a request, or its own key did not sign it.
    #[error("not a PKCS#10 certificate request in DER with a valid signature; create a new one")]
    Request,
    /// The subject is neither a node's nor an administrator's.
    #[error(
        "the subject {0:?} is neither a node's (one O=system:nodes, one CN=system:node:<name>) nor an administrator's; enrol with a join token"
    )]
    Subject(String),
    /// The request asks for a usage that nodes do not have.
    #[error(
        "the extended key usages {0:?} are not issued to nodes; request 1 (serverAuth) or 2 (clientAuth), as [2]"
    )]
    Usage(String),
    /// A name is neither a DNS name nor an address.
    #[error(
        "{0:?} is neither a DNS name nor an IP address; use only these as subject alternative names"
    )]
    ServerName(String),
    /// A request for a server's certificate has no names.
    #[error(
        "the certificate request has no subject alternative names; add at least one DNS name or IP address"
    )]
    NoServerName,
    /// The time cannot be part of a certificate.
    #[error(
        "the certificate would expire after the last possible date; set the clock, or choose a shorter lifetime"
    )]
    Time,
    /// The library could not create it.
    #[error("cannot create the certificate or key")]
    Make(#[from] rcgen::Error),
}

/// Why a token is rejected.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The text is not a token.
    #[error("the token is malformed: {0}; copy it whole, or get a new one from the cloud")]
    Malformed(&'static str),
    /// The CA is not the one that the token names.
    #[error(
        "the token is of another cloud: the hash of its CA is {expected}, and that of this cloud's CA is {found}"
    )]
    WrongCa {
        /// The hash in the token.
        expected: String,
        /// The hash of the CA that was found.
        found: String,
    },
    /// The token has expired.
    #[error("the token has expired {} s ago; get a new one from the cloud, or set the clock", since.as_secs())]
    Expired {
        /// The time since then.
        since: Duration,
    },
    /// The token is not valid yet.
    #[error("the token is not valid until {} s from now; wait, or set the clock", until.as_secs())]
    TooEarly {
        /// The time until then.
        until: Duration,
    },
    /// Another key signed the token, or it was changed.
    #[error("the token is of another cloud: its signature does not match")]
    BadSignature,
    /// The token could not be signed.
    #[error(
        "cannot sign the token; the system returned no random numbers, or the claims are not a JSON object"
    )]
    Sign(#[source] jsonwebtoken::errors::Error),
}
