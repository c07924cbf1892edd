//! Faults of the certificate that the servers for nodes show.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The certificate that CloudHub and the enrolment server show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Certificate {
    /// The cloud's own certificate.
    #[default]
    Genuine,
    /// Signed by the cloud's authority, and expired.
    Expired,
    /// Signed by the cloud's authority, and valid from tomorrow on.
    NotYetValid,
    /// Signed by the cloud's authority, for another name.
    WrongName,
    /// Signed by an unknown authority. Nodes' certificates are still checked against the cloud's own.
    UnknownAuthority,
    /// Signed by a new authority of the cloud, which then must also have signed nodes' certificates.
    RotatedAuthority,
}

/// There is no fault of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown certificate {0:?}; choose one of genuine, expired, notYetValid, wrongName, unknownAuthority, rotatedAuthority"
)]
pub struct UnknownCertificate(String);

impl Certificate {
    /// All values.
    pub const ALL: [Self; 6] = [
        Self::Genuine,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongName,
        Self::UnknownAuthority,
        Self::RotatedAuthority,
    ];

    /// Returns the name of the value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::Expired => "expired",
            Self::NotYetValid => "notYetValid",
            Self::WrongName => "wrongName",
            Self::UnknownAuthority => "unknownAuthority",
            Self::RotatedAuthority => "rotatedAuthority",
        }
    }
}

impl FromStr for Certificate {
    type Err = UnknownCertificate;

    fn from_str(text: &str) -> Result<Self, UnknownCertificate> {
        let found = Self::ALL
            .into_iter()
            .find(|certificate| certificate.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownCertificate(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name() {
        let said = UnknownCertificate(String::new()).to_string();
        for certificate in Certificate::ALL {
            assert_eq!(certificate.name().parse(), Ok(certificate));
            assert_eq!(
                serde_json::to_value(certificate).unwrap(),
                certificate.name()
            );
            assert!(said.contains(certificate.name()), "{said}");
        }
    }
}
