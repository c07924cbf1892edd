//! The names under which a server for programs of this machine is asked: a web page reaches the loopback interface by a name of its
//! own that is made to resolve to it (DNS rebinding), and says its origin where it sends more than a plain read.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode, Uri, header, uri::Authority};

/// The names that are accepted: the loopback interface's own, and these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<String>);

/// Why a request is refused: 421 for one that was sent to another name, 403 for one of a page from elsewhere.
#[derive(Debug)]
pub(crate) struct NotOurs {
    /// The code to answer with.
    pub(crate) code: StatusCode,
    /// What is wrong.
    pub(crate) why: String,
}

impl Hosts {
    /// The loopback interface's own names, and these.
    pub(crate) fn new(configured: Vec<String>) -> Self {
        Self(configured)
    }

    /// Whether a request may go on. HTTP/2 and requests to proxies name the host in `uri`.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), NotOurs> {
        let misdirected = |why: String| Err(NotOurs { code: StatusCode::MISDIRECTED_REQUEST, why });
        let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let mut named = named.chain(uri.authority().map(Authority::as_str)).peekable();
        if named.peek().is_none() {
            return misdirected("the request names no host".to_owned());
        }
        if let Some(host) = named.find(|host| !self.is_accepted(host)) {
            return misdirected(format!("{host:?} is no name of this server"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            if !self.is_accepted(host) {
                let why = format!("pages of {origin:?} may not use this server");
                return Err(NotOurs { code: StatusCode::FORBIDDEN, why });
            }
        }
        Ok(())
    }

    /// Whether `host`, with a port or without, is one of the names.
    fn is_accepted(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        // what stands before an `@` is no part of the name, and no client sends it
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host().trim_matches(['[', ']']);
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is = |accepted: &str| name.eq_ignore_ascii_case(accepted.trim_matches(['[', ']']));
        is_loopback || is("localhost") || self.0.iter().any(|accepted| is(accepted))
    }
}
