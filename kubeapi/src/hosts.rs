//! Protects a server on the loopback interface from web pages: a page can reach it by a name of its own that resolves to the loopback
//! address (DNS rebinding), and names its origin where it sends more than a plain read.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, StatusCode, Uri, header, uri::Authority};

/// Browsers' header that says where a request comes from: <https://www.w3.org/TR/fetch-metadata/>.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// Its values for a page of this very server, and for a user who has typed the address. `same-site` is another port of this machine.
const OWN_SITES: [&str; 2] = ["same-origin", "none"];

/// The host names that are accepted: those of the loopback interface, and the configured ones.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// The scheme of the server's URLs; a page of another scheme is foreign.
    scheme: Scheme,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Why a request is refused: 421 for one that was sent to another name, 403 for one of a page from elsewhere.
#[derive(Debug)]
pub struct HostError {
    /// The status of the response.
    pub code: StatusCode,
    /// The fault of the request.
    pub why: String,
}

impl Hosts {
    /// Accepts the loopback interface's own names and `names`, for a server of this scheme.
    pub fn new(names: Vec<String>, scheme: Scheme) -> Self {
        Self { names, scheme }
    }

    /// Checks that a request names this server, and comes from no web page, or from a page of this very server (the same scheme, host
    /// and port, so that no other server of this machine is trusted). A plain read has no `Origin`; browsers send `Sec-Fetch-Site` with
    /// it. HTTP/2 and requests to proxies name the host in `uri`.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HostError> {
        let misdirected = |why: String| {
            Err(HostError {
                code: StatusCode::MISDIRECTED_REQUEST,
                why,
            })
        };
        let named = headers
            .get_all(header::HOST)
            .iter()
            .map(|host| host.to_str().unwrap_or_default());
        let named: Vec<&str> = named
            .chain(uri.authority().map(Authority::as_str))
            .collect();
        if named.is_empty() {
            return misdirected("the request names no host".to_owned());
        }
        if let Some(host) = named.iter().find(|host| !self.is_accepted(host)) {
            return misdirected(format!("{host:?} is no name of this server"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !named.iter().all(|host| self.is_same(origin, host)) {
                let why = format!("pages of {origin:?} may not use this server");
                return Err(HostError {
                    code: StatusCode::FORBIDDEN,
                    why,
                });
            }
        }
        let foreign = |site: &&HeaderValue| {
            !OWN_SITES
                .iter()
                .any(|own| site.as_bytes() == own.as_bytes())
        };
        if let Some(site) = headers.get_all(SEC_FETCH_SITE).iter().find(foreign) {
            let why = format!(
                "pages of another origin may not use this server (Sec-Fetch-Site: {site:?})"
            );
            return Err(HostError {
                code: StatusCode::FORBIDDEN,
                why,
            });
        }
        Ok(())
    }

    /// Reports whether the origin is this server, reached as `host`.
    fn is_same(&self, origin: &str, host: &str) -> bool {
        let place = |text: &str| {
            let authority = text.parse::<Authority>().ok()?;
            let name = authority.host().to_ascii_lowercase();
            let port = match authority
                .as_str()
                .strip_prefix(authority.host())?
                .strip_prefix(':')
            {
                Some(port) => port.parse::<u16>().ok()?,
                None => self.scheme.port(),
            };
            Some((name, port))
        };
        let Some((scheme, from)) = origin.split_once("://") else {
            return false;
        };
        scheme == self.scheme.name() && place(from).is_some_and(|from| Some(from) == place(host))
    }

    /// Reports whether `host`, with or without a port, is one of the accepted names.
    fn is_accepted(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        // what stands before an `@` is no part of the name, and no client sends it
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host().trim_matches(['[', ']']);
        let is_loopback = name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
        let is = |accepted: &str| name.eq_ignore_ascii_case(accepted.trim_matches(['[', ']']));
        is_loopback || is("localhost") || self.names.iter().any(|accepted| is(accepted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_pages_from_other_sites_are_rejected_also_without_an_origin() {
        let hosts = Hosts::new(Vec::new(), Scheme::Http);
        let uri: Uri = "/edge-1/default/a".parse().unwrap();
        for (sites, expected) in [
            (&[][..], None),
            (&["none"], None),
            (&["same-origin"], None),
            (&["cross-site"], Some(403)),
            (&["same-site"], Some(403)),
            (&["Same-Origin"], Some(403)),
            (&[""], Some(403)),
            (&["same-origin", "cross-site"], Some(403)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:9443"));
            for site in sites {
                headers.append(SEC_FETCH_SITE, HeaderValue::from_static(site));
            }
            let refused = hosts
                .check(&uri, &headers)
                .err()
                .map(|error| error.code.as_u16());
            assert_eq!(refused, expected, "{sites:?}");
        }
    }
}
