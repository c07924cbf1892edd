//! Addresses that no rule may call: those at which clouds serve the metadata and credentials of their machines.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
    vec,
};

use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;
use wire::metadata::is_metadata_address;

/// The message about a refused address.
pub(super) const METADATA_REFUSED: &str =
    "rules may not call link-local addresses and addresses of metadata services";

/// Reports whether a URL contains such an address literally; host names are checked when they are resolved.
pub(super) fn has_refused(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host.parse::<IpAddr>().is_ok_and(is_metadata_address)
}

/// Resolves host names, without the addresses that no rule may call.
#[derive(Clone, Debug)]
pub(super) struct Resolver(GaiResolver);

impl Resolver {
    pub(super) fn new() -> Self {
        Self(GaiResolver::new())
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(ready!(self.0.poll_ready(context)))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let asking = self.0.call(name);
        Box::pin(async move { filter_allowed(asking.await?) })
    }
}

fn filter_allowed(
    found: impl Iterator<Item = SocketAddr>,
) -> io::Result<vec::IntoIter<SocketAddr>> {
    let (refused, allowed): (Vec<_>, Vec<_>) =
        found.partition(|address| is_metadata_address(address.ip()));
    if allowed.is_empty() && !refused.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            METADATA_REFUSED,
        ));
    }
    Ok(allowed.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_of_a_machine_has_no_address_for_rules() {
        for host in [
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "[fe80::1]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[fd00:ec2::254]",
        ] {
            assert!(
                has_refused(&format!("http://{host}:80/latest").parse().unwrap()),
                "{host}"
            );
        }
        for host in [
            "127.0.0.1",
            "10.0.0.1",
            "[::1]",
            "[fd00:ec2::253]",
            "metadata.google.internal",
        ] {
            assert!(
                !has_refused(&format!("http://{host}/").parse().unwrap()),
                "{host}"
            );
        }
    }

    /// By a name that leads there, or an address that is written as only a resolver reads it.
    #[tokio::test]
    async fn a_name_does_not_lead_there() {
        for name in ["2852039166", "0xa9fea9fe", "169.254.43518", "100.100.25800"] {
            let found = Resolver::new().call(name.parse().unwrap()).await;
            assert_eq!(
                found.map(Vec::from_iter).unwrap_err().kind(),
                io::ErrorKind::PermissionDenied,
                "{name}"
            );
        }
        let found = Resolver::new()
            .call("127.1".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(
            found
                .map(|address| address.ip().to_string())
                .collect::<Vec<_>>(),
            ["127.0.0.1"]
        );
        let (near, far): (SocketAddr, SocketAddr) = (
            "169.254.169.254:80".parse().unwrap(),
            "192.0.2.1:80".parse().unwrap(),
        );
        assert_eq!(
            filter_allowed([near, far].into_iter())
                .unwrap()
                .collect::<Vec<_>>(),
            [far]
        );
    }
}
