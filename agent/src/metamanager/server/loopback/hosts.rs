//! The names under which a local server is asked: a web page reaches the loopback interface by a name of its own that is made to
//! resolve to it, and says its origin where it sends more than a plain read.

use std::net::IpAddr;

use http::{header, request::Parts, uri::Authority};

use super::super::super::answer::Refusal;

/// The names that are accepted.
#[derive(Debug)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// The loopback interface's own names, and these.
    pub(super) fn new(configured: Vec<String>) -> Self {
        Self(configured)
    }

    /// Refuses a request that was sent to another name, or by a page from elsewhere.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), Refusal> {
        let cure =
            "ask for it by a loopback address, or name it in modules.metaManager.metaServer.allowedHosts";
        let named = parts.headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let mut named: Vec<&str> = named.chain(parts.uri.authority().map(Authority::as_str)).collect();
        named.dedup();
        if named.is_empty() {
            return Err(Refusal::misdirected(&format!("the request names no host; {cure}")));
        }
        for host in named {
            if !self.is_accepted(host) {
                return Err(Refusal::misdirected(&format!("{host:?} is no name of MetaServer; {cure}")));
            }
        }
        for origin in parts.headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            if !self.is_accepted(host) {
                return Err(Refusal::forbidden(&format!(
                    "pages of {origin:?} may not use MetaServer; {cure}"
                )));
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
