//! What can go wrong with keys, certificates, requests and tokens.

use std::time::Duration;

/// Why there is no key, certificate or identity.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A node's name that Kubernetes would not take.
    #[error(
        "{0:?} is no node name: use at most 253 lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    )]
    NodeName(String),
    /// Bytes that are no key of the kind used here.
    #[error(
        "the key is no P-256 key in SEC1 DER with its public half; generate one, or convert it with openssl ec -outform DER"
    )]
    Key,
    /// A CA whose certificate holds another public key than its key does.
    #[error("the CA's certificate and its key do not belong together; restore both from the same backup")]
    Mismatch,
    /// A certificate that may sign nothing.
    #[error(
        "the certificate is no CA's (its basic constraints do not say so); give the CA's own certificate"
    )]
    NotCa,
    /// Bytes that are no certificate.
    #[error("no X.509 certificate in DER; if it is PEM, decode it first")]
    Certificate,
    /// A request beyond what a certificate request needs.
    #[error(
        "the certificate request has {size} bytes, more than the limit of {limit}; send a plain request in DER"
    )]
    RequestTooLarge {
        /// Its length.
        size: usize,
        /// What is read.
        limit: usize,
    },
    /// Bytes that are no request, or one that its own key did not sign.
    #[error("no PKCS#10 certificate request in DER that its own key has signed; make a new one")]
    Request,
    /// A subject that is neither a node's nor an administrator's.
    #[error(
        "the subject {0:?} is neither a node's (one O=system:nodes, one CN=system:node:<name>) nor an administrator's; enrol with a join token"
    )]
    Subject(String),
    /// A certificate is asked for something that nodes do not do.
    #[error(
        "the extended key usages {0:?} are not issued to nodes; ask for 1 (serverAuth) or 2 (clientAuth), as [2]"
    )]
    Usage(String),
    /// No name, or one that is neither a DNS name nor an address.
    #[error("{0:?} can stand in no server certificate; give DNS names or IP addresses, at least one")]
    ServerName(String),
    /// A time that a certificate cannot hold.
    #[error(
        "the certificate's lifetime ends beyond the calendar; set the clock, or choose a shorter lifetime"
    )]
    Time,
    /// The library could not make it.
    #[error("the certificate or key could not be made")]
    Make(#[from] rcgen::Error),
}

/// Why a token is not taken.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is no token.
    #[error("the token is malformed: {0}; copy it whole, or get a new one from the cloud")]
    Malformed(&'static str),
    /// The CA is not the one that the token names.
    #[error(
        "the cloud's CA has the hash {found} and the token is for {expected}; get a new token from this cloud, or check its address"
    )]
    WrongCa {
        /// The hash in the token.
        expected: String,
        /// The hash of the CA that is there.
        found: String,
    },
    /// Its time is over.
    #[error("the token has expired {} s ago; get a new one from the cloud, or set the clock", since.as_secs())]
    Expired {
        /// How long ago.
        since: Duration,
    },
    /// Its time has not begun.
    #[error("the token is valid only in {} s; wait, or set the clock", until.as_secs())]
    TooEarly {
        /// How long until then.
        until: Duration,
    },
    /// Another key signed it, or it was changed.
    #[error("the token's signature is not this cloud's; get a new token from this cloud")]
    BadSignature,
    /// It could not be signed.
    #[error(
        "the token could not be signed; the system gives no randomness, or the claims are no JSON object"
    )]
    Sign(#[source] jsonwebtoken::errors::Error),
}
