//! What may be wrong with the certificate that the servers for nodes show.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What CloudHub and the enrolment server show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Certificate {
    /// The cloud's own.
    #[default]
    Genuine,
    /// Of the cloud's authority, and expired.
    Expired,
    /// Of the cloud's authority, and good from tomorrow on.
    NotYetValid,
    /// Of the cloud's authority, for another name.
    WrongName,
    /// Of an authority that nobody knows. Nodes' certificates are still those of the cloud's own.
    UnknownAuthority,
    /// The cloud has a new authority: it shows a certificate of that, and nodes need one, too.
    RotatedAuthority,
}

/// A name that no such certificate has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no certificate {0:?}; choose one of genuine, expired, notYetValid, wrongName, unknownAuthority, rotatedAuthority"
)]
pub struct UnknownCertificate(String);

impl Certificate {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::Genuine,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongName,
        Self::UnknownAuthority,
        Self::RotatedAuthority,
    ];

    /// Its name.
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
        let found = Self::ALL.into_iter().find(|certificate| certificate.name().eq_ignore_ascii_case(text));
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
            assert_eq!(serde_json::to_value(certificate).unwrap(), certificate.name());
            assert!(said.contains(certificate.name()), "{said}");
        }
    }
}
