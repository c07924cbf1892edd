//! The header `Via` (RFC 9110 7.6.3) of this cloud's calls, by which its router detects loops: rules that lead to the router would repeat
//! forever, and reach rules of other namespaces without a token.

use http::{HeaderMap, HeaderValue, header};
use wire::enroll::sha256_hex;

/// The number of hex digits of the CA's digest in a cloud's name.
const DIGITS: usize = 16;

/// The cloud's name in `Via`; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via(HeaderValue);

impl Via {
    /// Derives the name from the cloud's CA certificate (DER), which its replicas share.
    pub fn of_authority(certificate: &[u8]) -> Self {
        let digest = sha256_hex(certificate);
        let value = format!("1.1 cloudsim-{}", digest.get(..DIGITS).unwrap_or(&digest));
        // only letters and digits
        Self(
            HeaderValue::from_str(&value)
                .unwrap_or_else(|_| HeaderValue::from_static("1.1 cloudsim")),
        )
    }

    /// Returns the header's value in this cloud's calls.
    pub(super) fn value(&self) -> HeaderValue {
        self.0.clone()
    }

    /// Reports whether a request has passed this cloud, directly or through proxies, which add themselves.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let own = name_of(self.0.as_bytes());
        let hops = headers
            .get_all(header::VIA)
            .into_iter()
            .flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
        hops.into_iter().any(|hop| {
            name_of(hop).is_some_and(|name| own.is_some_and(|own| name.eq_ignore_ascii_case(own)))
        })
    }
}

/// Returns the second word of a hop: `1.1 NAME (comment)`.
fn name_of(hop: &[u8]) -> Option<&[u8]> {
    hop.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_knows_its_own_calls() {
        let (own, other) = (Via::of_authority(b"a"), Via::of_authority(b"b"));
        let name = own
            .value()
            .to_str()
            .unwrap()
            .strip_prefix("1.1 ")
            .unwrap()
            .to_owned();
        let sent = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::VIA, value.parse().unwrap());
            }
            headers
        };
        for values in [
            &[&*format!("1.1 {name}")][..],
            &[&format!("1.0 fred, 1.1 {name}, 1.1 proxy (a comment)")],
            &["1.0 fred", &format!("HTTP/2  {} (x),", name.to_uppercase())],
        ] {
            assert!(own.is_in(&sent(values)), "{values:?}");
            assert!(!other.is_in(&sent(values)), "{values:?}");
        }
        for values in [
            &[][..],
            &[""],
            &[","],
            &["1.1"],
            &[&*name],
            &[&format!("1.1 {name}0")],
            &["1.1 proxy"],
        ] {
            assert!(!own.is_in(&sent(values)), "{values:?}");
        }
    }
}
