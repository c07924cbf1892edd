//! Extended key usages of node certificates.

use rcgen::ExtendedKeyUsagePurpose;

use super::CertError;

/// An extended key usage that a node may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// Server authentication.
    ServerAuth,
    /// Client authentication, with which a node connects to its cloud.
    ClientAuth,
}

impl Usage {
    /// Parses the header that requests usages: a JSON list of the numbers of Go's `crypto/x509`. Without a header, or with an empty list,
    /// the certificate is a client's.
    ///
    /// # Errors
    /// A usage is not one of the two, or the header is not such a list.
    pub fn parse_header(header: Option<&str>) -> Result<Vec<Self>, CertError> {
        let Some(text) = header else {
            return Ok(vec![Self::ClientAuth]);
        };
        let refused = || CertError::Usage(text.chars().take(64).collect());
        let codes: Vec<i64> = serde_json::from_str(text).map_err(|_| refused())?;
        let mut usages = Vec::new();
        for code in codes {
            let usage = match code {
                1 => Self::ServerAuth,
                2 => Self::ClientAuth,
                _ => return Err(refused()),
            };
            if !usages.contains(&usage) {
                usages.push(usage);
            }
        }
        Ok(if usages.is_empty() {
            vec![Self::ClientAuth]
        } else {
            usages
        })
    }
}

impl From<Usage> for ExtendedKeyUsagePurpose {
    fn from(usage: Usage) -> Self {
        match usage {
            Usage::ServerAuth => Self::ServerAuth,
            Usage::ClientAuth => Self::ClientAuth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Usage::*, *};

    #[test]
    fn the_header_of_go_codes() {
        for (header, usages) in [
            (None, vec![ClientAuth]),
            (Some("[]"), vec![ClientAuth]),
            (Some("[2]"), vec![ClientAuth]),
            (Some("[1, 2, 1]"), vec![ServerAuth, ClientAuth]),
        ] {
            assert_eq!(Usage::parse_header(header).unwrap(), usages);
        }
        for header in ["", "2", "[0]", "[2,3]", "[\"2\"]", "[-1]", "null"] {
            assert!(
                matches!(Usage::parse_header(Some(header)), Err(CertError::Usage(text)) if text == header),
                "{header}"
            );
        }
    }
}
