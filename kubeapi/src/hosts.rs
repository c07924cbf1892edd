//! The names under which a server for programs of this machine is asked: a web page reaches the loopback interface by a name of its
//! own that is made to resolve to it (DNS rebinding), and says its origin where it sends more than a plain read.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode, Uri, header, uri::Authority};

/// The names that are accepted: the loopback interface's own, and these.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// By which the server is reached: pages of no other are its own.
    scheme: Scheme,
}

/// Plain or not.
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
pub struct NotOurs {
    /// The code to answer with.
    pub code: StatusCode,
    /// What is wrong.
    pub why: String,
}

impl Hosts {
    /// The loopback interface's own names, and these, of a server of this scheme.
    pub fn new(names: Vec<String>, scheme: Scheme) -> Self {
        Self { names, scheme }
    }

    /// Whether a request may go on: it names this server, and comes from no page, or from one that this very server has given (the same
    /// scheme, host and port, so that no other server of this machine can lend its pages). HTTP/2 and requests to proxies name the host in
    /// `uri`.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), NotOurs> {
        let misdirected = |why: String| Err(NotOurs { code: StatusCode::MISDIRECTED_REQUEST, why });
        let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let named: Vec<&str> = named.chain(uri.authority().map(Authority::as_str)).collect();
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
                return Err(NotOurs { code: StatusCode::FORBIDDEN, why });
            }
        }
        Ok(())
    }

    /// Whether the origin is that of this server, asked as `host`.
    fn is_same(&self, origin: &str, host: &str) -> bool {
        let place = |text: &str| {
            let authority = text.parse::<Authority>().ok()?;
            let name = authority.host().to_ascii_lowercase();
            let port = match authority.as_str().strip_prefix(authority.host())?.strip_prefix(':') {
                Some(port) => port.parse::<u16>().ok()?,
                None => self.scheme.port(),
            };
            Some((name, port))
        };
        let Some((scheme, from)) = origin.split_once("://") else { return false };
        scheme == self.scheme.name() && place(from).is_some_and(|from| Some(from) == place(host))
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
        is_loopback || is("localhost") || self.names.iter().any(|accepted| is(accepted))
    }
}
