//! Why the cloud has no keys.

use wire::enroll::{CertError, TokenError};

/// Why the cloud has no keys.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The API refused or failed.
    #[error("the Secrets with the cloud's keys cannot be read or written in namespace kubeedge")]
    Api(#[from] kube::Error),
    /// The API refused or failed.
    #[error(
        "the clients' authority cannot be written to ConfigMap kube-system/extension-apiserver-authentication"
    )]
    ClientCa(#[source] kube::Error),
    /// A Secret holds something else.
    #[error(
        "Secret kubeedge/{secret} is unusable: {why}; delete it, and a new one is made (nodes must then enrol anew)"
    )]
    Secret {
        /// Which.
        secret: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A certificate could not be made.
    #[error("a certificate could not be made")]
    Certificate(#[from] CertError),
    /// A token could not be made.
    #[error("the join token could not be made")]
    Token(#[from] TokenError),
    /// TLS does not take the certificate.
    #[error("TLS cannot use the cloud's certificate")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}
