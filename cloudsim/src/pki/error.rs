//! Errors of the cloud's keys and certificates.

use wire::enroll::{CertError, TokenError};

/// The cloud's keys cannot be read or created.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// An API call failed.
    #[error("cannot read or write the Secrets with the cloud's keys in namespace kubeedge")]
    Api(#[from] kube::Error),
    /// The ConfigMap of the clients' CA cannot be written.
    #[error(
        "cannot write the client CA to ConfigMap kube-system/extension-apiserver-authentication"
    )]
    ClientCa(#[source] kube::Error),
    /// A Secret has invalid contents.
    #[error(
        "Secret kubeedge/{secret} is unusable: {why}; delete it to create a new one (nodes must then enrol again)"
    )]
    Secret {
        /// The name of the Secret.
        secret: &'static str,
        /// The reason.
        why: String,
    },
    /// A Secret is stored and cannot be read.
    #[error(
        "Secret kubeedge/{secret} is damaged ({why}); restore the data directory from a copy, or run \
         `cloudsim db repair` (nodes must then enrol again)"
    )]
    Damaged {
        /// The name of the Secret.
        secret: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be signed.
    #[error("cannot create a certificate")]
    Certificate(#[from] CertError),
    /// A token could not be signed.
    #[error("cannot create a join token")]
    Token(#[from] TokenError),
    /// The TLS library rejects the certificate.
    #[error("TLS cannot use the cloud's certificate")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}
