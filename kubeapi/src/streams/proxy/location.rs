//! Rewrites the links of a backend: its redirects, and those in its pages. Pure.

use http::Uri;

/// Returns the link for the proxy's client; `None` where it is unchanged.
///
/// Source: `rewriteURL` of the real server's transport.
pub(super) fn link_through_proxy(location: &str, prefix: &str) -> Option<String> {
    // a location on another server is not the proxy's, nor is one that is relative
    let uri: Uri = location
        .parse()
        .ok()
        .filter(|_| location.starts_with('/') && !location.starts_with("//"))?;
    if uri.path().starts_with(prefix) {
        return None;
    }
    Some(format!("{prefix}{location}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_become_the_proxys() {
        let of = |location: &str| link_through_proxy(location, "/api/v1/nodes/n/proxy");
        assert_eq!(
            of("/a/?b=c").as_deref(),
            Some("/api/v1/nodes/n/proxy/a/?b=c")
        );
        for same in [
            "a",
            "../a",
            "https://example.com/a",
            "//example.com/a",
            "/api/v1/nodes/n/proxy/a",
            "\u{1}",
        ] {
            assert_eq!(of(same), None, "{same}");
        }
    }
}
